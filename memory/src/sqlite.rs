//! [`Sqlite`]: the sessions of any number of processes in one file.

mod changes;
pub(crate) mod connection;
mod decisions;
mod entries;
pub(crate) mod error;
mod job;
mod listing;
mod mailbox;
mod migration;
mod owners;
mod pending;
mod rows;
mod schedule_rows;
mod schedules;
mod snapshots;
pub(crate) mod wal;
mod writer;

use std::cmp::Reverse;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};

use async_trait::async_trait;
use loopwright_core::error::Failure;
use loopwright_core::log::{
    AuditPage, AuditQuery, InputReceipt, LogEntry, Mailbox, MemoryError, PendingPage, PendingQuery,
    PostedInput, Schedules, SearchHit, SessionInfo, SessionLog, SessionPage, SessionQuery,
    Snapshot, Snapshots,
};
use loopwright_core::message::InputId;
use loopwright_core::{Environment, Memory, SessionStore, SystemEnvironment};
use rusqlite::Connection;
use tokio::sync::{Notify, oneshot};

use crate::sql::is_listed;
use crate::{Durability, codec, room};
use error::StoreError;
use job::{Job, Write};

/// A store of sessions in one SQLite file, for any number of processes. Clones share the store.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), loopwright_core::log::MemoryError> {
/// use loopwright_core::SessionStore;
/// use loopwright_core::log::LogEntry;
/// use loopwright_memory::Sqlite;
/// # let folder = tempfile::tempdir().unwrap();
/// # let path = folder.path().join("sessions.db");
///
/// let store = Sqlite::open(path)?;
/// // An agent opens the session itself: `agent.run(RunContext::new().stored(&store, "s").await?)`.
/// let memory = store.open("s").await?;
/// let opened = LogEntry::Opened { epoch: 1, time: 1_700_000_000_000, parent: None, owner: None };
/// memory.append(0, [opened].into()).await?;
/// assert_eq!(store.read("s", 0).await?.len(), 1);
/// # Ok(()) }
/// ```
///
/// - **Writing.** Appends that arrive at the same time, from all sessions, are written in one
///   transaction. Readers never wait for writers.
/// - **Corruption.** Every row has a checksum. Damaged data is reported as an error, never as a
///   shorter or a missing session. The exception is SQLite's write-ahead log, the `-wal` file that
///   exists while the store is open and after a crash: a flipped bit in it ends the log there, so
///   the newest appends are missing without an error.
/// - **Failing disks.** After a failed flush nothing more is written, since the content of the disk
///   is unknown: each write returns an error until the file is opened again. What was acknowledged
///   before survives a power failure. A full disk does not stop the store.
/// - **Waiting.** A write waits at most ten seconds for another process that writes, and five for a
///   stopped one; the error names that process.
/// - **Mailboxes.** An input of another process reaches the owner of a session within 100 ms: while
///   sessions are open, the store asks SQLite fifty times a second whether the file has changed.
/// - **Deletion.** A deleted session is overwritten in the file.
/// - **Files.** While the file is open, `-wal` and `-shm` are beside it and belong to it. The
///   folder `-owners` has a lock file for each open store.
/// - **Placement.** The file must be on a local disk: SQLite's write-ahead log and its locks do not
///   work on network file systems.
///
/// Must be used within a tokio runtime. When a session's memory is dropped, the session is free for
/// this store at once, and shortly afterwards for other processes. When the last clone and the last
/// session are dropped, the drop blocks until all accepted writes are in the file, or for 200 ms if
/// another process has locked it.
#[derive(Clone)]
pub struct Sqlite {
    shared: Arc<Shared>,
    durability: Durability,
}

/// The state shared by clones and sessions of a store. The fields are dropped in this order: the
/// writer's connection must be the last.
struct Shared {
    file: PathBuf,
    token: String,
    opened: AtomicU64,
    /// The idle connections for readers.
    idle: Mutex<Vec<Connection>>,
    jobs: Sender<Job>,
    _writer: WriterThread,
}

/// Maximum number of idle connections for readers.
const MAX_IDLE_CONNECTIONS: usize = 4;

/// The writer's thread. Joined on drop, since it still writes accepted jobs.
struct WriterThread {
    thread: Option<JoinHandle<()>>,
    is_closing: Arc<AtomicBool>,
}

