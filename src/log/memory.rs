//! The memory seam: who keeps a session's log, and the one kept in RAM.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::message::Message;

/// One session's memory: an append-only log.
///
/// This is the whole of what a memory of your own must do. The engine appends whole changes and
/// does not read the log again while the session is open.
#[async_trait]
pub trait Memory: Send + Sync {
    /// Appends `items` after the first `at` items of the log, all or none.
    ///
    /// On return they are durable, as far as [`LogEntry::must_be_durable`] demands. Must fail with
    /// [`MemoryError::Conflict`], and change nothing, unless the log has exactly `at` items: so an
    /// owner that another process has replaced cannot write. An append that was begun must take
    /// place as a whole or not at all even if its future is dropped.
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError>;

    /// The items from number `from` (counted from zero) to the end, in order.
    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError>;

    /// Messages of the log that have to do with `query`, best first, at most `limit`. The default
    /// reads the log and finds the latest messages that contain all words of the query.
    async fn recall(&self, query: &str, limit: usize) -> Result<Vec<Arc<Message>>, MemoryError> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let items = self.load(0).await?;
        let found = items
            .iter()
            .rev()
            .filter_map(LogEntry::message)
            .filter(|message| message.has_words(&words));
        Ok(found.take(limit).cloned().collect())
    }

    /// What had to be mended when the session was opened, a sentence for people; nothing if it was
    /// whole.
    fn repaired(&self) -> Option<String> {
        None
    }
}

/// A log in RAM: for tests, and for sessions that may be forgotten. Clones share the log.
#[derive(Clone, Default)]
pub struct InMemory(Arc<Mutex<Vec<LogEntry>>>);

impl InMemory {
    /// An empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// A log with these items, as a process that died after writing them leaves it.
    pub fn from_items(items: Vec<LogEntry>) -> Self {
        InMemory(Arc::new(Mutex::new(items)))
    }

    /// What is in the log.
    pub fn items(&self) -> Vec<LogEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Memory for InMemory {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = log.len() as u64;
        if end != at {
            return Err(MemoryError::Conflict { at, end });
        }
        log.extend(items.iter().cloned());
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(log.get(from as usize..).unwrap_or_default().to_vec())
    }
}
