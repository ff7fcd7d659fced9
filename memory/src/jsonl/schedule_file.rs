//! The schedules of all sessions: a file beside the logs, with one line for each schedule.
//!
//! It is small, so each change writes all of it under the lock for changes, and replaces it as a
//! whole.

use std::fs;
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};

use loopwright_core::log::{MemoryError, Schedule, check_schedule_room};

use super::error::failed;
use crate::{codec, private};

/// Maximum number of schedules: the file is read once a second, and written as a whole.
const MAX_SCHEDULES: usize = 1_000;

/// The first line of the file.
const HEADER: &str = r#"{"loopwright":"schedules","version":1}"#;

/// The content of the file.
pub(super) struct ScheduleFile {
    path: PathBuf,
    pub(super) schedules: Vec<Schedule>,
    /// Lines that are not understood. They are kept.
    damaged: Vec<Vec<u8>>,
}

impl ScheduleFile {
    /// Reads the file in this directory. A missing one has no schedules.
    pub(super) fn read(directory: &Path) -> Result<Self, MemoryError> {
        let path = directory.join(".schedules");
        let text = match fs::read(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Ok(ScheduleFile { path, schedules: Vec::new(), damaged: Vec::new() });
            }
            read => read.map_err(|e| failed("cannot be read", &path, e))?,
        };
        let (mut schedules, mut unread) = (Vec::new(), Vec::new());
        let lines = text.strip_suffix(b"\n").unwrap_or(&text);
        for (n, line) in lines.split(|byte| *byte == b'\n').enumerate() {
            match n {
                0 if line == HEADER.as_bytes() => {}
                0 => return Err(damaged(&path)),
                _ => match parse(line) {
                    Ok(schedule) => schedules.push(schedule),
                    Err(why) => {
                        let (file, line_number) = (path.display(), n + 1);
                        tracing::warn!(%file, line_number, why, "a schedule is left out");
                        unread.push(line.to_vec());
                    }
                },
            }
        }
        Ok(ScheduleFile { path, schedules, damaged: unread })
    }

    /// Removes the schedules of a session.
    pub(super) fn remove_all(mut self, session: &str) -> Result<(), MemoryError> {
        let count = self.schedules.len();
        self.schedules.retain(|schedule| *schedule.session != *session);
        if self.schedules.len() < count { self.write() } else { Ok(()) }
    }

    fn position(&self, session: &str, id: &str) -> Option<usize> {
        self.schedules.iter().position(|it| *it.session == *session && *it.id == *id)
    }

    /// Adds a schedule, or replaces the session's schedule with its id.
    pub(super) fn put(mut self, schedule: Schedule) -> Result<(), MemoryError> {
        let session = &schedule.session;
        match self.position(session, &schedule.id) {
            Some(at) => self.schedules[at] = schedule,
            None => {
                let of_session = self.schedules.iter().filter(|it| it.session == *session);
                check_schedule_room(session, of_session.count(), self.schedules.len())?;
                if self.schedules.len() >= MAX_SCHEDULES {
                    let (session, max) = (None, MAX_SCHEDULES);
                    return Err(MemoryError::TooManySchedules { session, max });
                }
                self.schedules.push(schedule);
            }
        }
        self.write()
    }

    /// Replaces a schedule by the next one, or removes it, if it is still the same. Returns whether
    /// it was.
    pub(super) fn advance(
        mut self,
        schedule: &Schedule,
        next: Option<Schedule>,
    ) -> Result<bool, MemoryError> {
        let at = self.schedules.iter().position(|it| it.is_same(schedule));
        let Some(at) = at else { return Ok(false) };
        match next {
            Some(next) => self.schedules[at] = next,
            None => drop(self.schedules.remove(at)),
        }
        self.write().map(|()| true)
    }

    /// Removes a schedule. Returns whether there was one.
    pub(super) fn remove(mut self, session: &str, id: &str) -> Result<bool, MemoryError> {
        let Some(at) = self.position(session, id) else { return Ok(false) };
        self.schedules.remove(at);
        self.write().map(|()| true)
    }

    /// Writes the file. On failure it is unchanged.
    fn write(&self) -> Result<(), MemoryError> {
        let mut text = format!("{HEADER}\n").into_bytes();
        for schedule in &self.schedules {
            let json = codec::encode(schedule)?;
            let crc = crc32fast::hash(json.as_bytes());
            let line = format!("{{\"crc\":\"{crc:08x}\",\"schedule\":{json}}}\n");
            text.extend_from_slice(line.as_bytes());
        }
        for line in &self.damaged {
            text.extend_from_slice(line);
            text.push(b'\n');
        }
        let draft = self.path.with_extension("draft");
        let write = || -> io::Result<()> {
            let options = &mut private::file();
            let mut file = options.write(true).create(true).truncate(true).open(&draft)?;
            file.write_all(&text)?;
            file.sync_all()?;
            fs::rename(&draft, &self.path)?;
            self.path.parent().map_or(Ok(()), private::sync_folder)
        };
        write().map_err(|e| failed("cannot be written; is the disk full?", &self.path, e))
    }
}

fn parse(line: &[u8]) -> Result<Schedule, String> {
    let fields = || {
        let rest = line.strip_prefix(br#"{"crc":""#)?;
        let (crc, rest) = rest.split_at_checked(8)?;
        Some((crc, rest.strip_prefix(br#"","schedule":"#)?.strip_suffix(b"}")?))
    };
    let (crc, json) = fields().ok_or("it is not of the form {\"crc\":\"…\",\"schedule\":{…}}")?;
    if format!("{:08x}", crc32fast::hash(json)).as_bytes() != crc {
        return Err("its checksum does not match".into());
    }
    codec::decode(json)
        .map_err(|why| format!("it is not understood ({why}), a newer version may have written it"))
}

fn damaged(path: &Path) -> MemoryError {
    MemoryError::Damaged(
        format!(
            "{} does not begin as a file of schedules does, or a newer version has written it. It \
             was left untouched; restore it from a backup, or remove it to lose the schedules of \
             all sessions",
            path.display()
        )
        .into(),
    )
}
