//! [`Sqlite`]: many sessions of many processes in one file.

mod db;
mod owners;
mod rows;
mod trouble;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use loopwright_core::log::{LogEntry, MemoryError, SearchHit, SessionInfo, SessionLog};
use loopwright_core::{Memory, SessionStore};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::{Durability, codec};
use trouble::Trouble;
use writer::{Job, Write};

/// Sessions in one SQLite file, for any number of processes. Clones are the same store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), loopwright_core::log::MemoryError> {
/// use loopwright_core::SessionStore;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("sessions.db");
/// let store = loopwright_memory::Sqlite::open(path)?;
/// let memory = store.open("s").await?; // or agent.run(RunContext::new().stored(&store, "s").await?)
/// memory.append(0, [loopwright_core::log::LogEntry::Opened { epoch: 1, time: 1_700_000_000_000 }].into()).await?;
/// assert_eq!(store.sessions().await?[0].items, 1);
/// # Ok(()) }
/// ```
///
/// What several sessions append at the same time is one transaction. Reading waits for nobody.
/// Every row has a checksum: what is not as it was written in the file is an error and never a
/// session that is shorter, or not there. This does not hold for SQLite's log, the `-wal` that is
/// there while the file is open and after a crash: a bit that flips in it ends it, and the newest
/// appends are missing without a word. A deleted session is overwritten. Three files lie beside the
/// given one: `-wal` and `-shm` are SQLite's and belong to it while it is open, `-owners` is a
/// folder that tells who lives. The file must be on a disk of this machine: SQLite's log and its
/// locks do not work across a network.
///
/// Needs a tokio runtime. A session that is dropped is free for this store at once, and for others
/// a moment later; when the last clone and the last session are dropped, this waits until what was
/// given to them is in the file.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
    durability: Durability,
}

/// What clones and sessions of a store share. Its fields go in this order: the writer's connection
/// is the last.
struct Shared {
    file: PathBuf,
    token: String,
    opened: AtomicU64,
    /// Connections to read with.
    idle: Mutex<Vec<Connection>>,
    jobs: Sender<Job>,
    _writer: Writer,
}

/// The most connections that are kept to read with.
const IDLE: usize = 4;

/// The thread that writes; it is waited for, since it still writes what was given to it.
struct Writer(Option<JoinHandle<()>>);

impl Drop for Writer {
    fn drop(&mut self) {
        if self.0.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes sessions has panicked");
        }
    }
}

impl Sqlite {
    /// Opens the store in this file; if it is not there it is made, with the folders above it, for
    /// nobody but the user. Takes a few milliseconds.
    ///
    /// Fails with [`MemoryError::Newer`] for a file of a newer version, [`MemoryError::Damaged`]
    /// for a damaged one, and [`MemoryError::Failed`] for one that is something else, which is left
    /// as it is.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MemoryError> {
        let file = db::locate(path.as_ref())?;
        let (owners, connection) = db::open(&file)?;
        let (token, place) = (owners.token().to_owned(), file.clone());
        let (jobs, given) = mpsc::channel();
        let write = move || {
            if let Err(error) = writer::run(connection, owners, place, given) {
                tracing::error!(%error, "sessions can no longer be written");
            }
        };
        let thread =
            thread::Builder::new().name("sqlite sessions".into()).spawn(write).map_err(|why| {
                MemoryError::Failed(format!(
                    "no thread can be started that writes to {}: {why}",
                    file.display()
                ))
            })?;
        let (idle, opened) = (Mutex::default(), AtomicU64::default());
        let shared = Shared { file, token, opened, idle, jobs, _writer: Writer(Some(thread)) };
        Ok(Sqlite { shared: Arc::new(shared), durability: Durability::default() })
    }

    /// When sessions that this clone opens wait for the disk.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

impl Shared {
    /// Gives it to the writer and waits until it is done. It is done also if nobody waits any more.
    async fn write(&self, session: &str, write: Write, durable: bool) -> Result<(), MemoryError> {
        let (done, told) = oneshot::channel();
        let given = self.jobs.send(Job { session: session.into(), write, durable, done });
        let ended = || {
            let file = self.file.display();
            MemoryError::Failed(format!(
                "nothing can be written to {file} any more, after an error: open the store anew"
            ))
        };
        given.map_err(|_| ended())?;
        told.await.unwrap_or_else(|_| Err(ended()))
    }

