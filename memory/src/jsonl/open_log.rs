//! A log that is open for writing.

use std::fs::File;
use std::io::{Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::log::{InputReceipt, LogEntry, Mailbox, MemoryError, PostedInput};
use loopwright_core::message::InputId;
use loopwright_core::{Environment, Memory, SystemEnvironment};
use tokio::sync::{Mutex, Notify};

use super::error::{blocking, failed};
use super::folder::Folder;
use super::line;
use super::mailbox::MailFile;
use super::reader::{NextLine, Reader};
use crate::rewrite::rewrite;
use crate::{Durability, private};

/// The log of an open session. Its file is locked until this is dropped.
pub(super) struct OpenLog {
    folder: Folder,
    session: String,
    path: PathBuf,
    file: File,
    /// The length of the file in bytes.
    end: u64,
    /// The number of entries, including those shared with its parent.
    length: u64,
    /// The entries read on opening, until they are loaded or an append follows.
    unloaded: Option<Vec<LogEntry>>,
    /// A description of the repair on opening, if any.
    repaired: Option<String>,
    /// The reason why no more appends are accepted.
    broken: Option<String>,
    durability: Durability,
}

impl OpenLog {
    /// Reads the session's file, which `file` has locked, and repairs its end.
    pub(super) fn open(
        folder: &Folder,
        session: &str,
        file: File,
        durability: Durability,
    ) -> Result<OpenLog, MemoryError> {
        let mut log = OpenLog {
            folder: folder.clone(),
            session: session.to_owned(),
            path: folder.path(session),
            file,
            end: 0,
            length: 0,
            unloaded: None,
            repaired: None,
            broken: None,
            durability,
        };
        log.sync()?; // so that everything that is read from here on is on disk
        let entries = log.read_and_repair()?;
        log.length = entries.len() as u64;
        log.unloaded = Some(entries);
        if let Some(repaired) = &log.repaired {
            tracing::warn!(session, "{repaired}");
        }
        Ok(log)
    }

    fn read_and_repair(&mut self) -> Result<Vec<LogEntry>, MemoryError> {
        let mut reader = self.reader(u64::MAX)?;
        let header = match reader.header(&self.session)? {
            NextLine::Complete(header) => {
                self.end = reader.end;
                header
            }
            NextLine::Unterminated(header, length) => {
                self.terminate(length)?;
                header
            }
            NextLine::End => return self.write_header().map(|()| vec![]),
            NextLine::Torn(bytes) => {
                self.cut(&bytes)?;
                return self.write_header().map(|()| vec![]);
            }
        };
        let mut entries = match &header.parent {
            Some(parent) => self.folder.shared_entries(&self.session, parent)?,
            None => vec![],
        };
        loop {
            match reader.entries(entries.len() as u64)? {
                NextLine::Complete(more) => {
                    self.end = reader.end;
                    entries.extend(more);
                }
                NextLine::Unterminated(more, length) => {
                    self.terminate(length)?;
                    entries.extend(more);
                    return Ok(entries);
                }
                NextLine::Torn(bytes) => {
                    self.cut(&bytes)?;
                    return Ok(entries);
                }
                NextLine::End => return Ok(entries),
            }
        }
    }

    fn reader(&self, length: u64) -> Result<Reader, MemoryError> {
        let error = |e| failed("cannot be read", &self.path, e);
        let mut file = self.file.try_clone().map_err(error)?;
        file.seek(SeekFrom::Start(0)).map_err(error)?;
        Ok(Reader::new(&self.path, file, length))
    }

    /// Writes the header of a new log.
    fn write_header(&mut self) -> Result<(), MemoryError> {
        let header = line::Header { session: self.session.clone(), parent: None }.line()?;
        self.write(&header)?;
        self.sync()
    }

    /// Adds the missing newline after the last line, which has this length.
    fn terminate(&mut self, length: u64) -> Result<(), MemoryError> {
        self.truncate(self.end + length)?;
        self.end += length;
        self.write(b"\n")?;
        self.sync()?;
        self.repaired = Some(format!(
            "the last line of {} lacked its newline, but was complete: it is kept",
            self.path.display()
        ));
        Ok(())
    }

    /// Cuts off the torn end of the log, after saving its bytes in another file.
    fn cut(&mut self, bytes: &[u8]) -> Result<(), MemoryError> {
        let torn = self.folder.torn(&self.path);
        let save = || {
            let mut file = private::file().append(true).create(true).open(&torn)?;
            file.write_all(&[bytes, b"\n"].concat())?;
            file.sync_all()
        };
        let what = "cannot take the torn end of a log, which is therefore left untouched";
        save().map_err(|e| failed(what, &torn, e))?;
        self.folder.sync()?;
        self.truncate(self.end)?;
        self.sync()?;
        self.repaired = Some(format!(
            "the last {} bytes of {} were not written completely: they were moved to {}",
            bytes.len(),
            self.path.display(),
            torn.display()
        ));
        Ok(())
    }

    fn truncate(&self, length: u64) -> Result<(), MemoryError> {
        self.file.set_len(length).map_err(|e| {
            failed("ends in the middle of a line, and cannot be repaired", &self.path, e)
        })
    }

    /// Returns `true` if the log has no entries.
    pub(super) fn is_empty(&self) -> bool {
        self.length == 0
    }

    fn append(&mut self, at: u64, entries: &[LogEntry]) -> Result<(), MemoryError> {
        if let Some(why) = &self.broken {
            return Err(MemoryError::Failed(why.clone().into()));
        }
        if at != self.length {
            return Err(MemoryError::Conflict { at, end: self.length });
        }
        if entries.is_empty() {
            return Ok(());
        }
        let line = line::append(at, entries)?;
        self.unloaded = None; // an owner that appends has loaded the log
        self.write(&line)?;
        self.length += entries.len() as u64;
        if self.durability.must_flush(entries) { self.sync() } else { Ok(()) }
    }

    /// Writes a line at the end of the file. If that fails, the file is restored.
    fn write(&mut self, line: &[u8]) -> Result<(), MemoryError> {
        let metadata = self.file.metadata();
        let length = metadata.map_err(|e| failed("cannot be inspected", &self.path, e))?.len();
        if length != self.end {
            return Err(self.stop(format!(
                "{} has {length} bytes instead of {}: something else has changed it",
                self.path.display(),
                self.end
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
                error,
            )),
            Err(truncate_error) => Err(self.stop(format!(
                "{} cannot be written ({error}), and the incomplete line cannot be cut off \
                 ({truncate_error})",
                self.path.display()
            ))),
        }
    }

    /// Flushes the file to disk. After a failure the content of the disk is unknown, so the log
    /// accepts no more appends.
    fn sync(&mut self) -> Result<(), MemoryError> {
        self.file.sync_data().map_err(|e| {
            let path = self.path.display();
            if let Err(error) = rewrite(&self.file) {
                tracing::error!(%error, "{path} cannot be written once more");
            }
            self.stop(format!(
                "{path} cannot be flushed to disk ({e}), so the last changes may not be on disk: \
                 check the disk"
            ))
        })
    }

    /// Refuses all further appends.
    fn stop(&mut self, why: String) -> MemoryError {
        let why = format!("{why}: no more is written until the session is opened again");
        self.broken = Some(why.clone());
        MemoryError::Failed(why.into())
    }

    fn load(&mut self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        let mut entries = match self.unloaded.take() {
            Some(entries) => entries,
            None => self
                .folder
                .read_log(&self.session, self.reader(self.end)?)?
                .map(|(_, entries)| entries)
                .unwrap_or_default(),
        };
        Ok(entries.split_off((from as usize).min(entries.len())))
    }
}

impl Drop for OpenLog {
    fn drop(&mut self) {
        // Explicitly, since a process that is being started may briefly hold a copy of the
        // descriptor.
        let _ = self.file.unlock();
    }
}

/// The memory of an open session. Work that has started completes even if its future is dropped.
pub(super) struct JsonlMemory {
    log: Arc<Mutex<OpenLog>>,
    repaired: Option<String>,
    folder: Folder,
    path: PathBuf,
    posted: Arc<Notify>,
}

impl JsonlMemory {
    /// Wraps an open log.
    ///
    /// # Errors
    ///
    /// Fails if the thread that looks for posted inputs cannot be started.
    pub(super) fn new(log: OpenLog) -> Result<Self, MemoryError> {
        let (folder, path) = (log.folder.clone(), log.path.clone());
        let posted = folder.hints().watch(&log.session);
        let posted =
            posted.map_err(|e| failed("has a mailbox that cannot be watched", &path, e))?;
        let repaired = log.repaired.clone();
        Ok(JsonlMemory { log: Arc::new(Mutex::new(log)), repaired, folder, path, posted })
    }

    /// Runs work on the log on a blocking thread, in the order of the calls.
    async fn work<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut OpenLog) -> Result<T, MemoryError> + Send + 'static,
    ) -> Result<T, MemoryError> {
        let mut log = self.log.clone().lock_owned().await;
        blocking(move || work(&mut log)).await
    }
}

