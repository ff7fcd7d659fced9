//! The stores that are tried.

use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loopwright::*;
use loopwright_memory::Sqlite;
use serde::{Deserialize, Serialize};

/// Which store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) enum Kind {
    Lines,
    Sqlite,
}

impl Kind {
    pub(crate) const ALL: [Kind; 2] = [Kind::Lines, Kind::Sqlite];

    /// The store in this directory.
    pub(crate) fn at(self, place: &Path) -> Arc<dyn MemoryStore> {
        match self {
            Kind::Lines => Arc::new(Lines(place.to_owned())),
            Kind::Sqlite => Arc::new(Sqlite::open(place.join("sessions.db")).expect("the store can be opened")),
        }
    }
}

/// Just enough of a store: a file of JSON lines a session.
struct Lines(PathBuf);

struct Log {
    file: Mutex<(File, u64)>,
    path: PathBuf,
}

fn items(text: &str) -> Vec<Item> {
    let whole = &text[..text.rfind('\n').map_or(0, |at| at + 1)];
    whole.lines().flat_map(|line| serde_json::from_str::<Vec<Item>>(line).unwrap()).collect()
}

#[async_trait]
impl Memory for Log {
    async fn append(&self, at: u64, items: Arc<[Item]>) -> Result<(), MemoryError> {
        let (file, end) = &mut *self.file.lock().unwrap();
        if *end != at {
            return Err(MemoryError::Conflict { at, end: *end });
        }
        file.write_all(format!("{}\n", serde_json::to_string(&*items).unwrap()).as_bytes()).unwrap();
        *end += items.len() as u64;
        Ok(())
    }
    async fn load(&self, from: u64) -> Result<Vec<Item>, MemoryError> {
        Ok(items(&std::fs::read_to_string(&self.path).unwrap()).split_off(from as usize))
    }
}

#[async_trait]
impl MemoryStore for Lines {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let path = self.0.join(session);
        let mut file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path).unwrap();
        rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| MemoryError::InUse(session.into()))?;
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        file.set_len(text.rfind('\n').map_or(0, |at| at + 1) as u64).unwrap();
        file.seek(SeekFrom::End(0)).unwrap();
        Ok(Arc::new(Log { file: Mutex::new((file, items(&text).len() as u64)), path }))
    }
    async fn read(&self, session: &str, from: u64) -> Result<Vec<Item>, MemoryError> {
        let text = std::fs::read_to_string(self.0.join(session)).unwrap_or_default();
        let mut items = items(&text);
        if items.is_empty() { Err(MemoryError::NoSession(session.into())) } else { Ok(items.split_off(from as usize)) }
    }
    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        Ok(Vec::new())
    }
    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        Ok(SessionInfo::of(session, &self.read(session, 0).await?))
    }
    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        Err(MemoryError::NoSession(session.into()))
    }
}
