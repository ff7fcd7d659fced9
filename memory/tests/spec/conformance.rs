//! The suite itself: a correct store passes, and for a faulty one it names the broken rule.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{
    InMemoryStore, LogEntry, MemoryError, PendingPage, PendingQuery, SearchHit, SessionInfo,
    sub_agents,
};
use loopwright_core::{Memory, SessionStore};
use loopwright_memory::Jsonl;
use loopwright_memory::conformance::{Missing, check, check_reopened};

/// C77 C240: one suite checks whether a store is correct.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_ram_conforms() {
    check(&InMemoryStore::new()).await.unwrap();
    let store = InMemoryStore::new();
    check_reopened(async || Ok::<_, MemoryError>(store.clone())).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_in_files_conforms() {
    let one = tempfile::tempdir().unwrap();
    let two = tempfile::tempdir().unwrap();
    check(&Jsonl::open(one.path()).unwrap()).await.unwrap();
    check_reopened(async || Jsonl::open(two.path())).await.unwrap();
}

/// A store around another one, with or without its name.
struct Around(InMemoryStore, bool);

struct AroundMemory(Arc<dyn Memory>, bool);

#[async_trait]
impl Memory for AroundMemory {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.0.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }

    fn inner(&self) -> Option<&dyn Memory> {
        self.1.then_some(&*self.0)
    }
}

#[async_trait]
impl SessionStore for Around {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        Ok(Arc::new(AroundMemory(self.0.open(session).await?, self.1)))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.read(session, from).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.0.sessions().await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.0.delete(session).await
    }

    fn inner(&self) -> Option<&dyn SessionStore> {
        self.1.then_some(&self.0)
    }
}

/// C480
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_has_the_features_of_the_store_that_it_wraps() {
    let of_the_inner_store = check(&InMemoryStore::new()).await.unwrap();
    assert!(!of_the_inner_store.contains(&Missing::Mailbox), "{of_the_inner_store:?}");
    assert_eq!(check(&Around(InMemoryStore::new(), true)).await.unwrap(), of_the_inner_store);
    let missing = check(&Around(InMemoryStore::new(), false)).await.unwrap();
    use Missing::{InUse, Mailbox, Schedules, Snapshots, Workers};
    assert_eq!(missing, [Mailbox, InUse, Snapshots, Schedules, Workers]);
    assert!(missing[0].to_string().contains("decisions and messages from other processes fail"));
}

/// The suite needs only one thread.
#[tokio::test]
async fn the_suite_runs_on_one_thread() {
    let directory = tempfile::tempdir().unwrap();
    check(&Jsonl::open(directory.path()).unwrap()).await.unwrap();
}

/// The fault of a store.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Fault {
    Appends,
    WritesOnConflict,
    Halves,
    StopsWhenDropped,
    LoadsAll,
    LosesNul,
    MixesNames,
    ForgetsOwners,
    ListsEmpty,
    ListsOldestFirst,
    IgnoresFilters,
    FindsTooMany,
    ForksOver,
    ForksLate,
    KeepsDeleted,
    ListsSubAgents,
    KeepsSubAgents,
    DeletesNamesakes,
}
use Fault::*;

/// An in-memory store with a fault.
#[derive(Clone)]
struct FaultyStore(InMemoryStore, Fault);

struct FaultyStoreMemory(Arc<dyn Memory>, Fault);

#[async_trait]
impl Memory for FaultyStoreMemory {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let end = self.0.load(0).await?.len() as u64;
        match self.1 {
            Appends => self.0.append(end, entries).await,
            WritesOnConflict if at != end => {
                self.0.append(end, entries).await?;
                Err(MemoryError::Conflict { at, end })
            }
            Halves if entries.len() > 3 => self.0.append(at, entries[..3].into()).await,
            StopsWhenDropped if at == end => {
                for (n, entry) in entries.iter().enumerate() {
                    self.0.append(at + n as u64, [entry.clone()].into()).await?;
                    tokio::task::yield_now().await;
                }
                Ok(())
            }
            _ => self.0.append(at, entries).await,
        }
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let entries = self.0.load(if self.1 == LoadsAll { 0 } else { from }).await?;
        Ok(if self.1 == LosesNul {
            entries.into_iter().map(without_nul).collect()
        } else {
            entries
        })
    }
}

fn without_nul(entry: LogEntry) -> LogEntry {
    let json = serde_json::to_string(&entry).unwrap().replace("\\u0000", "");
    serde_json::from_str(&json).unwrap()
}

impl FaultyStore {
    fn name(&self, session: &str) -> String {
        if self.1 == MixesNames { session.to_lowercase() } else { session.to_owned() }
    }
}

