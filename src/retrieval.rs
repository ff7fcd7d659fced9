//! The extension points for finding texts that fit a query: [`Retriever`] and [`Embedder`].

use std::sync::Arc;

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

pub use crate::error::RetrievalError;

/// A search for passages that fit a query: in documents, in facts about a user, or on the web.
///
/// # Contract
///
/// - [`retrieve`](Retriever::retrieve) must return at most `limit` passages, the best first. No
///   passage fits an empty query; a limit of zero returns none.
/// - The query is text of a user or of a model. Treat it as data: whatever it contains, the
///   retriever must return only passages that it is meant to show.
/// - One value serves every session, possibly at the same time. If it may show some passages to one
///   principal only, fix that principal when the value is built: build one for each principal.
/// - It may panic. A pattern that calls it then ends the run with
///   [`StepError::Panicked`](crate::StepError::Panicked).
///
/// # Cancellation
///
/// The future may be dropped at any time.
///
/// # Example
///
/// A search for the notes that contain a word of the query:
///
/// ```
/// use async_trait::async_trait;
/// use loopwright_core::retrieval::{Passage, RetrievalError, Retriever};
///
/// struct Notes(Vec<String>);
///
/// #[async_trait]
/// impl Retriever for Notes {
///     async fn retrieve(
///         &self,
///         query: &str,
///         limit: usize,
///     ) -> Result<Vec<Passage>, RetrievalError> {
///         let count = |note: &str| query.split_whitespace().filter(|w| note.contains(w)).count();
///         let mut found: Vec<Passage> = (self.0.iter().enumerate())
///             .filter(|(_, note)| count(note) > 0)
///             .map(|(at, note)| {
///                 Passage::new(note).source(format!("note {at}")).score(count(note) as f32)
///             })
///             .collect();
///         found.sort_by(|a, b| b.score.total_cmp(&a.score));
///         found.truncate(limit);
///         Ok(found)
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), RetrievalError> {
/// let notes = Notes(vec!["buy milk".into(), "water the plants".into()]);
/// let found = notes.retrieve("which plants to water", 3).await?;
/// assert_eq!(found[0].text, "water the plants");
/// assert_eq!(found[0].source, "note 1");
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Retriever: Send + Sync {
    /// Returns at most `limit` passages that fit the query, the best first.
    ///
    /// # Errors
    ///
    /// Fails if the source cannot be read.
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Passage>, RetrievalError>;
}

#[async_trait]
impl<R: Retriever + ?Sized> Retriever for Arc<R> {
    async fn retrieve(&self, query: &str, limit: usize) -> Result<Vec<Passage>, RetrievalError> {
        (**self).retrieve(query, limit).await
    }
}

/// A text that a [`Retriever`] found.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Passage {
    /// The text of the passage.
    pub text: String,
    /// The origin of the text, for citations: a path, an address, the id of a fact. Empty if
    /// unknown.
    #[serde(default)]
    pub source: String,
    /// The quality of the match: a higher score fits better. Scores of different retrievers, and of
    /// different queries, cannot be compared.
    #[serde(default)]
    pub score: f32,
}

impl Passage {
    /// Builds a passage without a source, with the score 0.
    pub fn new(text: impl Into<String>) -> Self {
        Passage { text: text.into(), ..Self::default() }
    }

    /// Sets the origin of the text.
    pub fn source(mut self, source: impl Into<String>) -> Self {
        self.source = source.into();
        self
    }

    /// Sets how well it fits the query.
    pub fn score(mut self, score: f32) -> Self {
        self.score = score;
        self
    }
}

/// A model that turns texts into vectors. Texts with similar meanings get vectors with close
/// directions.
///
/// # Contract
///
/// - [`embed`](Embedder::embed) must return one vector for each text, in their order, each of
///   [`dimensions`](Embedder::dimensions) finite numbers. The vectors need not be normalised.
/// - [`id`](Embedder::id) must name the model and everything that changes its vectors. Stored
///   vectors are only compared with vectors of an embedder with the same id.
/// - One value serves every session, possibly at the same time.
///
/// # Cancellation
///
/// The future may be dropped at any time.
///
/// # Example
///
/// An embedder that counts letters, which compares spelling and not meaning:
///
/// ```
/// use async_trait::async_trait;
/// use loopwright_core::retrieval::{Embedder, RetrievalError};
///
/// struct Letters;
///
/// #[async_trait]
/// impl Embedder for Letters {
///     async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError> {
///         let count = |text: &String, c: char| text.chars().filter(|other| *other == c).count();
///         let vector = |text| ('a'..='z').map(|c| count(text, c) as f32).collect();
///         Ok(texts.iter().map(vector).collect())
///     }
///
///     fn dimensions(&self) -> usize {
///         26
///     }
///
///     fn id(&self) -> &str {
///         "letters"
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), RetrievalError> {
/// let vectors = Letters.embed(&["abba".into()]).await?;
/// assert_eq!(vectors[0][..2], [2.0, 2.0]);
/// # Ok(()) }
/// ```
#[async_trait]
pub trait Embedder: Send + Sync {
    /// Returns one vector for each text, in their order.
    ///
    /// # Errors
    ///
    /// Fails if a vector is missing. There is no partial result.
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError>;

    /// Returns how many numbers each vector has.
    fn dimensions(&self) -> usize;

    /// Returns the id of the model, including everything that changes its vectors.
    fn id(&self) -> &str;
}

#[async_trait]
impl<E: Embedder + ?Sized> Embedder for Arc<E> {
    async fn embed(&self, texts: &[String]) -> Result<Vec<Vec<f32>>, RetrievalError> {
        (**self).embed(texts).await
    }

    fn dimensions(&self) -> usize {
        (**self).dimensions()
    }

    fn id(&self) -> &str {
        (**self).id()
    }
}
