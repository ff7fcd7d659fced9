//! A log that is open for writing.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::Memory;
use loopwright_core::log::{LogEntry, MemoryError};
use tokio::sync::Mutex;

use super::folder::Folder;
use super::reader::{Next, Reader};
use super::{blocking, failed, line};
use crate::{Durability, private};

/// A session that is open. Its file is locked as long as it lives.
pub(super) struct Log {
    folder: Folder,
    session: String,
    path: PathBuf,
    file: File,
    /// The length of the file in bytes.
    end: u64,
    /// The items before it, those of the session that this one branched off included.
    items: u64,
    /// What was found when it was opened, until it is asked for.
    found: Option<Vec<LogEntry>>,
    /// What was mended when it was opened.
    repaired: Option<String>,
    /// Why nothing may be written any more.
    broken: Option<String>,
    durability: Durability,
}

impl Log {
    /// Reads the session's file, which `file` has locked, and mends its end.
    pub(super) fn open(
        folder: &Folder,
        session: &str,
        file: File,
        durability: Durability,
    ) -> Result<Log, MemoryError> {
        let mut log = Log {
            folder: folder.clone(),
            session: session.to_owned(),
            path: folder.path(session),
            file,
            end: 0,
            items: 0,
            found: None,
            repaired: None,
            broken: None,
            durability,
        };
        let found = log.read_and_mend()?;
        (log.items, log.found) = (found.len() as u64, Some(found));
        if let Some(repaired) = &log.repaired {
            tracing::warn!(session, "{repaired}");
        }
        Ok(log)
    }

    fn read_and_mend(&mut self) -> Result<Vec<LogEntry>, MemoryError> {
        let mut reader = self.reader(u64::MAX)?;
        let header = match reader.header(&self.session)? {
            Next::Line(header) => {
                self.end = reader.end;
                header
            }
            Next::Unended(header, length) => {
                self.complete(length)?;
                header
            }
            Next::End => return self.begin().map(|()| vec![]),
            Next::Torn(bytes) => {
                self.cut(&bytes)?;
                return self.begin().map(|()| vec![]);
            }
        };
        let mut items = match &header.parent {
            Some(parent) => self.folder.past_of(&self.session, parent)?,
            None => vec![],
        };
        loop {
            match reader.items(items.len() as u64)? {
                Next::Line(more) => {
                    self.end = reader.end;
                    items.extend(more);
                }
                Next::Unended(more, length) => {
                    self.complete(length)?;
                    items.extend(more);
                    return Ok(items);
                }
                Next::Torn(bytes) => {
                    self.cut(&bytes)?;
                    return Ok(items);
                }
                Next::End => return Ok(items),
            }
        }
    }

    fn reader(&self, length: u64) -> Result<Reader, MemoryError> {
        let error = |e| failed("cannot be read", &self.path, &e);
        let mut file = self.file.try_clone().map_err(error)?;
        file.seek(SeekFrom::Start(0)).map_err(error)?;
        Ok(Reader::new(&self.path, file, length))
    }

    /// Writes the header of a new log.
    fn begin(&mut self) -> Result<(), MemoryError> {
        let header = line::Header { session: self.session.clone(), parent: None }.line()?;
        self.write(&header)?;
        self.sync()
    }

    /// Ends the last line, which is whole.
    fn complete(&mut self, length: u64) -> Result<(), MemoryError> {
        let end = self.end + length;
        let error =
            |e| failed("ends in the middle of a line, and cannot be mended", &self.path, &e);
        self.file.set_len(end).map_err(error)?;
        self.end = end;
        self.write(b"\n")?;
        self.sync()?;
        self.repaired = Some(format!(
            "the last line of {} had not been ended, but was whole: it is kept",
            self.path.display()
        ));
        Ok(())
    }

