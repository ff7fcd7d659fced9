//! Your own session store, over a `HashMap`. It passes the conformance suite for stores.
//!
//! `cargo run --example hash_map_store`
//!
//! Four methods of `SessionStore` and two of `Memory` suffice. Search, forks, pages and the list of
//! pending actions have defaults. `custom_memory` does the same with Redis.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use loopwright::log::{LogEntry, MemoryError, SessionInfo, sub_agents};
use loopwright::memory::conformance;
use loopwright::patterns::PiPattern;
use loopwright::providers::Offline;
use loopwright::{GenericAgent, Memory, SessionStore, async_trait};

#[derive(Clone, Default)]
struct HashMapStore(Arc<Mutex<HashMap<String, Session>>>);

#[derive(Default)]
struct Session {
    log: Vec<LogEntry>,
    is_open: bool,
}

/// An open session. Dropping it closes the session.
struct OpenSession {
    store: HashMapStore,
    name: String,
}

impl HashMapStore {
    fn sessions_by_name(&self) -> MutexGuard<'_, HashMap<String, Session>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Memory for OpenSession {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let mut sessions = self.store.sessions_by_name();
        let log = &mut sessions.entry(self.name.clone()).or_default().log;
        let end = log.len() as u64;
        if at != end {
            return Err(MemoryError::Conflict { at, end });
        }
        log.extend(entries.iter().cloned());
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        match self.store.read(&self.name, from).await {
            Err(MemoryError::NoSession(_)) => Ok(Vec::new()),
            entries => entries,
        }
    }
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        if let Some(session) = self.store.sessions_by_name().get_mut(&self.name) {
            session.is_open = false;
        }
    }
}

#[async_trait]
impl SessionStore for HashMapStore {
    async fn open(&self, name: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let mut sessions = self.sessions_by_name();
        let session = sessions.entry(name.into()).or_default();
        if std::mem::replace(&mut session.is_open, true) {
            return Err(MemoryError::InUse(name.into()));
        }
        Ok(Arc::new(OpenSession { store: self.clone(), name: name.into() }))
    }

    async fn read(&self, name: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        match self.sessions_by_name().get(name) {
            Some(session) if !session.log.is_empty() => {
                Ok(session.log.iter().skip(from as usize).cloned().collect())
            }
            _ => Err(MemoryError::NoSession(name.into())),
        }
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let sessions = self.sessions_by_name();
        let stored = sessions.iter().filter(|(_, session)| !session.log.is_empty());
        let mut infos: Vec<_> =
            stored.map(|(name, session)| SessionInfo::of(name.as_str(), &session.log)).collect();
        infos.retain(|info| info.sub_agent_of.is_none());
        infos.sort_by_key(|info| Reverse(info.changed));
        Ok(infos)
    }

    async fn delete(&self, name: &str) -> Result<(), MemoryError> {
        let mut names = vec![Arc::from(name)];
        names.extend(sub_agents(self, name).await?);
        let mut sessions = self.sessions_by_name();
        let is_open = |name: &&Arc<str>| sessions.get(&***name).is_some_and(|s| s.is_open);
        if let Some(open) = names.iter().find(is_open) {
            return Err(MemoryError::InUse(open.clone()));
        }
        names.iter().for_each(|name| drop(sessions.remove(&**name)));
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let store = HashMapStore::default();
    let missing = conformance::check(&store).await?;
    println!("The store passes the conformance suite. It has");
    missing.iter().for_each(|missing| println!("- {missing}"));

    let agent = GenericAgent::builder(Offline::new(), PiPattern).build()?;
    let handle = agent.open(&store, "monday").await?;
    handle.prompt("Hello").await?;
    for info in store.sessions().await? {
        println!("{}: {} entries in its log", info.title, info.entries);
    }
    Ok(())
}