impl Drop for WriterThread {
    fn drop(&mut self) {
        self.is_closing.store(true, Ordering::Relaxed);
        if self.thread.take().is_some_and(|thread| thread.join().is_err()) {
            tracing::error!("the thread that writes sessions has panicked");
        }
    }
}

impl Sqlite {
    /// Opens the store in this file, creating the file and its folders if they are missing,
    /// accessible to the user only. Blocks for a few milliseconds.
    ///
    /// # Errors
    ///
    /// Returns [`MemoryError::Newer`] for a file of a newer version, [`MemoryError::Damaged`] for a
    /// damaged file, and [`MemoryError::Failed`] for a file that is not a store, which is left
    /// untouched.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, MemoryError> {
        let file = connection::locate(path.as_ref())?;
        let (owners, connection) = connection::open(&file)?;
        let token = owners.token().to_owned();
        let (jobs, received) = mpsc::channel();
        let writer_file = file.clone();
        let is_closing = Arc::new(AtomicBool::new(false));
        let closing = is_closing.clone();
        let write = move || {
            if let Err(error) = writer::run(connection, owners, writer_file, received, closing) {
                tracing::error!(%error, "sessions can no longer be written");
            }
        };
        let thread = thread::Builder::new().name("sqlite sessions".into()).spawn(write).map_err(
            |error| {
                let file = file.display();
                let why = format!("the thread that writes to {file} cannot be started: {error}");
                MemoryError::Failed(Failure::new(why).with_source(error))
            },
        )?;
        let shared = Shared {
            file,
            token,
            opened: AtomicU64::default(),
            idle: Mutex::default(),
            jobs,
            _writer: WriterThread { thread: Some(thread), is_closing },
        };
        Ok(Sqlite { shared: Arc::new(shared), durability: Durability::default() })
    }

    /// Sets which appends wait for the disk, for sessions that this clone opens.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = durability;
        self
    }
}

impl Shared {
    /// Sends a write to the writer and waits for its result. The write takes place even if this
    /// future is dropped.
    async fn write(&self, session: &str, write: Write, durable: bool) -> Result<(), MemoryError> {
        let (done, result) = oneshot::channel();
        let closed =
            || {
                let file = self.file.display();
                MemoryError::Failed(format!(
                "{file} cannot be written any more after an earlier error: open the store again"
            ).into())
            };
        let job = Job { session: session.into(), write, durable, done };
        self.jobs.send(job).map_err(|_| closed())?;
        result.await.unwrap_or_else(|_| Err(closed()))
    }

    /// Runs `read` on a blocking thread, on a snapshot of the file.
    async fn read<T: Send + 'static>(
        self: &Arc<Self>,
        read: impl FnOnce(&Connection, &Path) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let shared = self.clone();
        let work = move || {
            let idle = shared.idle().pop();
            let connection = idle.map_or_else(|| connection::connect(&shared.file), Ok)?;
            let read_snapshot = || {
                let transaction = connection.unchecked_transaction()?;
                read(&transaction, &shared.file)
            };
            let result = read_snapshot().map_err(|error| error.into_memory_error(&shared.file));
            let mut idle = shared.idle();
            if idle.len() < MAX_IDLE_CONNECTIONS {
                idle.push(connection);
            }
            drop(idle);
            result
        };
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            let why = format!("{} cannot be read: {error}", self.file.display());
            Err(MemoryError::Failed(Failure::new(why).with_source(error)))
        })
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Connection>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// An open session. It is released on drop.
struct OpenSession {
    store: Sqlite,
    session: Arc<str>,
    owner: Arc<str>,
    /// Notified when an input may have been posted.
    posted: Arc<Notify>,
}

impl Drop for OpenSession {
    fn drop(&mut self) {
        let write = Write::Release { owner: self.owner.clone() };
        let (done, _) = oneshot::channel();
        let job = Job { session: self.session.clone(), write, durable: false, done };
        // Without a writer, the session is free when the process ends.
        let _ = self.store.shared.jobs.send(job);
    }
}

#[async_trait]
impl Memory for OpenSession {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let json = entries.iter().map(codec::encode).collect::<Result<_, _>>()?;
        let durable = self.store.durability.must_flush(&entries);
        let write = Write::Append { owner: self.owner.clone(), at, entries, json };
        self.store.shared.write(&self.session, write, durable).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let name = self.session.clone();
        let read = move |connection: &Connection, file: &Path| {
            entries::read(connection, rows::get(connection, &name, file)?, from, file)
        };
        self.store.shared.read(read).await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }
}

