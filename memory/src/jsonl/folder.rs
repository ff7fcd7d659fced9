//! The directory of a store: which files are there, and what each log says.

use std::collections::HashSet;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError};

use super::failed;
use super::line::{Header, Parent};
use super::names::{SUFFIX, file_name};
use super::reader::{Next, Reader};
use crate::private;

/// The first line of a file; nothing if it is not there yet.
pub(super) type FirstLine = Result<Option<Header>, MemoryError>;

/// A directory with logs.
#[derive(Clone)]
pub(super) struct Folder(Arc<Path>);

impl Folder {
    /// The directory; it is made if it is missing, for this user alone.
    pub(super) fn open(path: &Path) -> Result<Self, MemoryError> {
        private::make_folder(path)
            .map_err(|e| failed("cannot be made a directory for sessions", path, &e))?;
        Ok(Folder(path.into()))
    }

    /// The file of a session.
    pub(super) fn path(&self, session: &str) -> PathBuf {
        self.0.join(file_name(session))
    }

    /// Where torn lines of this log are kept.
    pub(super) fn torn(&self, log: &Path) -> PathBuf {
        let mut name = log.as_os_str().to_owned();
        name.push(".torn");
        name.into()
    }

    /// Where the file of a branch is written before it is there; only with [`Folder::turn`].
    pub(super) fn draft(&self) -> PathBuf {
        self.0.join(".draft")
    }

    /// Waits for the turn to open, fork or delete; while the file that it gives lives, nobody else
    /// does. It is held for moments, and freed when its process dies.
    pub(super) fn turn(&self) -> Result<File, MemoryError> {
        let path = self.0.join(".lock");
        let error = |e| failed("cannot be locked", &path, &e);
        let file =
            private::file().write(true).create(true).truncate(false).open(&path).map_err(error)?;
        loop {
            match file.lock() {
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                other => return other.map(|()| file).map_err(error),
            }
        }
    }

    /// Opens the file of a session and makes it ours; with `create` it is made if it is missing.
    pub(super) fn lock(&self, session: &str, create: bool) -> Result<File, MemoryError> {
        let path = self.path(session);
        let open =
            private::file().read(true).write(true).create(create).truncate(false).open(&path);
        let file = open.map_err(|e| match e.kind() {
            ErrorKind::NotFound if !create => MemoryError::NoSession(session.into()),
            _ => failed("cannot be opened for writing", &path, &e),
        })?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => Err(MemoryError::InUse(session.into())),
            Err(TryLockError::Error(e)) => Err(failed("cannot be locked", &path, &e)),
        }
    }

    /// Makes durable which files are there.
    pub(super) fn sync(&self) -> Result<(), MemoryError> {
        private::sync_folder(&self.0).map_err(|e| failed("cannot be made durable", &self.0, &e))
    }

    /// The first line of each log, and where it is.
    pub(super) fn headers(&self) -> Result<Vec<(PathBuf, FirstLine)>, MemoryError> {
        let error = |e| failed("cannot be listed", &self.0, &e);
        let mut headers = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(error)? {
            let name = entry.map_err(error)?.file_name();
            if name.to_str().is_none_or(|name| name.starts_with('.') || !name.ends_with(SUFFIX)) {
                continue;
            }
            let path = self.0.join(name);
            let header = match File::open(&path) {
                Ok(file) => Reader::new(&path, file, u64::MAX).any_header(),
                Err(e) if e.kind() == ErrorKind::NotFound => continue, // deleted by now
                Err(e) => Err(failed("cannot be read", &path, &e)),
            };
            headers.push((path, header));
        }
        Ok(headers)
    }

    /// What the log of a session says, as far as its lines are whole; nothing if there is none.
    /// Changes nothing.
    pub(super) fn read(
        &self,
        session: &str,
    ) -> Result<Option<(Header, Vec<LogEntry>)>, MemoryError> {
        let path = self.path(session);
        let file = match File::open(&path) {
            Ok(file) => file,
            Err(e) if e.kind() == ErrorKind::NotFound => return Ok(None),
            Err(e) => return Err(failed("cannot be read", &path, &e)),
        };
        match self.rest(session, Reader::new(&path, file, u64::MAX)) {
            Err(_) if !path.exists() => Ok(None), // deleted in the meantime, and its parents after it
            read => read,
        }
    }

    /// What a log says from its first line on.
    pub(super) fn rest(
        &self,
        session: &str,
        mut log: Reader,
    ) -> Result<Option<(Header, Vec<LogEntry>)>, MemoryError> {
        let (Next::Line(header) | Next::Unended(header, _)) = log.header(session)? else {
            return Ok(None);
        };
        let mut items = match &header.parent {
            Some(parent) => self.past_of(session, parent)?,
            None => Vec::new(),
        };
        while let Next::Line(more) = log.items(items.len() as u64)? {
            items.extend(more);
        }
        Ok(Some((header, items)))
    }

    /// The items that a branch has of its parent, and that one of its own, and so on.
    pub(super) fn past_of(
        &self,
        branch: &str,
        parent: &Parent,
    ) -> Result<Vec<LogEntry>, MemoryError> {
        let damaged = |why: &str| {
            let path = self.path(branch);
            MemoryError::Damaged(format!(
                "line 1 of {}: the session begins with the first {} items of the session `{}`, {why}. Nothing was \
                 changed; put its file {} back from a copy",
                path.display(),
                parent.items,
                parent.session,
                self.path(&parent.session).display()
            ))
        };
        let mut logs = Vec::new();
        let mut seen = HashSet::from([branch.to_owned()]);
        let mut next = Some(parent.clone());
        while let Some(Parent { session, items }) = next {
            let path = self.path(&session);
            let file = File::open(&path)
                .map_err(|e| damaged(&format!("and {} cannot be read ({e})", path.display())))?;
            let mut log = Reader::new(&path, file, u64::MAX);
            let Next::Line(header) = log.header(&session)? else {
                return Err(damaged("which has none"));
            };
            if !seen.insert(session) {
                return Err(damaged("which begins with items of this one"));
            }
            logs.push((log, items));
            next = header.parent;
        }
        let mut items: Vec<LogEntry> = Vec::new();
        for (mut log, most) in logs.into_iter().rev() {
            while (items.len() as u64) < most {
                let Next::Line(more) = log.items(items.len() as u64)? else {
                    return Err(damaged(&format!("of which only {} are there", items.len())));
                };
                items.extend(more);
            }
            items.truncate(most as usize);
        }
        Ok(items)
    }
}
