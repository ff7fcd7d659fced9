//! The extension point for a session's log, [`Memory`], and the log in RAM.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;

use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::log::mailbox::Mailbox;
use crate::log::snapshots::Snapshots;
use crate::message::Message;

/// The log of one session.
///
/// The log is append-only. The session reads it once, when it is opened, and then appends. While
/// open, it reads the log again only after a failed append. A [`SessionStore`](crate::SessionStore)
/// opens memories by name.
///
/// # Contract
///
/// - [`append`](Memory::append) must write all entries or none. It must fail with
///   [`MemoryError::Conflict`], changing nothing, unless the log has exactly `at` entries. So an
///   owner that another process has replaced cannot write; it may also get [`MemoryError::Lost`].
/// - An append without entries must check the same and write nothing. The session makes one before
///   it refuses an input, so that no input is refused because of an outdated state.
/// - When `append` returns `Ok`, the entries must be durable up to the last one for which
///   [`LogEntry::must_be_durable`] is true. Later entries may be flushed with the next append.
/// - After an error the log must be unchanged. If [`MemoryError::is_lost`] reports that another
///   owner has the session, the session ends without another append. After other errors it ends its
///   run with [`StepError::Memory`](crate::StepError::Memory) and writes again when the next input
///   arrives.
/// - The session calls `append` one at a time. [`load`](Memory::load) and
///   [`recall`](Memory::recall) may be called during an append.
/// - Methods may panic. The session reports a panic of `load` or `append` as an error; a panic of
///   `recall` ends the run with [`StepError::Panicked`](crate::StepError::Panicked).
///
/// # Cancellation
///
/// The future of an append can be dropped before it completes. The append must then take effect as
/// a whole or not at all. Reads may be dropped at any time.
///
/// # Example
///
/// A memory that counts appends and delegates to another one:
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
///
/// use async_trait::async_trait;
/// use loopwright_core::Memory;
/// use loopwright_core::log::{InMemory, LogEntry, MemoryError};
///
/// #[derive(Default)]
/// struct Counted {
///     inner: InMemory,
///     appends: AtomicU64,
/// }
///
/// #[async_trait]
/// impl Memory for Counted {
///     async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
///         self.appends.fetch_add(1, Ordering::Relaxed);
///         self.inner.append(at, entries).await
///     }
///
///     async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
///         self.inner.load(from).await
///     }
///
///     fn inner(&self) -> Option<&dyn Memory> {
///         Some(&self.inner) // has all other features
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), MemoryError> {
/// let memory = Counted::default();
/// memory.append(0, Arc::new([LogEntry::Reset])).await?;
/// let conflict = memory.append(0, Arc::new([LogEntry::Reset])).await;
/// assert_eq!(conflict, Err(MemoryError::Conflict { at: 0, end: 1 }));
/// assert_eq!(memory.load(0).await?.len(), 1);
/// # Ok(()) }
/// ```
///
/// `examples/custom_memory.rs` stores sessions in Redis. `loopwright_memory::conformance` checks a
/// store against this contract.
#[async_trait]
pub trait Memory: Send + Sync {
    /// Appends `entries` after the first `at` entries of the log, all or none.
    ///
    /// # Errors
    ///
    /// [`MemoryError::Conflict`] if the log does not have exactly `at` entries, and
    /// [`MemoryError::Failed`] if it cannot be written. The log is then unchanged.
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError>;

    /// Returns the entries from number `from`, counted from zero, to the end, in order.
    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError>;

    /// Returns the memory that this one wraps. Its methods are then the defaults. The default
    /// returns `None`.
    ///
    /// A memory that hides something from the inner one must implement
    /// [`snapshots`](Memory::snapshots), which contain the whole state, and
    /// [`mailbox`](Memory::mailbox).
    fn inner(&self) -> Option<&dyn Memory> {
        None
    }

    /// Returns at most `limit` messages of the log that are related to `query`, best first. The
    /// default reads the log and returns the latest messages that contain all words of the query.
    async fn recall(&self, query: &str, limit: usize) -> Result<Vec<Arc<Message>>, MemoryError> {
        if let Some(inner) = self.inner() {
            return inner.recall(query, limit).await;
        }
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let entries = self.load(0).await?;
        let matching = entries
            .iter()
            .rev()
            .filter_map(LogEntry::message)
            .filter(|message| message.has_words(&words));
        Ok(matching.take(limit).cloned().collect())
    }

    /// Waits until another process has taken over the session. The session then ends without
    /// another append: its event streams end as [moved](crate::event::StreamEnd::Moved).
    ///
    /// Stores that can take a session away from its owner should implement this, so that the owner
    /// stops before its next append. It must be safe to drop the future and to call the method
    /// again. The default never resolves.
    async fn lost(&self) {
        match self.inner() {
            Some(inner) => inner.lost().await,
            None => std::future::pending().await,
        }
    }

    /// Releases the session, so that it can be opened again as soon as this returns. No append
    /// follows.
    ///
    /// The session calls this when it ends. A memory that is dropped without this call must release
    /// the session, too, but may take its time. The default does nothing.
    async fn close(&self) {
        if let Some(inner) = self.inner() {
            inner.close().await;
        }
    }

    /// Returns the mailbox of the session, from which the session takes the inputs that other
    /// processes have [posted](crate::SessionStore::post). The default returns `None`: the session
    /// has no mailbox, and does no work for one.
    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.inner()?.mailbox()
    }

    /// Returns the storage for snapshots of the session's state, which make a long session open
    /// faster. The default returns `None`: the whole log is read.
    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.inner()?.snapshots()
    }

    /// Returns a sentence about the repair when the log was opened, or `None` if the log was
    /// intact.
    fn repaired(&self) -> Option<String> {
        self.inner()?.repaired()
    }
}

/// A log in RAM, for tests and for sessions that need not outlive the process. Clones share the
/// log.
#[derive(Clone, Default)]
pub struct InMemory(Arc<Mutex<Vec<LogEntry>>>);

impl InMemory {
    /// Builds an empty log.
    pub fn new() -> Self {
        Self::default()
    }

    /// Builds a log with these entries, for example the entries that a process wrote before it was
    /// killed.
    pub fn from_entries(entries: Vec<LogEntry>) -> Self {
        InMemory(Arc::new(Mutex::new(entries)))
    }

    /// Returns the entries of the log.
    pub fn entries(&self) -> Vec<LogEntry> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Memory for InMemory {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let mut log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let end = log.len() as u64;
        if end != at {
            return Err(MemoryError::Conflict { at, end });
        }
        log.extend(entries.iter().cloned());
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let log = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(log.get(from as usize..).unwrap_or_default().to_vec())
    }
}
