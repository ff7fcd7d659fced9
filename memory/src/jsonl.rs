//! [`Jsonl`]: sessions in files that people can read, one a session, one line an append.

mod folder;
mod line;
mod log;
mod names;
mod reader;

use std::cmp::Reverse;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{Branch, LogEntry, MemoryError, SessionInfo, SessionLog};
use loopwright_core::{Memory, SessionStore};

use crate::{Durability, private};
use folder::Folder;
use line::{Header, Parent};
use log::{Log, Open};

/// Sessions in a directory: an append-only file each, `SESSION.jsonl`. Clones are the same store.
///
/// The first line says whose log it is; each line after it is one append, with the number of items
/// before it and a checksum: CRC-32 of what is between `"items":` and the last brace, as it stands
/// there (in the first line, of what comes after the checksum):
///
/// ```text
/// {"loopwright":"session","version":1,"crc":"bdf0b945","session":"demo"}
/// {"at":0,"crc":"3d740abe","items":[{"type":"opened","epoch":1,"time":1700000000000}]}
/// ```
///
/// - **Names** that are not made of small letters, digits, `_`, `-` and `.` are encoded as in an
///   URL; those that are long are cut. An empty one is refused.
/// - **Files** are for nobody but the user, and so is the directory if this makes it.
/// - **An owner** has the file locked (by `flock`, so it is free at once when the process dies).
///   Reading needs no lock. Memory that is dropped while it writes is free when that is done.
/// - **A torn end**, which a crash in the middle of a write leaves, is cut off when the session is
///   opened, kept in `SESSION.jsonl.torn`, and told of by [`Memory::repaired`] and a warning. Any
///   other damage is [`MemoryError::Damaged`], which names file and line, and changes nothing.
/// - **Branches** share the past of their session: their first line names it.
/// - **Lists and searches** read all files. Where sessions are many, `Sqlite` is quicker.
///
/// ```
/// # use loopwright_core::SessionStore;
/// # use loopwright_core::log::LogEntry;
/// # use loopwright_memory::Jsonl;
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let directory = tempfile::tempdir()?;
/// let store = Jsonl::open(directory.path())?;
/// let memory = store.open("demo").await?;
/// memory.append(0, [LogEntry::Opened { epoch: 1, time: 1_700_000_000_000 }].into()).await?;
/// assert_eq!(store.read("demo", 0).await?, [LogEntry::Opened { epoch: 1, time: 1_700_000_000_000 }]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Jsonl {
    folder: Folder,
    durability: Durability,
}