    /// Cuts a torn line off, after keeping its bytes in a side file.
    fn cut(&mut self, bytes: &[u8]) -> Result<(), MemoryError> {
        let detached = self.folder.torn(&self.path);
        let keep = || {
            let mut detached = private::file().append(true).create(true).open(&detached)?;
            detached.write_all(&[bytes, b"\n"].concat())?;
            detached.sync_all()
        };
        keep().map_err(|e| {
            failed(
                "cannot take the torn end of a log, which is therefore left as it is",
                &detached,
                &e,
            )
        })?;
        self.folder.sync()?;
        let error =
            |e| failed("ends in the middle of a line, and cannot be mended", &self.path, &e);
        self.file.set_len(self.end).map_err(error)?;
        self.sync()?;
        self.repaired = Some(format!(
            "the last {} bytes of {} are part of an append that was cut off: they are in {} now",
            bytes.len(),
            self.path.display(),
            detached.display()
        ));
        Ok(())
    }

    /// Whether it has no item.
    pub(super) fn is_empty(&self) -> bool {
        self.items == 0
    }

    fn append(&mut self, at: u64, items: &[LogEntry]) -> Result<(), MemoryError> {
        if let Some(why) = &self.broken {
            return Err(MemoryError::Failed(why.clone()));
        }
        if at != self.items {
            return Err(MemoryError::Conflict { at, end: self.items });
        }
        if items.is_empty() {
            return Ok(());
        }
        let line = line::append(at, items)?;
        self.found = None; // whoever appends has loaded
        self.write(&line)?;
        self.items += items.len() as u64;
        if self.durability.waits(items) { self.sync() } else { Ok(()) }
    }

    /// Writes all of it at the end, or nothing.
    fn write(&mut self, line: &[u8]) -> Result<(), MemoryError> {
        let length =
            self.file.metadata().map_err(|e| failed("cannot be looked at", &self.path, &e))?.len();
        if length != self.end {
            let (path, end) = (self.path.display(), self.end);
            return Err(self.breaks(format!(
                "{path} has {length} bytes, and {end} are ours: something else has changed it"
            )));
        }
        let written =
            (&self.file).seek(SeekFrom::Start(self.end)).and_then(|_| (&self.file).write_all(line));
        let Err(error) = written else {
            self.end += line.len() as u64;
            return Ok(());
        };
        match self.file.set_len(self.end) {
            Ok(()) => Err(failed(
                "cannot be written, and is as it was before; is the disk full?",
                &self.path,
                &error,
            )),
            Err(undo) => {
                let path = self.path.display();
                Err(self.breaks(format!(
                    "{path} cannot be written ({error}), and what was begun cannot be cut off ({undo})"
                )))
            }
        }
    }

    /// Waits until all is on disk. After a failure nobody knows what is, so nothing more is
    /// written.
    fn sync(&mut self) -> Result<(), MemoryError> {
        let synced = self.file.sync_data();
        synced.map_err(|e| {
            self.breaks(format!("{} cannot be made durable ({e})", self.path.display()))
        })
    }

    fn breaks(&mut self, why: String) -> MemoryError {
        let why = format!("{why}: nothing more is written until the session is opened again");
        self.broken = Some(why.clone());
        MemoryError::Failed(why)
    }

    fn load(&mut self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let mut items = match self.found.take() {
            Some(items) => items,
            None => self
                .folder
                .rest(&self.session, self.reader(self.end)?)?
                .map(|(_, items)| items)
                .unwrap_or_default(),
        };
        Ok(items.split_off((from as usize).min(items.len())))
    }
}

/// The handle of an open log. What it has begun takes place, even if nobody waits for it.
pub(super) struct Open {
    log: Arc<Mutex<Log>>,
    repaired: Option<String>,
}

impl Open {
    pub(super) fn new(log: Log) -> Self {
        Open { repaired: log.repaired.clone(), log: Arc::new(Mutex::new(log)) }
    }

    /// Works on the log, in the order of the calls, where it may block.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut Log) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let mut log = self.log.clone().lock_owned().await;
        blocking(move || work(&mut log)).await
    }
}

#[async_trait]
impl Memory for Open {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.work(move |log| log.append(at, &items)).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.work(move |log| log.load(from)).await
    }

    fn repaired(&self) -> Option<String> {
        self.repaired.clone()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        // Explicitly, since a process that is being started may for a moment have a copy of the
        // descriptor.
        let _ = self.file.unlock();
    }
}