#[async_trait]
impl Snapshots for OpenSession {
    async fn latest(&self) -> Result<Option<Snapshot>, MemoryError> {
        let name = self.session.clone();
        let read = move |connection: &Connection, file: &Path| {
            snapshots::latest(connection, rows::get(connection, &name, file)?.number)
        };
        self.store.shared.read(read).await
    }

    async fn store(&self, snapshot: Snapshot) -> Result<(), MemoryError> {
        let write = Write::Snapshot { owner: self.owner.clone(), snapshot };
        // Nothing is lost without it.
        self.store.shared.write(&self.session, write, false).await
    }
}

#[async_trait]
impl Mailbox for OpenSession {
    async fn unread(&self) -> Result<Vec<PostedInput>, MemoryError> {
        let name = self.session.clone();
        let read = move |connection: &Connection, file: &Path| {
            mailbox::unread(connection, &rows::get(connection, &name, file)?, file)
        };
        self.store.shared.read(read).await
    }

    async fn now(&self) -> Result<u64, MemoryError> {
        let now = SystemEnvironment.now();
        // Wait for commits that took an earlier time.
        self.store.shared.write(&self.session, Write::Nothing, false).await?;
        Ok(now)
    }

    async fn receipt(&self, input: &InputId) -> Result<Option<InputReceipt>, MemoryError> {
        let (name, input) = (self.session.clone(), input.clone());
        let read = move |connection: &Connection, file: &Path| {
            let session = rows::get(connection, &name, file)?;
            let row = mailbox::find(connection, session.number, &input, file)?;
            row.map_or(Ok(None), |row| row.receipt(file))
        };
        self.store.shared.read(read).await
    }

    async fn acknowledge(
        &self,
        input: &InputId,
        receipt: &InputReceipt,
    ) -> Result<(), MemoryError> {
        let is_accepted = *receipt == InputReceipt::Accepted;
        let (owner, receipt) = (self.owner.clone(), codec::encode(receipt)?);
        let write = Write::Acknowledge { owner, input: input.clone(), receipt, is_accepted };
        // An accepted input is in the log, so this need not be durable.
        self.store.shared.write(&self.session, write, !is_accepted).await
    }

    async fn posted(&self) {
        self.posted.notified().await
    }
}

/// Returns a session for a reader. Without entries, the session does not exist for readers.
fn get_nonempty(
    connection: &Connection,
    name: &str,
    file: &Path,
) -> Result<rows::Session, StoreError> {
    let session = rows::get(connection, name, file)?;
    if session.info.entries == 0 {
        return Err(MemoryError::NoSession(name.into()).into());
    }
    Ok(session)
}

/// Returns the sessions with entries, except sessions of sub-agents, most recently changed first.
fn list(connection: &Connection, file: &Path) -> Result<Vec<rows::Session>, StoreError> {
    let (mut all, _) = rows::all(connection, file)?;
    all.retain(|session| is_listed(&session.info));
    all.sort_by_key(|session| Reverse(session.info.changed));
    Ok(all)
}

