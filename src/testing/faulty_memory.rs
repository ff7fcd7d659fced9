//! [`FaultyMemory`]: a memory whose appends fail or are slow.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::log::memory::Memory;

/// A [`Memory`] whose appends fail or take time.
///
/// ```
/// use loopwright_core::log::{InMemory, LogEntry, Memory};
/// use loopwright_core::testing::FaultyMemory;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let memory = FaultyMemory::new(InMemory::new()).full_after(1);
/// assert!(memory.append(0, [LogEntry::Reset].into()).await.is_ok());
/// assert!(memory.append(1, [LogEntry::Reset].into()).await.is_err());
/// # }
/// ```
pub struct FaultyMemory {
    inner: Arc<dyn Memory>,
    max_entries: Option<u64>,
    delay: Duration,
}

impl FaultyMemory {
    /// Wraps `inner`, without any fault yet.
    pub fn new(inner: impl Memory + 'static) -> Self {
        FaultyMemory { inner: Arc::new(inner), max_entries: None, delay: Duration::ZERO }
    }

    /// Fails each append that would make the log longer than `entries`, and writes none of its
    /// entries.
    pub fn full_after(mut self, entries: u64) -> Self {
        self.max_entries = Some(entries);
        self
    }

    /// Delays each append by `time`. As with a real store, the write completes even if the future
    /// of the append is dropped.
    pub fn slow(mut self, time: Duration) -> Self {
        self.delay = time;
        self
    }
}

#[async_trait]
impl Memory for FaultyMemory {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        if self.max_entries.is_some_and(|max| at + entries.len() as u64 > max) {
            return Err(MemoryError::Failed("the disk is full".into()));
        }
        if self.delay.is_zero() {
            return self.inner.append(at, entries).await;
        }
        let (inner, delay) = (self.inner.clone(), self.delay);
        let write = tokio::spawn(async move {
            tokio::time::sleep(delay).await;
            inner.append(at, entries).await
        });
        write.await.unwrap_or_else(|e| Err(MemoryError::failed(e)))
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.inner.load(from).await
    }
}
