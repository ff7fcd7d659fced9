//! [`Recorder`]: a store that records the order of appends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::log::in_memory_store::InMemoryStore;
use crate::log::memory::Memory;
use crate::log::session_info::SessionInfo;
use crate::log::store::SessionStore;

/// The session of each append, and the length of its log afterwards.
pub(super) type Order = Vec<(Arc<str>, usize)>;

/// A store that records the order of appends.
#[derive(Clone, Default)]
pub(super) struct Recorder {
    store: InMemoryStore,
    order: Arc<Mutex<Order>>,
}

impl Recorder {
    fn lock(&self) -> MutexGuard<'_, Order> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn order(&self) -> Order {
        self.lock().clone()
    }
}

struct Recorded {
    session: Arc<str>,
    memory: Arc<dyn Memory>,
    recorder: Recorder,
}

#[async_trait]
impl Memory for Recorded {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let len = at as usize + entries.len();
        self.memory.append(at, entries).await?;
        self.recorder.lock().push((self.session.clone(), len));
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.memory.load(from).await
    }
}

#[async_trait]
impl SessionStore for Recorder {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let memory = self.store.open(session).await?;
        Ok(Arc::new(Recorded { session: session.into(), memory, recorder: self.clone() }))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.store.read(session, from).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.store.sessions().await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.store.delete(session).await
    }
}
