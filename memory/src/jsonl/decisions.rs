//! The decisions of deleted sessions: a file beside the logs, with one line for each decision.
//!
//! Lines are appended and flushed under the lock for changes, before the session's log is removed.
//! A process killed between the two leaves decisions that the log has too. An incomplete last line
//! was never acknowledged.

use std::fs;
use std::io::{self, ErrorKind, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use loopwright_core::log::{DecisionRecord, MemoryError};

use super::error::failed;
use crate::{codec, private};

/// The first line of the file.
const HEADER: &str = r#"{"loopwright":"decisions","version":1}"#;

/// The content of the file, as far as its lines are complete.
pub(super) struct DecisionFile {
    path: PathBuf,
    pub(super) records: Vec<DecisionRecord>,
    /// The length in bytes of the complete lines.
    end: u64,
}

impl DecisionFile {
    /// Reads the file in this directory. A missing one has no decisions.
    pub(super) fn read(directory: &Path) -> Result<Self, MemoryError> {
        let path = directory.join(".decisions");
        let bytes = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
            read => read.map_err(|e| failed("cannot be read", &path, e))?,
        };
        let mut file = DecisionFile { path, records: Vec::new(), end: 0 };
        let mut lines = bytes.split_inclusive(|byte| *byte == b'\n').enumerate().peekable();
        while let Some((n, line)) = lines.next() {
            let is_last = lines.peek().is_none();
            // An interrupted write leaves no newline, or unwritten sectors.
            let is_cut_off = !line.ends_with(b"\n") || line.contains(&0);
            if is_last && is_cut_off {
                break;
            }
            let text = line.trim_ascii_end();
            match n {
                0 if text == HEADER.as_bytes() => {}
                0 => return Err(damaged(&file.path, n, "it is not the first line of decisions")),
                _ => file.records.push(parse(text).map_err(|why| damaged(&file.path, n, &why))?),
            }
            file.end += line.len() as u64;
        }
        Ok(file)
    }

    /// Appends decisions. On failure the file is unchanged.
    pub(super) fn add(self, records: &[DecisionRecord]) -> Result<(), MemoryError> {
        if records.is_empty() {
            return Ok(());
        }
        let mut text = String::new();
        if self.end == 0 {
            text = format!("{HEADER}\n");
        }
        for record in records {
            let json = codec::encode(record)?;
            let crc = crc32fast::hash(json.as_bytes());
            text.push_str(&format!("{{\"crc\":\"{crc:08x}\",\"decision\":{json}}}\n"));
        }
        let write = || -> io::Result<()> {
            let options = &mut private::file();
            let mut file = options.write(true).create(true).truncate(false).open(&self.path)?;
            file.set_len(self.end)?; // an incomplete line of a killed process
            file.seek(SeekFrom::Start(self.end))?;
            let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_data());
            written.inspect_err(|_| {
                let _ = file.set_len(self.end); // else it is an incomplete line, which is not read
            })?;
            self.path.parent().map_or(Ok(()), private::sync_folder)
        };
        write().map_err(|e| failed("cannot be written; is the disk full?", &self.path, e))
    }
}

fn parse(line: &[u8]) -> Result<DecisionRecord, String> {
    let fields = || {
        let rest = line.strip_prefix(br#"{"crc":""#)?;
        let (crc, rest) = rest.split_at_checked(8)?;
        Some((crc, rest.strip_prefix(br#"","decision":"#)?.strip_suffix(b"}")?))
    };
    let (crc, json) = fields().ok_or("it is not of the form {\"crc\":\"…\",\"decision\":{…}}")?;
    if format!("{:08x}", crc32fast::hash(json)).as_bytes() != crc {
        return Err("its checksum does not match".into());
    }
    codec::decode(json)
        .map_err(|why| format!("it is not understood ({why}), a newer version may have written it"))
}

fn damaged(path: &Path, n: usize, why: &str) -> MemoryError {
    MemoryError::Damaged(
        format!(
            "line {} of {} is damaged: {why}. The file was left untouched; restore it from a \
             backup, or remove it to lose the decisions of deleted sessions",
            n + 1,
            path.display()
        )
        .into(),
    )
}
