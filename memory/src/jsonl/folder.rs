//! The directory of a store: the files in it, and the entries of each log.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::error::{blocking, failed};
use super::file_name::{SUFFIX, file_name};
use super::hints::Hints;
use super::line::{Header, Parent};
use super::reader::{NextLine, Reader};
use crate::lock_holder::{self, RETRY_INTERVAL};
use crate::private;
use crate::rewrite::rewrite;

/// The header of a file, or `None` if its first line is not complete yet.
pub(super) type FirstLine = Result<Option<Header>, MemoryError>;

/// The directory with the logs of a store.
#[derive(Clone)]
pub(super) struct Folder {
    directory: Arc<Path>,
    /// Held together with the lock of the file `.lock`: only one task at a time tries to get that.
    changing: Arc<Mutex<()>>,
    hints: Arc<Hints>,
}

/// The lock for opening, forking and deleting sessions.
pub(super) struct ChangeLock {
    _file: File,
    _changing: OwnedMutexGuard<()>,
}

impl Folder {
    /// Opens the directory, creating it if it is missing, accessible to the user only.
    pub(super) fn open(path: &Path) -> Result<Self, MemoryError> {
        private::make_folder(path)
            .map_err(|e| failed("cannot be created as a directory for sessions", path, e))?;
        let hints = Arc::new(Hints::new(path));
        Ok(Folder { directory: path.into(), changing: Arc::default(), hints })
    }

    /// Returns the path of the directory.
    pub(super) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the hints that inputs were posted.
    pub(super) fn hints(&self) -> &Arc<Hints> {
        &self.hints
    }

    /// Returns the path of a session's file.
    pub(super) fn path(&self, session: &str) -> PathBuf {
        self.directory.join(file_name(session))
    }

    /// Returns the path of the file with the torn lines of this log.
    pub(super) fn torn(&self, log: &Path) -> PathBuf {
        let mut name = log.as_os_str().to_owned();
        name.push(".torn");
        name.into()
    }

    /// Returns the path at which a branch is written before it is renamed. Must be used only with
    /// [`Folder::lock_changes`].
    pub(super) fn draft(&self) -> PathBuf {
        self.directory.join(".draft")
    }

    /// Waits for the lock for opening, forking and deleting sessions.
    ///
    /// The lock is held briefly, and the kernel releases it when the process ends. Waiting blocks
    /// no thread.
    pub(super) async fn lock_changes(&self) -> Result<ChangeLock, MemoryError> {
        let path = self.directory.join(".lock");
        let start = Instant::now();
        let changing = self.changing.clone().lock_owned().await;
        loop {
            let folder = self.clone();
            if let Some(file) = blocking(move || folder.try_lock_changes()).await? {
                return Ok(ChangeLock { _file: file, _changing: changing });
            }
            if let Some(advice) = lock_holder::advice(&path, None, start.elapsed()) {
                let why = format!("{} cannot be locked: {advice}", path.display());
                return Err(MemoryError::Failed(why.into()));
            }
            tokio::time::sleep(RETRY_INTERVAL).await;
        }
    }

