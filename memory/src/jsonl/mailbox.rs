//! The mailbox of a session: a file beside its log, with one line for each posted input and one for
//! each receipt.
//!
//! Lines are appended under the lock for changes, so two processes never write at the same time.
//! Each is flushed before the lock is released, unless it repeats what is in the log. An incomplete
//! last line was never acknowledged.

use std::fs::{self, File};
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use loopwright_core::log::{InputReceipt, MAX_UNREAD_INPUTS, MemoryError, PostedInput};
use loopwright_core::message::InputId;
use loopwright_core::{Environment, SystemEnvironment};
use serde::{Deserialize, Serialize};

use super::error::failed;
use crate::{codec, private};

/// The first line of the file.
const HEADER: &str = r#"{"loopwright":"mailbox","version":1}"#;
const VERSION: u64 = 1;

/// The content of a line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum MailLine {
    /// A posted input.
    Posted(PostedInput),
    /// The receipt of an input.
    Receipt { input: InputId, receipt: InputReceipt },
}

/// An input of a mailbox. It has no content if it was refused without having been posted.
struct Mail {
    id: InputId,
    input: Option<PostedInput>,
    receipt: Option<InputReceipt>,
}

/// The content of a mailbox, as far as its lines are complete.
pub(super) struct MailFile {
    path: PathBuf,
    mail: Vec<Mail>,
    /// The length in bytes of the complete lines.
    end: u64,
}

impl MailFile {
    /// Reads the mailbox of the session with this log. A missing file is an empty mailbox.
    pub(super) fn read(log: &Path) -> Result<Self, MemoryError> {
        let path = Self::path(log);
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|e| failed("cannot be read", &path, e))?,
        };
        let mut file = MailFile { path, mail: Vec::new(), end: 0 };
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
        while let Some((n, line)) = lines.next() {
            let is_last = lines.peek().is_none();
            // An interrupted write leaves no newline, or unwritten sectors.
            let Some(text) = line.strip_suffix(b"\n").filter(|_| !(is_last && line.contains(&0)))
            else {
                let is_cut_off = line.contains(&0) || parse(&line[..line.len() - 1]).is_err();
                if n > 0 && !is_cut_off {
                    return Err(damaged(&file.path, n, "its newline was changed"));
                }
                break;
            };
            match n {
                0 => check_header(text, &file.path)?,
                _ => file.apply(parse(text).map_err(|why| damaged(&file.path, n, &why))?),
            }
            file.end += line.len() as u64;
        }
        Ok(file)
    }

    /// Returns the path of the mailbox of the session with this log.
    pub(super) fn path(log: &Path) -> PathBuf {
        let mut name = log.as_os_str().to_owned();
        name.push(".mailbox");
        name.into()
    }

    fn apply(&mut self, line: MailLine) {
        match line {
            MailLine::Posted(input) if self.find(&input.id).is_none() => {
                let id = input.id.clone();
                self.mail.push(Mail { id, input: Some(input), receipt: None });
            }
            MailLine::Posted(_) => {}
            MailLine::Receipt { input: id, receipt } => {
                match self.mail.iter_mut().find(|mail| mail.id == id) {
                    Some(mail) => drop(mail.receipt.get_or_insert(receipt)),
                    None => self.mail.push(Mail { id, input: None, receipt: Some(receipt) }),
                }
            }
        }
    }

    fn find(&self, input: &InputId) -> Option<&Mail> {
        self.mail.iter().find(|mail| mail.id == *input)
    }

    /// Returns whether the input is known, and its receipt.
    pub(super) fn row(&self, input: &InputId) -> Option<Option<InputReceipt>> {
        self.find(input).map(|mail| mail.receipt.clone())
    }

    /// Returns the inputs without a receipt, in the order of posting.
    pub(super) fn unread(&self) -> impl Iterator<Item = &PostedInput> {
        let unread = self.mail.iter().filter(|mail| mail.receipt.is_none());
        unread.filter_map(|mail| mail.input.as_ref())
    }

    /// Adds an input, unless its id is known. Requires the lock for changes.
    pub(super) fn post(mut self, session: &str, input: &PostedInput) -> Result<(), MemoryError> {
        if self.find(&input.id).is_some() {
            return Ok(());
        }
        let unread = self.unread().count() as u64;
        if unread >= MAX_UNREAD_INPUTS {
            return Err(MemoryError::MailboxFull { session: session.into(), unread });
        }
        let mut input = input.clone();
        input.time = Some(SystemEnvironment.now());
        self.add(&MailLine::Posted(input), true)
    }

    /// Writes a receipt, unless the input has one. Requires the lock for changes, and that the
    /// caller is the owner of the session.
    pub(super) fn acknowledge(
        mut self,
        input: &InputId,
        receipt: &InputReceipt,
    ) -> Result<(), MemoryError> {
        let is_accepted = *receipt == InputReceipt::Accepted;
        match self.row(input) {
            Some(Some(_)) => Ok(()),
            None if is_accepted => Ok(()),
            _ => {
                let (input, receipt) = (input.clone(), receipt.clone());
                self.add(&MailLine::Receipt { input, receipt }, !is_accepted)
            }
        }
    }

    /// Appends a line. On failure the file is unchanged.
    fn add(&mut self, line: &MailLine, must_flush: bool) -> Result<(), MemoryError> {
        let json = codec::encode(line)?;
        let crc = crc32fast::hash(json.as_bytes());
        let mut text = format!("{{\"crc\":\"{crc:08x}\",\"mail\":{json}}}\n");
        let is_new = self.end == 0;
        if is_new {
            text.insert_str(0, &format!("{HEADER}\n"));
        }
        let error = |e| failed("cannot be written; is the disk full?", &self.path, e);
        let options = &mut private::file();
        let mut file = options.write(true).create(true).truncate(false).open(&self.path);
        let file = file.as_mut().map_err(|e| error(io::Error::from(e.kind())))?;
        let written = write(file, self.end, text.as_bytes(), must_flush || is_new);
        if written.is_err() {
            let _ = file.set_len(self.end); // else it is an incomplete line, which is not read
        }
        written.map_err(error)?;
        if let Some(folder) = self.path.parent().filter(|_| is_new) {
            private::sync_folder(folder).map_err(error)?;
        }
        Ok(())
    }
}

