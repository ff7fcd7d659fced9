//! [`InMemoryStore`], sessions in RAM.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::log::memory::{InMemory, Memory};
use crate::log::session_info::SessionInfo;
use crate::log::store::{SessionStore, sub_agents};

/// Stores sessions in RAM. Clones share the sessions.
#[derive(Clone, Default)]
pub struct InMemoryStore(Arc<Mutex<BTreeMap<String, StoredSession>>>);

#[derive(Default)]
struct StoredSession {
    log: InMemory,
    owned: bool,
}

/// An open session of an [`InMemoryStore`]; dropping it closes the session.
struct Owned {
    log: InMemory,
    session: String,
    store: InMemoryStore,
}

impl InMemoryStore {
    /// Builds a store without sessions.
    pub fn new() -> Self {
        Self::default()
    }

    fn sessions_by_name(&self) -> MutexGuard<'_, BTreeMap<String, StoredSession>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self, session: &str) -> Result<Vec<LogEntry>, MemoryError> {
        let entries = self
            .sessions_by_name()
            .get(session)
            .map(|stored| stored.log.entries())
            .unwrap_or_default();
        if entries.is_empty() { Err(MemoryError::NoSession(session.into())) } else { Ok(entries) }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        if let Some(stored) = self.store.sessions_by_name().get_mut(&self.session) {
            stored.owned = false;
        }
    }
}

#[async_trait]
impl Memory for Owned {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.log.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }
}

#[async_trait]
impl SessionStore for InMemoryStore {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let mut sessions = self.sessions_by_name();
        let stored = sessions.entry(session.to_owned()).or_default();
        if std::mem::replace(&mut stored.owned, true) {
            return Err(MemoryError::InUse(session.into()));
        }
        Ok(Arc::new(Owned {
            log: stored.log.clone(),
            session: session.to_owned(),
            store: self.clone(),
        }))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let mut entries = self.log(session)?;
        Ok(entries.split_off((from as usize).min(entries.len())))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let sessions = self.sessions_by_name();
        let all =
            sessions.iter().map(|(id, stored)| SessionInfo::of(id.as_str(), &stored.log.entries()));
        let is_listed = |info: &SessionInfo| info.entries > 0 && info.sub_agent_of.is_none();
        let mut all: Vec<_> = all.filter(is_listed).collect();
        all.sort_by_key(|info| std::cmp::Reverse(info.changed));
        Ok(all)
    }

    async fn in_use(&self, session: &str) -> Result<Option<bool>, MemoryError> {
        Ok(Some(self.sessions_by_name().get(session).is_some_and(|stored| stored.owned)))
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        let sub_agents = sub_agents(self, session).await?;
        let mut sessions = self.sessions_by_name();
        let all = || std::iter::once(session).chain(sub_agents.iter().map(|session| &**session));
        let is_open = |session: &&str| sessions.get(*session).is_some_and(|stored| stored.owned);
        if let Some(open) = all().find(is_open) {
            return Err(MemoryError::InUse(open.into()));
        }
        all().for_each(|session| drop(sessions.remove(session)));
        Ok(())
    }
}
