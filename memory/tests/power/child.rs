//! The process whose disk is recorded or fails. It works on several sessions, and writes
//! acknowledgements to a file below the root, so that the record has them too.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError, StateScope};
use loopwright_core::{Memory, SessionStore};
use loopwright_memory::{Jsonl, Sqlite};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

/// The environment variable with a child's [`Orders`].
pub(crate) const ORDERS: &str = "LOOPWRIGHT_POWER_ORDERS";

/// The file with the acknowledgements, below the root.
pub(crate) const ACKNOWLEDGED: &str = "acknowledged";

/// A part of the error after a failed flush.
const NOT_FLUSHED: &str = "cannot be flushed to disk";

/// A kind of store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Kind {
    Jsonl,
    Sqlite,
}

impl Kind {
    /// Opens the store below this root.
    pub(crate) fn open(self, root: &Path) -> Result<Arc<dyn SessionStore>, MemoryError> {
        let folder = root.join("sessions");
        Ok(match self {
            Kind::Jsonl => Arc::new(Jsonl::open(folder)?),
            Kind::Sqlite => Arc::new(Sqlite::open(folder.join("sessions.db"))?),
        })
    }
}

/// The orders of a child.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) kind: Kind,
    pub(crate) root: PathBuf,
    pub(crate) work: Work,
}

/// The work of a process.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) enum Work {
    /// Create the store and several sessions, and close it.
    Begin,
    /// Continue, and exit without closing the store.
    Exit,
    /// Continue, and close the store.
    Close,
    /// Check whether the store is writable, and continue: while the disk has room, while it is
    /// full, and when it has room again.
    Check,
    /// Lock the store, like a change, until a line of input comes.
    Lock,
}

/// An acknowledgement, one line of JSON.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Acknowledged {
    /// The session has at least this many entries of [`entry`].
    Entries(String, u64),
    /// The session begins with these entries.
    Branch(String, Vec<Value>),
    /// The session may be missing from now on.
    MayBeDeleted(String),
    /// The session is missing.
    Deleted(String),
}

/// Returns the entry of a session at this position. Some must be durable; some span several pages.
pub(crate) fn entry(session: &str, position: u64) -> LogEntry {
    let text = |length| {
        let value = Arc::new(json!(format!("{session} {position} ").repeat(length)));
        LogEntry::State { scope: StateScope::Session, key: "text".into(), value }
    };
    match position % 7 {
        1 | 4 => text(1),
        3 => text(2000),
        5 => text(400),
        _ => LogEntry::Opened { epoch: position, time: 0, parent: None, owner: None },
    }
}

/// Runs the orders in the environment variable [`ORDERS`].
pub(crate) async fn run() {
    let orders = std::env::var(ORDERS).expect("a child has orders");
    let Orders { kind, root, work } = serde_json::from_str(&orders).expect("the orders are JSON");
    if let Work::Lock = work {
        return lock(kind, &root);
    }
    let path = root.join(ACKNOWLEDGED);
    let acknowledged = OpenOptions::new().append(true).create(true).open(path).expect("a file");
    let store = match kind.open(&root) {
        Ok(store) => store,
        Err(error) => return report("open the store", &error),
    };
    let mut worker = Worker { kind, store, acknowledged, store_stopped: false };
    match work {
        Work::Begin => {
            worker.append("a", &[1, 1, 2, 1, 1]).await;
            worker.append("b", &[2, 3]).await;
            worker.fork("a", "c").await;
            worker.append("a", &[1, 3, 1]).await;
            worker.delete("b").await;
            worker.append("d", &[4, 3, 5]).await;
        }
        Work::Exit => {
            worker.append("a", &[1, 1, 4]).await;
            worker.append("e", &[1, 1, 1, 1]).await;
            std::process::exit(0);
        }
        Work::Close => {
            worker.append("a", &[1, 1, 1]).await;
            worker.append("d", &[2, 2]).await;
        }
        Work::Check => {
            let filler = root.join("sessions/filler");
            for disk in ["has room", "is full", "has room again"] {
                println!("\nthe disk {disk}");
                match disk {
                    "is full" => fill(&filler),
                    "has room again" => std::fs::remove_file(&filler).expect("the file"),
                    _ => {}
                }
                let writable = worker.store.check_writable().await;
                if worker.check("write", writable).is_some() {
                    println!("\nwritable");
                }
                worker.append("a", &[1, 3, 1, 3]).await;
            }
        }
        Work::Lock => unreachable!("it needs no store"),
    }
}

