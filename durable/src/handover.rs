//! [`HandOver`]: sessions that leave a worker between two turns.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::Memory;
use loopwright_core::log::{LogEntry, Mailbox, MemoryError, Snapshots};
use loopwright_core::message::Message;
use tokio_util::sync::{CancellationToken, WaitForCancellationFuture};

/// Tells the sessions of a worker that they are to leave it. Clones share the state.
///
/// A session whose [memory](HandOver::memory) knows of it leaves before its next model request: it
/// ends as [moved](loopwright_core::EventStream::moved), with its run in progress, and the next
/// owner continues the run. Replies that stream and tools that run are completed first.
#[derive(Clone, Default)]
pub struct HandOver(CancellationToken);

impl HandOver {
    /// Builds one that has not started.
    pub fn new() -> Self {
        Self::default()
    }

    /// Tells the sessions to leave.
    pub fn start(&self) {
        self.0.cancel();
    }

    /// Returns whether the sessions are to leave.
    pub fn has_started(&self) -> bool {
        self.0.is_cancelled()
    }

    /// Resolves when the sessions are to leave.
    pub fn started(&self) -> WaitForCancellationFuture<'_> {
        self.0.cancelled()
    }

    /// Wraps the memory of a session.
    pub fn memory(&self, memory: Arc<dyn Memory>) -> HandOverMemory {
        HandOverMemory { memory, hand_over: self.clone() }
    }
}

/// Wraps a memory, so that its session leaves when a [`HandOver`] has started.
pub struct HandOverMemory {
    memory: Arc<dyn Memory>,
    hand_over: HandOver,
}

#[async_trait]
impl Memory for HandOverMemory {
    /// Appends the entries. After the start of the hand-over, entries that announce a model request
    /// are refused as those of an owner that has been replaced: they are written by the next one.
    /// What comes before them in the append, such as the result of a tool, is written.
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let starts_turn = |entry: &LogEntry| {
            matches!(entry, LogEntry::RequestStarted { .. } | LogEntry::DetachedStarted { .. })
        };
        let turn = entries.iter().position(starts_turn);
        let Some(turn) = turn.filter(|_| self.hand_over.has_started()) else {
            return self.memory.append(at, entries).await;
        };
        // The pattern's values belong to the entry that follows them.
        let is_value = |entry: &LogEntry| matches!(entry, LogEntry::State { .. });
        let last = entries[..turn].iter().rposition(|entry| !is_value(entry));
        if let Some(last) = last {
            self.memory.append(at, entries[..=last].into()).await?;
        }
        Err(MemoryError::Lost)
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.memory.load(from).await
    }

    async fn recall(&self, query: &str, limit: usize) -> Result<Vec<Arc<Message>>, MemoryError> {
        self.memory.recall(query, limit).await
    }

    async fn lost(&self) {
        self.memory.lost().await
    }

    async fn close(&self) {
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