    fn try_lock_changes(&self) -> Result<Option<File>, MemoryError> {
        let path = self.directory.join(".lock");
        let error = |e| failed("cannot be locked", &path, e);
        let file =
            private::file().write(true).create(true).truncate(false).open(&path).map_err(error)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(file)),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(e)) => Err(error(e)),
        }
    }

    /// Opens and locks the file of a session. With `create`, a missing file is created.
    pub(super) fn lock(&self, session: &str, create: bool) -> Result<File, MemoryError> {
        let path = self.path(session);
        let open =
            private::file().read(true).write(true).create(create).truncate(false).open(&path);
        let file = open.map_err(|e| match e.kind() {
            ErrorKind::NotFound if !create => MemoryError::NoSession(session.into()),
            _ => failed("cannot be opened for writing", &path, e),
        })?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(MemoryError::InUse(session.into())),
            Err(TryLockError::Error(e)) => Err(failed("cannot be locked", &path, e)),
        }
    }

    /// Returns whether a session's file is locked. Must be used only with [`Folder::lock_changes`]:
    /// this check briefly takes the lock, which must not make an opening fail.
    pub(super) fn is_locked(&self, session: &str) -> Result<bool, MemoryError> {
        match self.lock(session, false) {
            Ok(_) | Err(MemoryError::NoSession(_)) => Ok(false),
            Err(MemoryError::InUse(_)) => Ok(true),
            Err(error) => Err(error),
        }
    }

    /// Flushes a session's log to disk.
    pub(super) fn flush(&self, session: &str) -> Result<(), MemoryError> {
        let path = self.path(session);
        let flushed = File::open(&path).and_then(|file| file.sync_data());
        flushed.map_err(|error| {
            // An owner, in this process or another, notices the failure too.
            if let Ok(file) = self.lock(session, false) {
                let _ = rewrite(&file);
            }
            failed("cannot be flushed to disk; nothing was changed, check the disk", &path, error)
        })
    }

    /// Flushes the list of files to disk.
    pub(super) fn sync(&self) -> Result<(), MemoryError> {
        private::sync_folder(&self.directory)
            .map_err(|e| failed("cannot be flushed to disk", &self.directory, e))
    }

    /// Returns the path and the header of each log.
    pub(super) fn headers(&self) -> Result<Vec<(PathBuf, FirstLine)>, MemoryError> {
        let error = |e| failed("cannot be listed", &self.directory, e);
        let mut headers = Vec::new();
        for entry in fs::read_dir(&self.directory).map_err(error)? {
            let name = entry.map_err(error)?.file_name();
            if name.to_str().is_none_or(|name| name.starts_with('.') || !name.ends_with(SUFFIX)) {
                continue;
            }
            let path = self.directory.join(name);
            let header = match File::open(&path) {
                Ok(file) => Reader::new(&path, file, u64::MAX).any_header(),
                Err(e) if e.kind() == ErrorKind::NotFound => continue, // deleted in the meantime
                Err(e) => Err(failed("cannot be read", &path, e)),
            };
            headers.push((path, header));
        }
        Ok(headers)
    }

    /// Reads the complete lines of a session's log without changing the file. Returns `None` if the
    /// log does not exist.
    pub(super) fn read(
        &self,
        session: &str,
    ) -> Result<Option<(Header, Vec<LogEntry>)>, MemoryError> {
        let path = self.path(session);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("cannot be read", &path, e)),
        };
        match self.read_log(session, Reader::new(&path, file, u64::MAX)) {
            Err(_) if !path.exists() => Ok(None), // deleted in the meantime, and then its parents
            read => read,
        }
    }

    /// Reads a log from its first line on.
    pub(super) fn read_log(
        &self,
        session: &str,
        mut log: Reader,
    ) -> Result<Option<(Header, Vec<LogEntry>)>, MemoryError> {
        let header = match log.header(session)? {
            NextLine::Complete(header) | NextLine::Unterminated(header, _) => header,
            NextLine::End | NextLine::Torn(_) => return Ok(None),
        };
        let mut entries = match &header.parent {
            Some(parent) => self.shared_entries(session, parent)?,
            None => Vec::new(),
        };
        while let NextLine::Complete(more) = log.entries(entries.len() as u64)? {
            entries.extend(more);
        }
        Ok(Some((header, entries)))
    }

    /// Returns the entries that a branch shares with its ancestors.
    pub(super) fn shared_entries(
        &self,
        branch: &str,
        parent: &Parent,
    ) -> Result<Vec<LogEntry>, MemoryError> {
        let damaged = |why: &str| {
            MemoryError::Damaged(format!(
                "line 1 of {}: the session begins with the first {} entries of the session `{}`, \
                 {why}. The file was left untouched; restore {} from a backup",
                self.path(branch).display(),
                parent.entries,
                parent.session,
                self.path(&parent.session).display()
            ).into())
        };
        let mut logs = Vec::new();
        let mut visited = HashSet::from([branch.to_owned()]);
        let mut next = Some(parent.clone());
        while let Some(Parent { session, entries }) = next {
            let path = self.path(&session);
            let file = File::open(&path)
                .map_err(|e| damaged(&format!("and {} cannot be read ({e})", path.display())))?;
            let mut log = Reader::new(&path, file, u64::MAX);
            let NextLine::Complete(header) = log.header(&session)? else {
                return Err(damaged("which has none"));
            };
            if !visited.insert(session) {
                return Err(damaged("which begins with entries of this one"));
            }
            logs.push((log, entries));
            next = header.parent;
        }
        let mut entries: Vec<LogEntry> = Vec::new();
        for (mut log, end) in logs.into_iter().rev() {
            while (entries.len() as u64) < end {
                let NextLine::Complete(more) = log.entries(entries.len() as u64)? else {
                    return Err(damaged(&format!("which has only {}", entries.len())));
                };
                entries.extend(more);
            }
            entries.truncate(end as usize);
        }
        Ok(entries)
    }
}
