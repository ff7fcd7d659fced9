//! [`BoundedReads`]: a limit on concurrent reads of whole logs.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{LogEntry, MemoryError, SessionInfo};
use loopwright_core::{Memory, SessionStore};
use tokio::sync::Semaphore;

/// Maximum number of whole logs that are read at a time. Other readers wait in order.
const MAX_RUNNING: usize = 4;

/// A store that reads only a few whole logs at a time, for all readers together: pages of
/// histories, messages, streams from the first event. Readers of long logs thus exhaust neither
/// threads nor memory. Reads of the new entries of a log do not wait.
pub(crate) struct BoundedReads {
    store: Arc<dyn SessionStore>,
    running: Semaphore,
}

impl BoundedReads {
    pub(crate) fn new(store: Arc<dyn SessionStore>) -> Self {
        BoundedReads { store, running: Semaphore::new(MAX_RUNNING) }
    }
}

#[async_trait]
impl SessionStore for BoundedReads {
    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let _turn = match from {
            0 => self.running.acquire().await.ok(), // never closed
            _ => None,
        };
        self.store.read(session, from).await
    }

    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        self.store.open(session).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.store.sessions().await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.store.delete(session).await
    }

    fn inner(&self) -> Option<&dyn SessionStore> {
        Some(&*self.store)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use futures::future::join_all;
    use futures::poll;
    use loopwright_core::log::InMemoryStore;

    use super::*;

    /// A store whose reads wait for a permit.
    struct Gated {
        logs: InMemoryStore,
        started: Arc<AtomicUsize>,
        gate: Arc<Semaphore>,
    }

    #[async_trait]
    impl SessionStore for Gated {
        async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
            self.logs.open(session).await
        }

        async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
            self.started.fetch_add(1, Ordering::Relaxed);
            self.gate.acquire().await.unwrap().forget();
            self.logs.read(session, from).await
        }

        async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
            self.logs.sessions().await
        }

        async fn delete(&self, session: &str) -> Result<(), MemoryError> {
            self.logs.delete(session).await
        }
    }

    /// C429: Four whole logs are read at a time. New entries of a log are read at once, and a
    /// reader that leaves makes way for the next one.
    #[tokio::test]
    async fn whole_logs_are_read_four_at_a_time() {
        let (started, gate) = (Arc::<AtomicUsize>::default(), Arc::new(Semaphore::new(0)));
        let logs = InMemoryStore::new();
        let log = logs.open("s").await.unwrap();
        log.append(0, vec![LogEntry::Reset; 2].into()).await.unwrap();
        let gated = Gated { logs, started: started.clone(), gate: gate.clone() };
        let store = BoundedReads::new(Arc::new(gated));
        let mut readers: Vec<_> = (0..20).map(|_| store.read("s", 0)).collect();
        for reader in &mut readers {
            assert!(poll!(reader).is_pending());
        }
        assert_eq!(started.load(Ordering::Relaxed), MAX_RUNNING);
        let mut later = store.read("s", 1);
        assert!(poll!(&mut later).is_pending());
        assert_eq!(started.load(Ordering::Relaxed), MAX_RUNNING + 1);
        drop(readers.remove(0));
        assert!(poll!(&mut readers[MAX_RUNNING - 1]).is_pending());
        assert_eq!(started.load(Ordering::Relaxed), MAX_RUNNING + 2);
        gate.add_permits(20);
        assert_eq!(later.await.unwrap().len(), 1);
        assert!(join_all(readers).await.into_iter().all(|read| read.unwrap().len() == 2));
    }
}
