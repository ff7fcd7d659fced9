//! [`Jsonl`]: sessions in files that people can read, one file for each session and one line for
//! each append.

mod decisions;
mod error;
mod file_name;
mod folder;
mod hints;
mod line;
mod mailbox;
mod open_log;
mod reader;
mod schedule_file;
mod schedules;
mod unwritten;

use std::cmp::Reverse;
use std::fs;
use std::io::{self, ErrorKind, Write};
use std::iter;
use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{
    AuditPage, AuditQuery, Branch, DecisionRecord, InputReceipt, LogEntry, MemoryError,
    PostedInput, Schedules, SessionInfo, SessionLog,
};
use loopwright_core::{Memory, SessionStore};

use crate::{Durability, private, room};
use decisions::DecisionFile;
use error::{blocking, failed};
use folder::{ChangeLock, Folder};
use line::{Header, Parent};
use mailbox::MailFile;
use open_log::{JsonlMemory, OpenLog};
use schedule_file::ScheduleFile;

/// A store of sessions in a directory, each in an append-only file `SESSION.jsonl`. Clones share
/// the store.
///
/// The first line names the session; each line after it is one append, with the number of entries
/// before it and a checksum. The checksum is the CRC-32 of the bytes between `"entries":` and the
/// last brace, and in the first line of the bytes after the checksum:
///
/// ```text
/// {"loopwright":"session","version":1,"crc":"bdf0b945","session":"demo"}
/// {"at":0,"crc":"3d740abe","entries":[{"type":"opened","epoch":1,"time":1700000000000}]}
/// ```
///
/// - **Names.** Characters other than lower-case letters, digits, `_`, `-` and `.` are encoded as
///   in a URL; long names are cut. An empty name is refused.
/// - **Permissions.** Only the user may access the files. The same holds for the directory if the
///   store created it.
/// - **Ownership.** The owner of a session holds a lock on its file (`flock`, so the kernel
///   releases it when the process ends). Readers need no lock. If memory is dropped during a write,
///   the session is free when the write has finished.
/// - **Torn ends.** An incomplete last line, which a crash during a write leaves, is cut off when
///   the session is opened and saved in `SESSION.jsonl.torn`. The same holds for the lines from an
///   unwritten sector on, which a power failure leaves, unless one of them is intact and has an
///   entry that [must be durable](LogEntry::must_be_durable). [`Memory::repaired`] and a warning
///   report it. Any other damage is [`MemoryError::Damaged`], which names file and line, and leaves
///   the file untouched.
/// - **Failing disks.** After a failed flush no more is appended to a session until it is opened
///   again. What was acknowledged before survives a power failure.
/// - **Waiting.** Opening, forking and deleting wait at most ten seconds for another process that
///   does so, and five for a stopped one; the error names that process.
/// - **Branches** share entries with their parent, which their first line names.
/// - **Mailboxes.** `SESSION.jsonl.mailbox` has the inputs posted by other processes, and their
///   receipts. Posters also append the session's name to the file `.posted`; while sessions are
///   open, the store checks its length fifty times a second.
/// - **Decisions** of deleted sessions are kept in the file `.decisions`, for audits.
/// - **Schedules** of all sessions are in the file `.schedules`, which each change replaces.
/// - **Lists and searches** read all files. With many sessions, `Sqlite` is faster.
///
/// Must be used within a tokio runtime with timers.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use loopwright_core::SessionStore;
/// use loopwright_core::log::LogEntry;
/// use loopwright_memory::Jsonl;
/// # let directory = tempfile::tempdir()?;
///
/// let store = Jsonl::open(directory.path())?;
/// let memory = store.open("demo").await?;
/// let entry = LogEntry::Opened { epoch: 1, time: 1_700_000_000_000, parent: None, owner: None };
/// memory.append(0, [entry.clone()].into()).await?;
/// assert_eq!(store.read("demo", 0).await?, [entry]);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct Jsonl {
    folder: Folder,
    durability: Durability,
}

