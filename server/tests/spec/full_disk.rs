//! A store whose disk is full.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loopwright_core::log::{InMemoryStore, LogEntry, MemoryError, SessionInfo};
use loopwright_core::testing::FaultyMemory;
use loopwright_core::{Memory, SessionStore};

/// A store whose disk is full from a number of entries on.
pub(crate) struct FullDisk {
    pub(crate) inner: InMemoryStore,
    pub(crate) full_after: Arc<AtomicU64>,
}

struct FaultyLog {
    inner: Arc<dyn Memory>,
    full_after: Arc<AtomicU64>,
}

struct Shared(Arc<dyn Memory>);

#[async_trait]
impl Memory for Shared {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.0.append(at, items).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }
}

#[async_trait]
impl Memory for FaultyLog {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let log = FaultyMemory::new(Shared(self.inner.clone()))
            .full_after(self.full_after.load(Ordering::Relaxed));
        log.append(at, items).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.inner.load(from).await
    }
}

#[async_trait]
impl SessionStore for FullDisk {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let inner = self.inner.open(session).await?;
        Ok(Arc::new(FaultyLog { inner, full_after: self.full_after.clone() }))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.inner.read(session, from).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.inner.sessions().await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.inner.delete(session).await
    }

    async fn check_writable(&self) -> Result<(), MemoryError> {
        match self.full_after.load(Ordering::Relaxed) {
            0 => Err(MemoryError::Failed("the disk is full".into())),
            _ => Ok(()),
        }
    }
}