impl Jsonl {
    /// The store in this directory, which is made if it is missing. Fails where it cannot be made.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, MemoryError> {
        Ok(Jsonl { folder: Folder::open(directory.as_ref())?, durability: Durability::default() })
    }

    /// Which appends wait for the disk, of the sessions that are opened from here on.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }

    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Jsonl) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let store = self.clone();
        blocking(move || work(&store)).await
    }

    fn open_log(&self, session: &str) -> Result<Log, MemoryError> {
        named(session)?;
        let turn = self.folder.turn()?;
        let file = self.folder.lock(session, true)?;
        drop(turn); // whoever has the lock is alone with the file
        let log = Log::open(&self.folder, session, file, self.durability)?;
        self.folder.sync()?;
        Ok(log)
    }

    fn items(&self, session: &str) -> Result<(Header, Vec<LogEntry>), MemoryError> {
        match self.folder.read(session)? {
            Some((header, items)) if !items.is_empty() => Ok((header, items)),
            _ => Err(MemoryError::NoSession(session.into())),
        }
    }

    fn info(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let (header, items) = self.items(session)?;
        let mut info = SessionInfo::of(session, &items);
        info.parent = header.parent.map(|parent| (parent.session.into(), parent.items));
        Ok(info)
    }

    fn list(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let mut list = Vec::new();
        for (path, header) in self.folder.headers()? {
            let info = match header {
                Ok(None) => continue,
                Ok(Some(header)) if self.folder.path(&header.session) != path => {
                    let wanted = self.folder.path(&header.session);
                    let why =
                        format!("its session is that of {}: rename or remove it", wanted.display());
                    Err(MemoryError::Damaged(format!("{} is passed over: {why}", path.display())))
                }
                Ok(Some(header)) => self.info(&header.session),
                Err(error) => Err(error),
            };
            match info {
                Ok(info) => list.push(info),
                Err(MemoryError::NoSession(_)) => {}
                Err(error) => tracing::warn!("a session is missing in the list: {error}"),
            }
        }
        list.sort_by(|a, b| (Reverse(a.changed), &a.id).cmp(&(Reverse(b.changed), &b.id)));
        Ok(list)
    }

    fn branch(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        named(to)?;
        let _turn = self.folder.turn()?;
        let (_, past) = self.items(session)?;
        let Branch { shared, items, .. } = SessionLog::branch(&past, at);
        let taken = match self.folder.lock(to, false) {
            Ok(file) => Some(Log::open(&self.folder, to, file, self.durability)?),
            Err(MemoryError::NoSession(_)) => None,
            Err(other) => return Err(other),
        };
        if taken.as_ref().is_some_and(|log| !log.is_empty()) {
            return Err(MemoryError::Exists(to.into()));
        }
        if shared == 0 {
            return Ok(0); // a session without an item is not there
        }
        let own = self.folder.path(session);
        let synced = File::open(&own).and_then(|file| file.sync_data());
        synced.map_err(|e| failed("cannot be made durable", &own, &e))?;

        let parent = Some(Parent { session: session.to_owned(), items: shared });
        let mut lines = Header { session: to.to_owned(), parent }.line()?;
        if !items.is_empty() {
            lines.extend(line::append(shared, &items)?);
        }
        let draft = self.folder.draft();
        let write = || -> io::Result<()> {
            let mut file = private::file().write(true).create(true).truncate(true).open(&draft)?;
            file.write_all(&lines)?;
            file.sync_all()?;
            fs::rename(&draft, self.folder.path(to))
        };
        write().map_err(|e| failed("cannot be written", &draft, &e))?;
        self.folder.sync()?;
        Ok(shared)
    }

    fn remove(&self, session: &str) -> Result<(), MemoryError> {
        let _turn = self.folder.turn()?;
        let _lock = self.folder.lock(session, false)?;
        let path = self.folder.path(session);
        let mut branches = Vec::new();
        for (other, header) in self.folder.headers()? {
            match header {
                _ if other == path => {}
                Ok(Some(Header { session: branch, parent: Some(parent) }))
                    if parent.session == session =>
                {
                    branches.push(branch);
                }
                Ok(_) => {}
                Err(error) => {
                    let why = "cannot be deleted, because another one may share its past and cannot be read";
                    return Err(MemoryError::Damaged(format!(
                        "the session `{session}` {why}: {error}"
                    )));
                }
            }
        }
        if !branches.is_empty() {
            branches.sort();
            return Err(MemoryError::HasBranches { session: session.into(), branches });
        }
        let there = !matches!(self.items(session), Err(MemoryError::NoSession(_)));
        for file in [self.folder.torn(&path), path] {
            match fs::remove_file(&file) {
                Err(e) if e.kind() != ErrorKind::NotFound => {
                    return Err(failed("cannot be deleted", &file, &e));
                }
                _ => {}
            }
        }
        self.folder.sync()?;
        if there { Ok(()) } else { Err(MemoryError::NoSession(session.into())) }
    }
}

#[async_trait]
impl SessionStore for Jsonl {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let session = session.to_owned();
        let log = self.work(move |store| store.open_log(&session)).await?;
        Ok(Arc::new(Open::new(log)))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let session = session.to_owned();
        let (_, mut items) = self.work(move |store| store.items(&session)).await?;
        Ok(items.split_off((from as usize).min(items.len())))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.work(|store| store.list()).await
    }

    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let session = session.to_owned();
        self.work(move |store| store.info(&session)).await
    }

    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        let (session, to) = (session.to_owned(), to.to_owned());
        self.work(move |store| store.branch(&session, at, &to)).await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        let session = session.to_owned();
        self.work(move |store| store.remove(&session)).await
    }
}

/// Runs what may block on a thread for that. It goes on even if nobody waits for it.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, MemoryError> + Send + 'static,
) -> Result<T, MemoryError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| {
        Err(MemoryError::Failed(format!("the work on the session's file did not end: {e}")))
    })
}

fn named(session: &str) -> Result<(), MemoryError> {
    match session {
        "" => Err(MemoryError::Failed("a session's name must not be empty: give it one".into())),
        _ => Ok(()),
    }
}

/// An error of the file system, with the place.
fn failed(what: &str, path: &Path, error: &io::Error) -> MemoryError {
    MemoryError::Failed(format!("{} {what}: {error}", path.display()))
}