    /// Reads what `read` reads, as the file is at one moment, on a thread where it may take its
    /// time.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection, &Path) -> Result<T, Trouble> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let shared = self.clone();
        let read = move || {
            let idle = shared.idle().pop();
            let connection = idle.map_or_else(|| db::connect(&shared.file), Ok)?;
            let moment = || {
                let transaction = connection.unchecked_transaction()?;
                read(&transaction, &shared.file)
            };
            let found = moment().map_err(|trouble| trouble.told(&shared.file));
            let mut idle = shared.idle();
            if idle.len() < IDLE {
                idle.push(connection);
            }
            drop(idle);
            found
        };
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|why| {
            Err(MemoryError::Failed(format!("{}: {why}", self.file.display())))
        })
    }

    fn idle(&self) -> std::sync::MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A session that is open, until it is dropped.
struct Owned {
    store: Sqlite,
    session: Arc<str>,
    owner: Arc<str>,
}

impl Drop for Owned {
    fn drop(&mut self) {
        let write = Write::Release { owner: self.owner.clone() };
        let (done, _) = oneshot::channel();
        let job = Job { session: self.session.clone(), write, durable: false, done };
        let _ = self.store.shared.jobs.send(job); // without a writer it is free when the process ends
    }
}

#[async_trait]
impl Memory for Owned {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let json = items.iter().map(codec::encode).collect::<Result<_, _>>()?;
        let durable = self.store.durability.waits(&items);
        let write = Write::Append { owner: self.owner.clone(), at, items, json };
        self.store.shared.write(&self.session, write, durable).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let session = self.session.clone();
        self.store
            .shared
            .read(move |db, file| rows::items(db, rows::wanted(db, &session, file)?, from, file))
            .await
    }
}

/// The session for a reader, to whom one without an item is not there.
fn known(db: &Connection, session: &str, file: &Path) -> Result<rows::Session, Trouble> {
    let found = rows::wanted(db, session, file)?;
    if found.info.items == 0 {
        Err(MemoryError::NoSession(session.into()).into())
    } else {
        Ok(found)
    }
}

/// The sessions that have an item, the one changed last first.
fn listed(db: &Connection, file: &Path) -> Result<Vec<rows::Session>, Trouble> {
    let (mut all, _) = rows::all(db, file)?;
    all.retain(|session| session.info.items > 0);
    all.sort_by_key(|session| std::cmp::Reverse(session.info.changed));
    Ok(all)
}

#[async_trait]
impl SessionStore for Sqlite {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let count = self.shared.opened.fetch_add(1, Ordering::Relaxed);
        let owner: Arc<str> = format!("{}#{count}", self.shared.token).into();
        // Made first: if this future is dropped, the session is released after it was opened.
        let owned = Owned { store: self.clone(), session: session.into(), owner: owner.clone() };
        self.shared.write(session, Write::Open { owner }, false).await?;
        Ok(Arc::new(owned))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let session: Arc<str> = session.into();
        self.shared
            .read(move |db, file| rows::items(db, known(db, &session, file)?, from, file))
            .await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.shared
            .read(|db, file| {
                Ok(listed(db, file)?.into_iter().map(|session| session.info).collect())
            })
            .await
    }

    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let session: Arc<str> = session.into();
        self.shared.read(move |db, file| Ok(known(db, &session, file)?.info)).await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.shared.write(session, Write::Delete, true).await
    }

    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        let (of, new): (Arc<str>, Arc<str>) = (session.into(), to.into());
        let begin = move |db: &Connection, file: &Path| {
            let parent = known(db, &of, file)?;
            let number = parent.number;
            let items = rows::items(db, parent, 0, file)?;
            let branch = SessionLog::branch(&items, at);
            let shared = branch.shared;
            let json = branch.items.iter().map(codec::encode).collect::<Result<Vec<_>, _>>()?;
            let mut info = SessionInfo::of(new, &branch.log(items));
            info.parent = Some((of, shared)).filter(|(_, shared)| *shared > 0);
            Ok((shared, Write::Fork { of: number, info: Box::new(info), json }))
        };
        let (shared, write) = self.shared.read(begin).await?;
        self.shared.write(to, write, true).await?;
        Ok(shared)
    }

    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, MemoryError> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        let look = move |db: &Connection, file: &Path| {
            let mut found = Vec::new();
            for session in listed(db, file)? {
                if words.is_empty() || found.len() >= limit {
                    break;
                }
                let id = session.info.id.clone();
                let items = rows::items(db, session, 0, file)?;
                let fitting = items
                    .iter()
                    .rev()
                    .filter_map(LogEntry::message)
                    .filter(|message| message.has_words(&words));
                let here = fitting.map(|message| SearchHit::new(id.clone(), message.clone()));
                found.extend(here.take(limit - found.len()));
            }
            Ok(found)
        };
        self.shared.read(look).await
    }
}
