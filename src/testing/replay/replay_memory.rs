//! [`ReplayMemory`]: the memory of a replayed session.

use std::sync::Arc;

use async_trait::async_trait;
use tokio_util::sync::CancellationToken;

use super::shared::SharedReplay;
use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::log::memory::{InMemory, Memory};

/// The memory of a replayed session, which compares each entry with the log under replay.
pub(super) struct ReplayMemory {
    replay: Arc<SharedReplay>,
    log: InMemory,
    cancellation: CancellationToken,
}

impl ReplayMemory {
    pub(super) fn new(replay: Arc<SharedReplay>, log: InMemory) -> Self {
        let cancellation = replay.cancellation();
        ReplayMemory { replay, log, cancellation }
    }
}

#[async_trait]
impl Memory for ReplayMemory {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        if self.cancellation.is_cancelled() {
            return Err(MemoryError::Failed("the replay is over".into()));
        }
        self.log.append(at, entries.clone()).await?;
        if self.replay.entries_appended(&entries) {
            // The session's task receives the input before the pattern continues.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }
}