#[async_trait]
impl Memory for JsonlMemory {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.work(move |log| log.append(at, &entries)).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.work(move |log| log.load(from)).await
    }

    fn mailbox(&self) -> Option<&dyn Mailbox> {
        Some(self)
    }

    fn repaired(&self) -> Option<String> {
        self.repaired.clone()
    }
}

#[async_trait]
impl Mailbox for JsonlMemory {
    async fn unread(&self) -> Result<Vec<PostedInput>, MemoryError> {
        let path = self.path.clone();
        blocking(move || Ok(MailFile::read(&path)?.unread().cloned().collect())).await
    }

    async fn now(&self) -> Result<u64, MemoryError> {
        // Inputs are posted under the lock.
        let _changes = self.folder.lock_changes().await?;
        Ok(SystemEnvironment.now())
    }

    async fn receipt(&self, input: &InputId) -> Result<Option<InputReceipt>, MemoryError> {
        let (path, input) = (self.path.clone(), input.clone());
        blocking(move || Ok(MailFile::read(&path)?.row(&input).flatten())).await
    }

    async fn acknowledge(
        &self,
        input: &InputId,
        receipt: &InputReceipt,
    ) -> Result<(), MemoryError> {
        let changes = self.folder.lock_changes().await?;
        // The log keeps the lock of its file, and with it the session, until the line is written.
        let (owner, path) = (self.log.clone(), self.path.clone());
        let (input, receipt) = (input.clone(), receipt.clone());
        blocking(move || {
            let written = MailFile::read(&path)?.acknowledge(&input, &receipt);
            drop((owner, changes));
            written
        })
        .await
    }

    async fn posted(&self) {
        self.posted.notified().await
    }
}
