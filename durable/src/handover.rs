//! [`HandOver`]: orderly entry and exit of a worker's sessions. Sessions that have lost an owner
//! enter one after the other, and all sessions leave between two turns.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use loopwright_core::event::OwnerNote;
use loopwright_core::log::{LogEntry, Mailbox, MemoryError, Snapshots};
use loopwright_core::message::Message;
use loopwright_core::{Memory, SessionStore};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// The signal for the sessions of a worker to leave it. Clones share the state.
///
/// A session whose memory was opened with [`HandOver::open`] leaves before its next model request:
/// it ends as [moved](loopwright_core::event::StreamEnd::Moved), with its run in progress, and the
/// next owner continues the run. Replies that stream and tools that run are completed first.
#[derive(Clone)]
pub struct HandOver {
    started: CancellationToken,
    /// A permit for one session that has lost an owner.
    probation: Arc<Semaphore>,
}

impl Default for HandOver {
    fn default() -> Self {
        HandOver { started: CancellationToken::new(), probation: Arc::new(Semaphore::new(1)) }
    }
}

impl HandOver {
    /// Creates a hand-over that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Signals the sessions to leave.
    pub fn start(&self) {
        self.started.cancel();
    }

    /// Returns whether the sessions must leave.
    pub fn has_started(&self) -> bool {
        self.started.is_cancelled()
    }

    /// Resolves when the sessions must leave.
    pub fn started(&self) -> WaitForCancellationFuture<'_> {
        self.started.cancelled()
    }

    /// Opens the memory of a session.
    ///
    /// A session that has lost an owner may have killed it. No other such session is opened here
    /// until it makes progress, or a second has passed. So if it kills this process, no other
    /// session is blamed.
    ///
    /// # Errors
    ///
    /// Fails like [`SessionStore::open`], and with [`MemoryError::InUse`] while another session
    /// that has lost an owner is new here.
    pub async fn open(
        &self,
        store: &Arc<dyn SessionStore>,
        session: &Arc<str>,
    ) -> Result<HandOverMemory, MemoryError> {
        let has_lost_owner = match store.session(session).await {
            Err(MemoryError::NoSession(_)) => false,
            info => info?.has_lost_owner(),
        };
        let mut permit = None;
        if has_lost_owner {
            let free = self.probation.clone().try_acquire_owned();
            permit = Some(free.map_err(|_| MemoryError::InUse(session.clone()))?);
        }
        let memory = store.open(session).await?;
        Ok(HandOverMemory {
            memory,
            hand_over: self.clone(),
            probation: Mutex::new(permit),
            written: AtomicU64::new(0),
            leaves: AtomicBool::new(false),
        })
    }
}

/// A memory whose session leaves once a [`HandOver`] has started.
pub struct HandOverMemory {
    memory: Arc<dyn Memory>,
    hand_over: HandOver,
    probation: Mutex<Option<OwnedSemaphorePermit>>,
    /// The length of the log.
    written: AtomicU64,
    /// `true` once a turn was refused, so that the session leaves.
    leaves: AtomicBool,
}

impl HandOverMemory {
    async fn write(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.memory.append(at, entries.clone()).await?;
        self.written.store(at + entries.len() as u64, Ordering::Relaxed);
        let is_proof = |entry: &LogEntry| match entry {
            LogEntry::Owner { note } => matches!(note, OwnerNote::Left | OwnerNote::Held(_)),
            // It is only queued, and may still kill the process.
            LogEntry::Queued { .. } => false,
            entry => entry.is_progress(),
        };
        if entries.iter().any(is_proof) {
            drop(self.probation.lock().unwrap_or_else(PoisonError::into_inner).take());
        }
        Ok(())
    }
}

#[async_trait]
impl Memory for HandOverMemory {
    /// Appends the entries. Once the hand-over has started, entries that announce a model request
    /// are refused with [`MemoryError::Lost`], as after a replacement: the next owner writes them.
    /// Earlier entries of the append, such as the result of a tool, are written.
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let starts_turn = |entry: &LogEntry| {
            matches!(entry, LogEntry::RequestStarted { .. } | LogEntry::DetachedStarted { .. })
        };
        let turn = entries.iter().position(starts_turn);
        let Some(turn) = turn.filter(|_| self.hand_over.has_started()) else {
            return self.write(at, entries).await;
        };
        // The pattern's values belong to the entry that follows them.
        let is_value = |entry: &LogEntry| matches!(entry, LogEntry::State { .. });
        let last = entries[..turn].iter().rposition(|entry| !is_value(entry));
        if let Some(last) = last {
            self.write(at, entries[..=last].into()).await?;
        }
        self.leaves.store(true, Ordering::Relaxed);
        Err(MemoryError::Lost)
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let entries = self.memory.load(from).await?;
        self.written.store(from + entries.len() as u64, Ordering::Relaxed);
        Ok(entries)
    }

    async fn recall(&self, query: &str, limit: usize) -> Result<Vec<Arc<Message>>, MemoryError> {
        self.memory.recall(query, limit).await
    }

    async fn lost(&self) {
        self.memory.lost().await
    }

    async fn close(&self) {
        if self.leaves.load(Ordering::Relaxed) {
            // Without it, the next owner would count this one as lost. Fails if a next owner
            // exists.
            let left = [LogEntry::Owner { note: OwnerNote::Left }].into();
            let _ = self.memory.append(self.written.load(Ordering::Relaxed), left).await;
        }
        self.memory.close().await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        self.memory.mailbox()
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        self.memory.snapshots()
    }

    fn repaired(&self) -> Option<String> {
        self.memory.repaired()
    }
}
