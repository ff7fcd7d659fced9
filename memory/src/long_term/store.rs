//! [`LongTerm`]: a store of facts that finds them by words and by meaning.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::log::MemoryError;
use loopwright_core::retrieval::{Embedder, RetrievalError};
use loopwright_core::{Environment, SystemEnvironment};
use rusqlite::Connection;

use super::error::LongTermError;
use super::fact::{Fact, NewFact, Scope};
use super::file::File;
use super::vectors::{QueryVector, VectorCache};
use super::{facts, recall, vectors};

/// Maximum size of the vectors in RAM, unless [`LongTerm::vector_memory`] sets it.
const DEFAULT_VECTOR_BYTES: usize = 512 * 1024 * 1024;

/// Timeout for the embedding of a query, since a run waits for it.
const EMBED_QUERY_TIMEOUT: Duration = Duration::from_secs(5);

/// Maximum number of a query's bytes that are embedded: models take only short texts.
const MAX_EMBEDDED_QUERY_BYTES: usize = 4_000;

/// The number of texts passed to the embedder at once.
const EMBED_BATCH: usize = 64;

/// A store of facts in one SQLite file, for any number of sessions and processes. Clones share it.
///
/// A fact is a sentence about a [`Scope`]: a user, an agent or a project. Facts are found in the
/// scopes that the caller names, by the words of a query and, with an
/// [`Embedder`](LongTerm::embedder), by its meaning.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, Principal, RunContext};
/// use loopwright_memory::long_term::{LongTerm, Scope};
/// use loopwright_patterns::PiPattern;
/// use serde_json::json;
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("facts.db");
///
/// let memory = LongTerm::open(path)?;
/// # let fact = json!({ "fact": "The user's cat is called Minka." });
/// # let replies = [
/// #     Script::calls([("1", "remember_fact", fact)]),
/// #     Script::text("I will remember that."),
/// #     Script::text("Minka."),
/// # ];
/// # let model = ScriptedModel::new(replies);
/// # let requests = model.clone();
/// let agent = GenericAgent::builder(model, PiPattern)
///     .tools(memory.tools()) // the model remembers, recalls and forgets facts
///     .hook(memory.hook()) // facts that fit a request are added to it
///     .build()?;
///
/// let ann = || RunContext::new().with(Principal::new("ann"));
/// let (monday, _events) = agent.run(ann()).await?;
/// monday.prompt("My cat is called Minka.").await?;
/// let (friday, _events) = agent.run(ann()).await?;
/// friday.prompt("What is my cat called?").await?;
///
/// # let request = requests.requests().pop().unwrap();
/// # assert!(request.messages[0].text().contains("Minka"));
/// let facts = memory.recall(&[Scope::user("ann")], "cat", 5).await?;
/// assert_eq!(facts[0].text, "The user's cat is called Minka.");
/// memory.forget_all(&Scope::user("ann")).await?;
/// # Ok(()) }
/// ```
///
/// - **Scopes.** The scope is a condition of every statement that reads or deletes facts. No text
///   of a query, and no id, finds a fact of another scope.
/// - **Same facts.** A text that differs from a stored one only in case and white space is the same
///   fact: its time is refreshed.
/// - **Words** are compared by their English stems, without case and accents. Chinese and Japanese
///   text is compared character by character. At most 32 words of a query are looked up. A word in
///   more than 1,000 facts of a scope only adds to the score of facts found by rarer words. If all
///   words are that common, they find the newest facts.
/// - **Meaning.** The vector of the query is compared with all vectors of a scope. They are kept in
///   RAM, up to [`vector_memory`](LongTerm::vector_memory), 512 MiB by default: 100,000 vectors of
///   384 dimensions need 154 MB. The least recently used scopes are removed from RAM. A scope that
///   does not fit is read from the file for each query.
/// - **Ranking.** The two rankings are merged by reciprocal rank fusion (Cormack, Clarke and
///   Büttcher, 2009).
/// - **Deletion.** Forgotten facts are overwritten in the file, its index and its write-ahead log.
///   While another process reads, the log is emptied later, and a warning is logged.
/// - **Files.** While the file is open, `-wal` and `-shm` are beside it. It must be on a local
///   disk, and cannot be the file of [`Sqlite`](crate::Sqlite). It is accessible to the user only,
///   and is not encrypted.
/// - **Limits.** A fact has at most [`MAX_FACT_BYTES`](super::MAX_FACT_BYTES) bytes.
///
/// Must be used within a tokio runtime. The work is done on its blocking threads. A change takes
/// place even if its future is dropped.
#[derive(Clone)]
pub struct LongTerm {
    pub(super) file: File,
    embedder: Option<Arc<dyn Embedder>>,
    vectors: Arc<VectorCache>,
    min_similarity: f32,
    pub(super) environment: Arc<dyn Environment>,
}

