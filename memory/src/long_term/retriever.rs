//! [`ScopedFacts`]: the facts of some scopes as a [`Retriever`].

use async_trait::async_trait;
use loopwright_core::retrieval::{Passage, RetrievalError, Retriever};

use super::error::LongTermError;
use super::fact::{Fact, Scope};
use super::store::LongTerm;

/// A [`Retriever`] that finds facts of fixed scopes. Built by [`LongTerm::scoped`].
#[derive(Clone)]
pub struct ScopedFacts {
    memory: LongTerm,
    scopes: Vec<Scope>,
}

impl LongTerm {
    /// Returns a [`Retriever`] that finds facts of these scopes only. The source of a passage is
    /// `fact` and its id.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use loopwright_core::retrieval::Retriever;
    /// use loopwright_memory::long_term::{LongTerm, Scope};
    /// # let folder = tempfile::tempdir()?;
    ///
    /// let memory = LongTerm::open(folder.path().join("facts.db"))?;
    /// memory.remember(&Scope::project("ark"), "The ark has three decks.").await?;
    /// let found = memory.scoped([Scope::project("ark")]).retrieve("decks", 3).await?;
    /// assert_eq!((found[0].source.as_str(), found.len()), ("fact 1", 1));
    /// # Ok(()) }
    /// ```
    pub fn scoped(&self, scopes: impl IntoIterator<Item = Scope>) -> ScopedFacts {
        ScopedFacts { memory: self.clone(), scopes: scopes.into_iter().collect() }
    }
}

#[async_trait]
impl Retriever for ScopedFacts {
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Passage>, RetrievalError> {
        let ranked = self.memory.ranked(&self.scopes, query, limit).await;
        let ranked = ranked.map_err(|error| match error {
            LongTermError::Embedder(error) => error,
            error => RetrievalError::failed(error),
        })?;
        let passage = |(fact, score): (Fact, f32)| {
            Passage::new(fact.text).source(format!("fact {}", fact.id)).score(score)
        };
        Ok(ranked.into_iter().map(passage).collect())
    }
}