fn lock(kind: Kind, root: &Path) {
    let path = |name| root.join("sessions").join(name);
    let wait = || {
        println!("\nlocked");
        std::io::stdout().flush().expect("the parent reads");
        std::io::stdin().read_line(&mut String::new()).expect("the parent writes");
    };
    match kind {
        Kind::Jsonl => {
            let file = File::create(path(".lock")).expect("the file of the lock");
            file.lock().expect("the lock is free");
            wait();
        }
        Kind::Sqlite => {
            let connection = rusqlite::Connection::open(path("sessions.db")).expect("the store");
            connection.execute_batch("BEGIN IMMEDIATE").expect("the lock is free");
            wait();
        }
    }
}

/// Writes a file until the disk is full.
fn fill(path: &Path) {
    let mut file = File::create(path).expect("the file");
    for size in [64 * 1024, 1] {
        while file.write_all(&vec![0; size]).is_ok() {}
    }
}

fn report(what: &str, error: &MemoryError) {
    println!("\nERROR {what}: {error}");
}

struct Worker {
    kind: Kind,
    store: Arc<dyn SessionStore>,
    acknowledged: File,
    /// `true` after a failed flush of a store that then stops as a whole.
    store_stopped: bool,
}

impl Worker {
    fn acknowledge(&self, what: &Acknowledged) {
        let line = serde_json::to_string(what).expect("it is JSON") + "\n";
        (&self.acknowledged).write_all(line.as_bytes()).expect("it can be recorded");
    }

    /// Reports an error. After a failed flush of the file of all sessions, nothing may succeed.
    fn check<T>(&mut self, what: &str, result: Result<T, MemoryError>) -> Option<T> {
        match result {
            Ok(_) if self.store_stopped => panic!("{what} succeeds after a failed flush"),
            Ok(value) => Some(value),
            Err(error) => {
                self.store_stopped |=
                    self.kind == Kind::Sqlite && error.to_string().contains(NOT_FLUSHED);
                report(what, &error);
                None
            }
        }
    }

    /// Opens a session and appends to it, in batches of `counts` entries.
    async fn append(&mut self, session: &str, counts: &[u64]) {
        let opened = self.store.open(session).await;
        let Some(memory) = self.check("open", opened) else { return };
        let mut at = memory.load(0).await.expect("an open session can be read").len() as u64;
        for count in counts {
            let entries: Arc<[LogEntry]> = (at..at + count).map(|n| entry(session, n)).collect();
            let durable = entries.iter().any(LogEntry::must_be_durable);
            let appended = memory.append(at, entries).await;
            let not_flushed =
                appended.as_ref().is_err_and(|error| error.to_string().contains(NOT_FLUSHED));
            if self.check("append", appended).is_none() {
                if not_flushed {
                    self.expect_stopped(session, &*memory).await;
                }
                return;
            }
            at += count;
            if durable {
                self.acknowledge(&Acknowledged::Entries(session.into(), at));
            }
        }
    }

    async fn expect_stopped(&mut self, session: &str, memory: &dyn Memory) {
        for at in 0..100 {
            let refused = memory.append(at, [entry(session, at)].into()).await.unwrap_err();
            assert!(refused.to_string().contains(NOT_FLUSHED), "{refused}");
        }
    }

    async fn fork(&mut self, session: &str, to: &str) {
        let forked = self.store.fork(session, None, to).await;
        if self.check("fork", forked).is_some() {
            let entries = self.store.read(to, 0).await.expect("the branch can be read");
            let json = |entry| serde_json::to_value(entry).expect("an entry is JSON");
            let entries = entries.iter().map(json).collect();
            self.acknowledge(&Acknowledged::Branch(to.into(), entries));
        }
    }

    async fn delete(&mut self, session: &str) {
        self.acknowledge(&Acknowledged::MayBeDeleted(session.into()));
        let deleted = self.store.delete(session).await;
        if self.check("delete", deleted).is_some() {
            self.acknowledge(&Acknowledged::Deleted(session.into()));
        }
    }
}