impl LongTerm {
    /// Opens the file, creating it and its folders if they are missing, accessible to the user
    /// only. Blocks for a few milliseconds.
    ///
    /// # Errors
    ///
    /// Returns [`MemoryError::Newer`] for a file of a newer version, [`MemoryError::Damaged`] for a
    /// damaged file, and [`MemoryError::Failed`] for a file of something else. Such a file is left
    /// untouched.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MemoryError> {
        let environment = Arc::new(SystemEnvironment);
        let now = environment.now();
        Ok(LongTerm {
            file: File::open(path.as_ref(), |connection| facts::prune(connection, now))?,
            embedder: None,
            vectors: Arc::new(VectorCache::new(DEFAULT_VECTOR_BYTES)),
            min_similarity: 0.0,
            environment,
        })
    }

    /// Finds facts by meaning too, with the vectors of this embedder. [`LongTerm::embed_missing`]
    /// adds the vectors of facts that were stored without it.
    ///
    /// A failure of the embedder is logged: the fact is then stored without a vector, and recalled
    /// by words only.
    pub fn embedder(mut self, embedder: impl Embedder + 'static) -> Self {
        self.embedder = Some(Arc::new(embedder));
        self
    }

    /// Sets the similarity above which a query finds a fact by its meaning: the cosine of the angle
    /// between their vectors, from -1 to 1. Defaults to 0. The value that separates related from
    /// unrelated texts depends on the embedder.
    pub fn min_similarity(mut self, cosine: f32) -> Self {
        self.min_similarity = cosine;
        self
    }

    /// Sets the maximum size of the vectors in RAM, in bytes. Defaults to 512 MiB. Clones made
    /// before are unaffected, and have their own.
    pub fn vector_memory(mut self, bytes: usize) -> Self {
        self.vectors = Arc::new(VectorCache::new(bytes));
        self
    }

    /// Sets the clock, for tests.
    pub fn environment(mut self, environment: impl Environment + 'static) -> Self {
        self.environment = Arc::new(environment);
        self
    }

    /// Stores a fact, or refreshes the time of the fact with the same text, and returns it.
    ///
    /// # Errors
    ///
    /// Returns [`LongTermError::TooLong`] or [`LongTermError::Empty`] for an invalid text, and
    /// [`LongTermError::Store`] if the file cannot be written.
    pub async fn remember(
        &self,
        scope: &Scope,
        fact: impl Into<NewFact>,
    ) -> Result<Fact, LongTermError> {
        let (scope, new, now) = (scope.clone(), fact.into(), self.environment.now());
        scope.check()?;
        new.check()?;
        let fact = self.file.write(move |tx| facts::remember(tx, &scope, &new, now)).await?;
        self.embed(std::slice::from_ref(&fact)).await;
        Ok(fact)
    }

    /// Stores facts like [`LongTerm::remember`], once for a key, and returns their ids. For a known
    /// key, it stores nothing and returns the ids of the first call.
    pub(super) async fn remember_once(
        &self,
        key: String,
        scope: &Scope,
        new: Vec<NewFact>,
    ) -> Result<Vec<u64>, LongTermError> {
        let (scope, now) = (scope.clone(), self.environment.now());
        scope.check()?;
        new.iter().try_for_each(NewFact::check)?;
        let store = move |tx: &_| facts::remember_once(tx, &key, &scope, &new, now);
        let (ids, facts) = self.file.write(store).await?;
        self.embed(&facts).await;
        Ok(ids)
    }

    /// Deletes a fact of this scope. Returns whether it existed.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub async fn forget(&self, scope: &Scope, id: u64) -> Result<bool, LongTermError> {
        let scope = scope.clone();
        self.file.delete(move |tx| facts::forget(tx, &scope, id)).await
    }

    /// Deletes all facts of the scope, and its name. Returns the number of facts.
    ///
    /// The contents of sessions are not deleted; see
    /// [`SessionStore::delete`](loopwright_core::SessionStore::delete).
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be written.
    pub async fn forget_all(&self, scope: &Scope) -> Result<u64, LongTermError> {
        let scope = scope.clone();
        let delete =
            move |tx: &_| Ok((facts::scope_id(tx, &scope)?, facts::forget_all(tx, &scope)?));
        let (id, count) = self.file.delete(delete).await?;
        if let Some(id) = id {
            self.vectors.remove(id);
        }
        Ok(count)
    }

    /// Returns at most `limit` facts of the scopes with ids above `after`, by id, which is the
    /// order of storing. For the first page `after` is 0, for each further page the last id of the
    /// page before.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read.
    pub async fn facts(
        &self,
        scopes: &[Scope],
        after: u64,
        limit: usize,
    ) -> Result<Vec<Fact>, LongTermError> {
        let scopes = scopes.to_vec();
        self.file.read(move |connection| facts::page(connection, &scopes, after, limit)).await
    }

    /// Returns at most `limit` facts of the scopes that fit the query, best first.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read. A failure of the embedder is logged, and facts are found
    /// only by words.
    pub async fn recall(
        &self,
        scopes: &[Scope],
        query: &str,
        limit: usize,
    ) -> Result<Vec<Fact>, LongTermError> {
        let ranked = self.ranked(scopes, query, limit).await?;
        Ok(ranked.into_iter().map(|(fact, _)| fact).collect())
    }

    /// Returns at most `limit` facts with their scores, best first.
    pub(super) async fn ranked(
        &self,
        scopes: &[Scope],
        query: &str,
        limit: usize,
    ) -> Result<Vec<(Fact, f32)>, LongTermError> {
        if limit == 0 || !query.contains(char::is_alphanumeric) {
            return Ok(Vec::new());
        }
        let vector = self.query_vector(query).await;
        let (scopes, query) = (scopes.to_vec(), query.to_owned());
        let (vectors, min) = (self.vectors.clone(), self.min_similarity);
        let read = move |connection: &_| {
            recall::search(connection, &scopes, &query, vector.as_ref(), &vectors, min, limit)
        };
        self.file.read(read).await
    }

    async fn query_vector(&self, query: &str) -> Option<QueryVector> {
        let embedder = self.embedder.as_ref()?;
        let query = query[..query.floor_char_boundary(MAX_EMBEDDED_QUERY_BYTES)].to_owned();
        let vectors = self.embed_texts(&**embedder, vec![query]);
        let Ok(vectors) = tokio::time::timeout(EMBED_QUERY_TIMEOUT, vectors).await else {
            let limit = EMBED_QUERY_TIMEOUT;
            tracing::warn!(?limit, "the embedder is slow: facts are recalled by words only");
            return None;
        };
        let vectors = vectors.inspect_err(|error| {
            tracing::warn!(%error, "facts are recalled by words only");
        });
        let values = vectors.ok()?.pop().flatten()?;
        Some(QueryVector { embedder: embedder.id().into(), values })
    }

    /// Stores the vectors of facts that were stored without the current embedder, and returns their
    /// number. A host calls it after setting its first embedder or another one, and after failures
    /// of the embedder.
    ///
    /// # Errors
    ///
    /// Returns [`LongTermError::Embedder`] if the embedder fails. Vectors stored before that are
    /// kept.
    pub async fn embed_missing(&self) -> Result<u64, LongTermError> {
        let Some(embedder) = &self.embedder else { return Ok(0) };
        let (mut after, mut count) = (0, 0);
        loop {
            let id = embedder.id().to_owned();
            let read = move |connection: &_| vectors::missing(connection, &id, after, EMBED_BATCH);
            let missing: Vec<(u64, String)> = self.file.read(read).await?;
            let Some((last, _)) = missing.last() else { return Ok(count) };
            after = *last;
            count += self.embed_batch(&**embedder, missing).await?;
        }
    }

    /// Stores the vectors of these facts. A failure is logged, since the facts are stored.
    pub(super) async fn embed(&self, facts: &[Fact]) {
        let Some(embedder) = &self.embedder else { return };
        for batch in facts.chunks(EMBED_BATCH) {
            let texts = batch.iter().map(|fact| (fact.id, fact.text.clone())).collect();
            if let Err(error) = self.embed_batch(&**embedder, texts).await {
                tracing::warn!(%error, "facts are stored without vectors");
            }
        }
    }

    async fn embed_batch(
        &self,
        embedder: &dyn Embedder,
        facts: Vec<(u64, String)>,
    ) -> Result<u64, LongTermError> {
        let (ids, texts): (Vec<u64>, Vec<String>) = facts.into_iter().unzip();
        let vectors = self.embed_texts(embedder, texts).await?;
        let id = embedder.id().to_owned();
        let store = move |tx: &Connection| {
            let mut count = 0;
            for (fact, vector) in ids.iter().zip(vectors) {
                if let Some(vector) = vector {
                    vectors::store(tx, *fact, &id, &vector)?;
                    count += 1;
                }
            }
            Ok(count)
        };
        self.file.write(store).await
    }

    /// Returns the vectors of texts, with `None` for vectors without a direction.
    async fn embed_texts(
        &self,
        embedder: &dyn Embedder,
        texts: Vec<String>,
    ) -> Result<Vec<Option<Vec<f32>>>, LongTermError> {
        let vectors = embedder.embed(&texts).await?;
        if vectors.len() != texts.len() {
            let why = format!(
                "the embedder `{}` returned {} vectors for {} texts",
                embedder.id(),
                vectors.len(),
                texts.len()
            );
            return Err(RetrievalError::Failed(why.into()).into());
        }
        let dimensions = embedder.dimensions();
        Ok(vectors.into_iter().map(|vector| vectors::normalised(vector, dimensions)).collect())
    }
}