#[async_trait]
impl SessionStore for FaultyStore {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let inner = match self.0.open(&self.name(session)).await {
            Err(MemoryError::InUse(_)) if self.1 == ForgetsOwners => {
                InMemoryStore::new().open(session).await?
            }
            other => other?,
        };
        Ok(Arc::new(FaultyStoreMemory(inner, self.1)))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        match self.0.read(&self.name(session), from).await {
            Err(MemoryError::NoSession(_)) if self.1 == ListsEmpty => Ok(vec![]),
            other => other,
        }
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let mut list = self.0.sessions().await?;
        if self.1 == ListsOldestFirst {
            list.reverse();
        }
        if self.1 == ListsSubAgents {
            for root in list.clone() {
                for session in sub_agents(&self.0, &root.id).await? {
                    list.push(self.0.session(&session).await?);
                }
            }
        }
        Ok(list)
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        if self.1 == KeepsDeleted {
            return Ok(());
        }
        let entries = self.0.read(&self.name(session), 0).await?;
        let mut sub_agents = Vec::new();
        for name in entries.iter().filter_map(LogEntry::sub_agent) {
            sub_agents.push((name, self.0.read(name, 0).await.unwrap_or_default()));
        }
        self.0.delete(&self.name(session)).await?;
        for (name, entries) in sub_agents.into_iter().filter(|(_, entries)| !entries.is_empty()) {
            match self.1 {
                KeepsSubAgents => self.0.open(name).await?.append(0, entries.into()).await?,
                DeletesNamesakes => drop(self.0.delete(name).await),
                _ => {}
            }
        }
        Ok(())
    }

    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        match self.1 {
            ForksOver => {
                let _ = self.0.delete(to).await;
                self.0.fork(session, at, to).await
            }
            ForksLate => self.0.fork(session, None, to).await,
            _ => self.0.fork(session, at, to).await,
        }
    }

    async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, MemoryError> {
        let all = PendingQuery::all();
        self.0.pending(if self.1 == IgnoresFilters { &all } else { query }).await
    }

    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, MemoryError> {
        self.0.search(query, if self.1 == FindsTooMany { 100 } else { limit }).await
    }
}

/// C77: the suite names the rule that a store breaks.
#[tokio::test]
async fn the_suite_names_the_rule_that_a_faulty_store_breaks() {
    for (fault, rule) in [
        (Appends, "not at the end is a Conflict"),
        (WritesOnConflict, "exists only for its owner"),
        (Halves, "is atomic"),
        (StopsWhenDropped, "whose future is dropped"),
        (LoadsAll, "`load` from 1"),
        (LosesNul, "in order and unchanged"),
        (MixesNames, "different names are different sessions"),
        (ForgetsOwners, "InUse"),
        (ListsEmpty, "`read` returns NoSession"),
        (ListsOldestFirst, "changed last first"),
        (IgnoresFilters, "match the filter"),
        (FindsTooMany, "`search` finds"),
        (ForksOver, "a fork to an existing session is refused"),
        (ForksLate, "a fork at"),
        (KeepsDeleted, "deleted"),
        (ListsSubAgents, "`sessions` leaves out the sessions of sub-agents"),
        (KeepsSubAgents, "deleted with those of its sub-agents"),
        (DeletesNamesakes, "a user's session stays"),
    ] {
        let error = check(&FaultyStore(InMemoryStore::new(), fault))
            .await
            .expect_err(&format!("{fault:?} is detected"));
        assert!(error.contains(rule), "{fault:?}: {error:.500}");
    }
    let forgetful =
        check_reopened(async || Ok::<_, MemoryError>(InMemoryStore::new())).await.unwrap_err();
    assert!(forgetful.contains("another opening of the store"), "{forgetful}");
    let used = InMemoryStore::new();
    used.open("s").await.unwrap().append(0, [LogEntry::Reset].into()).await.unwrap();
    assert!(check(&used).await.unwrap_err().contains("before the checks"));
}

/// The suite must be extended for a new kind of entry.
#[test]
fn the_suite_has_every_kind_of_entry() {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| std::fs::read_to_string(root.join(path)).unwrap();
    let kinds = read("../src/log/entry.rs");
    let samples = read("src/conformance/samples.rs");
    let every = samples.split("fn every_entry").nth(1).unwrap();
    let body = kinds.split("pub enum LogEntry {").nth(1).unwrap().split("\n}").next().unwrap();
    let names = body
        .lines()
        .filter_map(|line| line.strip_prefix("    "))
        .filter(|line| line.starts_with(char::is_uppercase));
    let names: Vec<&str> = names.map(|line| line.trim_end_matches([' ', '{', ','])).collect();
    assert!(names.len() >= 19, "{names:?}");
    let sampled = |name: &&&str| {
        every.contains(&format!("LogEntry::{name}"))
            || every.contains(&format!("{}(", name.to_lowercase()))
    };
    assert_eq!(names.iter().filter(|name| !sampled(name)).collect::<Vec<_>>(), Vec::<&&str>::new());
}