impl Jsonl {
    /// Opens the store in this directory, creating it if it is missing.
    ///
    /// # Errors
    ///
    /// Returns [`MemoryError::Failed`] if the directory cannot be created.
    pub fn open(directory: impl AsRef<Path>) -> Result<Self, MemoryError> {
        Ok(Jsonl { folder: Folder::open(directory.as_ref())?, durability: Durability::default() })
    }

    /// Sets which appends wait for the disk, for sessions that this clone opens.
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

    /// Like [`Jsonl::work`], with the lock for opening, forking and deleting sessions.
    async fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Jsonl, ChangeLock) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let lock = self.folder.lock_changes().await?;
        self.work(move |store| work(store, lock)).await
    }

    fn open_log(&self, session: &str, changes: ChangeLock) -> Result<OpenLog, MemoryError> {
        let file = self.folder.lock(session, true)?;
        drop(changes); // from here on the lock of the file suffices
        let log = OpenLog::open(&self.folder, session, file, self.durability)?;
        self.folder.sync()?;
        Ok(log)
    }

    fn read_log(&self, session: &str) -> Result<(Header, Vec<LogEntry>), MemoryError> {
        match self.folder.read(session)? {
            Some((header, entries)) if !entries.is_empty() => Ok((header, entries)),
            _ => Err(MemoryError::NoSession(session.into())),
        }
    }

    fn info(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let (header, entries) = self.read_log(session)?;
        let mut info = describe(session, header, &entries);
        let mail = MailFile::read(&self.folder.path(session))?;
        info.set_unread(mail.unread().count() as u64);
        Ok(info)
    }

    /// Returns the receipt of an input, or `None` if the input must be posted.
    fn find_mail(
        &self,
        session: &str,
        input: &PostedInput,
    ) -> Result<Option<Option<InputReceipt>>, MemoryError> {
        let (_, entries) = self.read_log(session)?;
        SessionInfo::of(session, &entries).require_root()?;
        let row = MailFile::read(&self.folder.path(session))?.row(&input.id);
        let is_accepted = || entries.iter().any(|entry| entry.input() == Some(&input.id));
        Ok(row.or_else(|| is_accepted().then_some(Some(InputReceipt::Accepted))))
    }

    /// Returns the decisions in the log of a session.
    fn decisions_in(&self, session: &str) -> Result<Vec<DecisionRecord>, MemoryError> {
        match self.read_log(session) {
            Ok((header, entries)) => {
                let info = describe(session, header, &entries);
                Ok(DecisionRecord::in_log(&info, &entries))
            }
            Err(MemoryError::NoSession(_)) => Ok(Vec::new()), // deleted by now
            Err(error) => Err(error),
        }
    }

    fn audit(&self, query: &AuditQuery) -> Result<AuditPage, MemoryError> {
        let mut decisions = Vec::new();
        let sessions = match &query.session {
            Some(session) => vec![session.clone()],
            None => self.list()?.into_iter().map(|info| info.id).collect(),
        };
        for session in sessions {
            decisions.extend(self.decisions_in(&session)?);
        }
        // Read last, since a session can be deleted meanwhile.
        decisions.extend(DecisionFile::read(self.folder.directory())?.records);
        Ok(query.page(decisions))
    }

    fn list(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let mut list = Vec::new();
        for (path, header) in self.folder.headers()? {
            let info = match header {
                Ok(None) => continue,
                Ok(Some(header)) if self.folder.path(&header.session) != path => {
                    Err(MemoryError::Damaged(
                        format!(
                            "{} is skipped: it has the session of {}, rename or remove it",
                            path.display(),
                            self.folder.path(&header.session).display()
                        )
                        .into(),
                    ))
                }
                Ok(Some(header)) => self.info(&header.session),
                Err(error) => Err(error),
            };
            match info {
                Ok(info) if info.sub_agent_of.is_some() => {}
                Ok(info) => list.push(info),
                Err(MemoryError::NoSession(_)) => {}
                Err(error) => tracing::warn!("a session is missing in the list: {error}"),
            }
        }
        list.sort_by(|a, b| (Reverse(a.changed), &a.id).cmp(&(Reverse(b.changed), &b.id)));
        Ok(list)
    }

    fn branch(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        let (_, parent_entries) = self.read_log(session)?;
        SessionInfo::of(session, &parent_entries).require_root()?;
        let Branch { shared, entries: own_entries, .. } = SessionLog::branch(&parent_entries, at);
        let existing = match self.folder.lock(to, false) {
            Ok(file) => Some(OpenLog::open(&self.folder, to, file, self.durability)?),
            Err(MemoryError::NoSession(_)) => None,
            Err(other) => return Err(other),
        };
        if existing.as_ref().is_some_and(|log| !log.is_empty()) {
            return Err(MemoryError::Exists(to.into()));
        }
        if shared == 0 {
            return Ok(0); // a session without entries does not exist
        }
        self.folder.flush(session)?;
        let parent = Some(Parent { session: session.to_owned(), entries: shared });
        let mut lines = Header { session: to.to_owned(), parent }.line()?;
        if !own_entries.is_empty() {
            lines.extend(line::append(shared, &own_entries)?);
        }
        let draft = self.folder.draft();
        let write = || -> io::Result<()> {
            let mut file = private::file().write(true).create(true).truncate(true).open(&draft)?;
            file.write_all(&lines)?;
            file.sync_all()?;
            fs::rename(&draft, self.folder.path(to))
        };
        write().map_err(|e| failed("cannot be written", &draft, e))?;
        self.folder.sync()?;
        Ok(shared)
    }

    fn remove(&self, session: &str) -> Result<(), MemoryError> {
        let _lock = self.folder.lock(session, false)?;
        let path = self.folder.path(session);
        let branches = self.branches(session, &path)?;
        if !branches.is_empty() {
            return Err(MemoryError::HasBranches { session: session.into(), branches });
        }
        let mut deleted = Vec::new();
        let (exists, sub_agents) = match self.read_log(session) {
            Err(MemoryError::NoSession(_)) => (false, Vec::new()),
            Err(_) => (true, Vec::new()), // a damaged session can be deleted
            Ok((header, entries)) => {
                self.require_root(&SessionInfo::of(session, &entries))?;
                let info = describe(session, header, &entries);
                deleted = DecisionRecord::in_log(&info, &entries);
                let mut sub_agents = Vec::new();
                self.sub_agents(session, &entries, &mut sub_agents);
                (true, sub_agents)
            }
        };
        let lock = |session: &Arc<str>| self.folder.lock(session, false);
        let _locks = sub_agents.iter().map(lock).collect::<Result<Vec<_>, _>>()?;
        DecisionFile::read(self.folder.directory())?.add(&deleted)?;
        match ScheduleFile::read(self.folder.directory()) {
            // Its session is missing from now on, so the schedule is not carried out.
            Err(error @ MemoryError::Damaged(_)) => {
                tracing::warn!(%error, session, "it is deleted")
            }
            file => file?.remove_all(session)?,
        }
        for path in iter::once(path).chain(sub_agents.iter().map(|name| self.folder.path(name))) {
            for file in [self.folder.torn(&path), MailFile::path(&path), path] {
                match fs::remove_file(&file) {
                    Err(e) if e.kind() != ErrorKind::NotFound => {
                        return Err(failed("cannot be deleted", &file, e));
                    }
                    _ => {}
                }
            }
            self.folder.sync()?; // the session at the root before its sub-agents
        }
        if exists { Ok(()) } else { Err(MemoryError::NoSession(session.into())) }
    }

    /// Checks that a session does not belong to a sub-agent whose root exists.
    fn require_root(&self, info: &SessionInfo) -> Result<(), MemoryError> {
        match info.require_root() {
            Err(MemoryError::SubAgent { root, .. })
                if matches!(self.read_log(&root), Err(MemoryError::NoSession(_))) =>
            {
                Ok(())
            }
            checked => checked,
        }
    }

    /// Adds the sessions of this session's sub-agents, and of theirs. `entries` is its log.
    fn sub_agents(&self, session: &str, entries: &[LogEntry], found: &mut Vec<Arc<str>>) {
        for name in entries.iter().filter_map(LogEntry::sub_agent) {
            let Ok((_, entries)) = self.read_log(name) else { continue };
            let is_its_own = SessionInfo::of(name.clone(), &entries).is_sub_agent_of(session);
            if is_its_own && !found.contains(name) {
                found.push(name.clone());
                self.sub_agents(name, &entries, found);
            }
        }
    }

    /// Returns the names of the sessions that were forked from this one, sorted.
    fn branches(&self, session: &str, path: &Path) -> Result<Vec<String>, MemoryError> {
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
                    return Err(MemoryError::Damaged(format!(
                        "the session `{session}` cannot be deleted, because another session may \
                         share its entries and cannot be read: {error}"
                    ).into()));
                }
            }
        }
        branches.sort();
        Ok(branches)
    }
}