fn write(file: &mut File, end: u64, text: &[u8], must_flush: bool) -> io::Result<()> {
    file.set_len(end)?; // an incomplete line of a killed process
    file.seek(SeekFrom::Start(end))?;
    file.write_all(text)?;
    if must_flush { file.sync_data() } else { Ok(()) }
}

fn parse(line: &[u8]) -> Result<MailLine, String> {
    let fields = || {
        let rest = line.strip_prefix(br#"{"crc":""#)?;
        let (crc, rest) = rest.split_at_checked(8)?;
        Some((crc, rest.strip_prefix(br#"","mail":"#)?.strip_suffix(b"}")?))
    };
    let (crc, json) = fields().ok_or("it is not of the form {\"crc\":\"…\",\"mail\":{…}}")?;
    if format!("{:08x}", crc32fast::hash(json)).as_bytes() != crc {
        return Err("its checksum does not match".into());
    }
    codec::decode(json)
        .map_err(|why| format!("it is not understood ({why}), a newer version may have written it"))
}

fn check_header(line: &[u8], path: &Path) -> Result<(), MemoryError> {
    #[derive(Deserialize)]
    struct Header {
        version: u64,
    }
    if line == HEADER.as_bytes() {
        return Ok(());
    }
    match serde_json::from_slice(line) {
        Ok(Header { version }) if version > VERSION => Err(MemoryError::Newer {
            source_name: path.display().to_string(),
            found: version,
            known: VERSION,
        }),
        _ => Err(damaged(path, 0, "it is not the first line of a mailbox")),
    }
}

fn damaged(path: &Path, n: usize, why: &str) -> MemoryError {
    MemoryError::Damaged(
        format!(
            "line {} of {} is damaged: {why}. The file was left untouched; restore it from a \
             backup, or remove the file to lose the inputs that wait in it",
            n + 1,
            path.display()
        )
        .into(),
    )
}