#[async_trait]
impl SessionStore for Sqlite {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let count = self.shared.opened.fetch_add(1, Ordering::Relaxed);
        let owner: Arc<str> = format!("{}#{count}", self.shared.token).into();
        // Created first: if this future is dropped, the session is released after it was opened.
        let posted = Arc::<Notify>::default();
        let open = OpenSession {
            store: self.clone(),
            session: session.into(),
            owner: owner.clone(),
            posted: posted.clone(),
        };
        self.shared.write(session, Write::Open { owner, posted }, false).await?;
        Ok(Arc::new(open))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let name: Arc<str> = session.into();
        let read = move |connection: &Connection, file: &Path| {
            entries::read(connection, get_nonempty(connection, &name, file)?, from, file)
        };
        self.shared.read(read).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let read = |connection: &Connection, file: &Path| {
            Ok(list(connection, file)?.into_iter().map(|session| session.info).collect())
        };
        self.shared.read(read).await
    }

    async fn sessions_page(&self, query: &SessionQuery) -> Result<SessionPage, MemoryError> {
        let query = query.clone();
        let read =
            move |connection: &Connection, file: &Path| listing::page(connection, file, &query);
        self.shared.read(read).await
    }

    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let name: Arc<str> = session.into();
        let read = move |connection: &Connection, file: &Path| {
            Ok(get_nonempty(connection, &name, file)?.info)
        };
        self.shared.read(read).await
    }

    async fn post(
        &self,
        session: &str,
        input: &PostedInput,
    ) -> Result<Option<InputReceipt>, MemoryError> {
        let (name, id): (Arc<str>, _) = (session.into(), input.id.clone());
        let find = move |connection: &Connection, file: &Path| {
            let session = get_nonempty(connection, &name, file)?;
            session.info.require_root()?;
            if let Some(row) = mailbox::find(connection, session.number, &id, file)? {
                return Ok(Some(row.receipt(file)?));
            }
            let log = entries::read(connection, session, 0, file)?;
            let is_accepted = log.iter().any(|entry| entry.input() == Some(&id));
            Ok(is_accepted.then_some(Some(InputReceipt::Accepted)))
        };
        if let Some(receipt) = self.shared.read(find).await? {
            return Ok(receipt);
        }
        let write = Write::Post { input: input.clone() };
        self.shared.write(session, write, true).await.map(|()| None)
    }

    async fn check_writable(&self) -> Result<(), MemoryError> {
        let file = self.shared.file.clone();
        room::check(file.parent().unwrap_or(&file)).await
    }

    async fn in_use(&self, session: &str) -> Result<Option<bool>, MemoryError> {
        match self.shared.write(session, Write::CheckFree, false).await {
            Ok(()) => Ok(Some(false)),
            Err(MemoryError::InUse(_)) => Ok(Some(true)),
            Err(error) => Err(error),
        }
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.shared.write(session, Write::Delete, true).await
    }

    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        let name: Arc<str> = session.into();
        let new: Arc<str> = to.into();
        let prepare = move |connection: &Connection, file: &Path| {
            let parent = get_nonempty(connection, &name, file)?;
            parent.info.require_root()?;
            let number = parent.number;
            let entries = entries::read(connection, parent, 0, file)?;
            let branch = SessionLog::branch(&entries, at);
            let shared = branch.shared;
            let json = branch.entries.iter().map(codec::encode).collect::<Result<Vec<_>, _>>()?;
            let mut info = SessionInfo::of(new, &branch.log(entries));
            info.parent = Some((name, shared)).filter(|(_, shared)| *shared > 0);
            Ok((shared, Write::Fork { parent: number, info: Box::new(info), json }))
        };
        let (shared, write) = self.shared.read(prepare).await?;
        self.shared.write(to, write, true).await?;
        Ok(shared)
    }

    async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, MemoryError> {
        let query = query.clone();
        let read =
            move |connection: &Connection, file: &Path| pending::page(connection, file, &query);
        self.shared.read(read).await
    }

    async fn decisions(&self, query: &AuditQuery) -> Result<AuditPage, MemoryError> {
        let query = query.clone();
        let read =
            move |connection: &Connection, file: &Path| decisions::page(connection, file, &query);
        self.shared.read(read).await
    }

    async fn search(&self, query: &str, limit: usize) -> Result<Vec<SearchHit>, MemoryError> {
        let words: Vec<String> = query.split_whitespace().map(str::to_lowercase).collect();
        // The search ends early once the caller is gone.
        let waiting = Arc::new(());
        let is_awaited = Arc::downgrade(&waiting);
        let search = move |connection: &Connection, file: &Path| {
            let mut hits = Vec::new();
            for session in list(connection, file)? {
                if words.is_empty() || hits.len() >= limit || is_awaited.strong_count() == 0 {
                    break;
                }
                let id = session.info.id.clone();
                let entries = entries::read(connection, session, 0, file)?;
                let matching = entries
                    .iter()
                    .rev()
                    .filter_map(LogEntry::message)
                    .filter(|message| message.has_words(&words))
                    .map(|message| SearchHit::new(id.clone(), message.clone()));
                hits.extend(matching.take(limit - hits.len()));
            }
            Ok(hits)
        };
        let found = self.shared.read(search).await;
        drop(waiting);
        found
    }

    fn schedules(&self) -> Option<&dyn Schedules> {
        Some(self)
    }
}