#[async_trait]
impl SessionStore for Jsonl {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        check_name(session)?;
        let session = session.to_owned();
        let log = self.change(move |store, lock| store.open_log(&session, lock)).await?;
        Ok(Arc::new(JsonlMemory::new(log)?))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let session = session.to_owned();
        let (_, mut entries) = self.work(move |store| store.read_log(&session)).await?;
        Ok(entries.split_off((from as usize).min(entries.len())))
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.work(|store| store.list()).await
    }

    async fn session(&self, session: &str) -> Result<SessionInfo, MemoryError> {
        let session = session.to_owned();
        self.work(move |store| store.info(&session)).await
    }

    async fn in_use(&self, session: &str) -> Result<Option<bool>, MemoryError> {
        let session = session.to_owned();
        self.change(move |store, _lock| store.folder.is_locked(&session).map(Some)).await
    }

    async fn post(
        &self,
        session: &str,
        input: &PostedInput,
    ) -> Result<Option<InputReceipt>, MemoryError> {
        let (session, input) = (session.to_owned(), input.clone());
        let (name, copy) = (session.clone(), input.clone());
        match self.work(move |store| store.find_mail(&name, &copy)).await? {
            Some(Some(receipt)) => return Ok(Some(receipt)),
            // Its sender may have been killed before announcing it.
            Some(None) if self.folder.hints().is_announced(&session) => return Ok(None),
            _ => {}
        }
        let post = move |store: &Jsonl, _lock| {
            store.read_log(&session)?; // it may have been deleted meanwhile
            // Once before the input, in case this process is killed between the two, and once after
            // it, since the owner may look in between.
            store.folder.hints().announce(&session);
            MailFile::read(&store.folder.path(&session))?.post(&session, &input)?;
            store.folder.hints().announce(&session);
            Ok(None)
        };
        self.change(post).await
    }

    async fn check_writable(&self) -> Result<(), MemoryError> {
        room::check(self.folder.directory()).await
    }

    async fn fork(&self, session: &str, at: Option<u64>, to: &str) -> Result<u64, MemoryError> {
        check_name(to)?;
        let session = session.to_owned();
        let to = to.to_owned();
        self.change(move |store, _lock| store.branch(&session, at, &to)).await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        let session = session.to_owned();
        self.change(move |store, _lock| store.remove(&session)).await
    }

    async fn decisions(&self, query: &AuditQuery) -> Result<AuditPage, MemoryError> {
        let query = query.clone();
        self.work(move |store| store.audit(&query)).await
    }

    fn schedules(&self) -> Option<&dyn Schedules> {
        Some(self)
    }
}

/// Returns the description of a session with this log, without its mailbox.
fn describe(session: &str, header: Header, entries: &[LogEntry]) -> SessionInfo {
    let mut info = SessionInfo::of(session, entries);
    info.parent = header.parent.map(|parent| (parent.session.into(), parent.entries));
    info
}

fn check_name(session: &str) -> Result<(), MemoryError> {
    match session {
        "" => Err(MemoryError::Failed("a session's name must not be empty: give it one".into())),
        _ => Ok(()),
    }
}
