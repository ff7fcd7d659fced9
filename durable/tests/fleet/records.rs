//! Records of workers outside of the database: effects of tools, and appends.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{LogEntry, MemoryError, SessionInfo};
use loopwright_core::{Memory, SessionStore};
use loopwright_memory::Postgres;
use serde::{Deserialize, Serialize};

use crate::poison;
use crate::random::now;

/// A line of the record.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) enum Record {
    /// A tool had its effect.
    Effect { session: String, call: String, worker: u32 },
    /// An append succeeded.
    Append { session: String, at: u64, entries: u64, epoch: u64, worker: u32, time: u64 },
}

/// A file shared by all workers, to which each appends lines. A line is one write, which a kill
/// does not cut.
pub(crate) struct Records(File);

impl Records {
    pub(crate) fn open(path: &Path) -> Self {
        Records(OpenOptions::new().create(true).append(true).open(path).unwrap())
    }

    pub(crate) fn add(&self, record: &Record) {
        let line = serde_json::to_string(record).unwrap() + "\n";
        (&self.0).write_all(line.as_bytes()).unwrap();
    }

    /// Records this process as killed by this session, and ends it.
    pub(crate) fn kill(&self, session: &str) -> ! {
        self.add(&poison::record(session));
        std::process::abort()
    }

    /// Reads the records so far. A last line without an end is still being written.
    pub(crate) fn read(path: &Path) -> Vec<Record> {
        let text = std::fs::read_to_string(path).unwrap();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }
}

/// A store that records the appends of the sessions that it opens.
#[derive(Clone)]
pub(crate) struct Recording {
    pub(crate) store: Postgres,
    pub(crate) records: Arc<Records>,
}

struct Recorded {
    session: String,
    memory: Arc<dyn Memory>,
    records: Arc<Records>,
    epoch: std::sync::atomic::AtomicU64,
}

#[async_trait]
impl Memory for Recorded {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        use std::sync::atomic::Ordering::SeqCst;
        for entry in entries.iter() {
            if let LogEntry::Opened { epoch, .. } = entry {
                self.epoch.store(*epoch, SeqCst);
            }
        }
        if entries.iter().any(poison::is_pill) {
            self.records.kill(&self.session);
        }
        let count = entries.len() as u64;
        self.memory.append(at, entries).await?;
        if count > 0 {
            self.records.add(&Record::Append {
                session: self.session.clone(),
                at,
                entries: count,
                epoch: self.epoch.load(SeqCst),
                worker: std::process::id(),
                time: now(),
            });
        }
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.memory.load(from).await
    }

    fn inner(&self) -> Option<&dyn Memory> {
        Some(&*self.memory)
    }
}

#[async_trait]
impl SessionStore for Recording {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let memory = self.store.open(session).await?;
        let (session, records, epoch) = (session.to_owned(), self.records.clone(), 0.into());
        Ok(Arc::new(Recorded { session, memory, records, epoch }))
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

    fn inner(&self) -> Option<&dyn SessionStore> {
        Some(&self.store)
    }
}
