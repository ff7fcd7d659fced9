//! Reading a log, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use loopwright_core::log::{LogEntry, MemoryError};

use super::error::failed;
use super::line::{self, Header, LineError, VERSION};
use super::unwritten::{has_unwritten_sector, is_torn_end};

/// The size of the buffer for reading.
const BUFFER_BYTES: usize = 1 << 16;

/// A reader of the lines of a log, in order.
pub(super) struct Reader {
    path: PathBuf,
    file: io::Take<BufReader<File>>,
    line: Vec<u8>,
    /// The number of lines read.
    lines: u64,
    /// The length in bytes of the complete lines read.
    pub(super) end: u64,
}

/// The next line of a log.
pub(super) enum NextLine<T> {
    /// A complete line.
    Complete(T),
    /// The end of the log.
    End,
    /// The end of the log, whose write was interrupted: the beginning of a line, or lines with
    /// unwritten parts.
    Torn(Vec<u8>),
    /// A line of this length that lacks only its newline.
    Unterminated(T, u64),
}

impl Reader {
    /// Creates a reader for the next `length` bytes of the file.
    pub(super) fn new(path: &Path, file: File, length: u64) -> Self {
        let file = BufReader::with_capacity(BUFFER_BYTES, file).take(length);
        Reader { path: path.to_owned(), file, line: Vec::new(), lines: 0, end: 0 }
    }

    /// Reads the header, which is the first line, and checks that it names `session`.
    pub(super) fn header(&mut self, session: &str) -> Result<NextLine<Header>, MemoryError> {
        // Only the header of a session without a parent can be torn: a branch is created complete.
        let expected = Header { session: session.to_owned(), parent: None }.line()?;
        let next = self.next(&expected, Header::parse)?;
        let (NextLine::Complete(header) | NextLine::Unterminated(header, _)) = &next else {
            return Ok(next);
        };
        if header.session != session {
            let other = &header.session;
            let why = format!("it is the log of the session `{other}`, in the file of `{session}`");
            return Err(self.damaged(&why));
        }
        Ok(next)
    }

    /// Reads the entries of the next append, which `at` entries precede.
    pub(super) fn entries(&mut self, at: u64) -> Result<NextLine<Vec<LogEntry>>, MemoryError> {
        self.next(line::append_start(at).as_bytes(), |line| line::parse_append(line, at))
    }

    /// Reads the first line, for any session.
    pub(super) fn any_header(&mut self) -> Result<Option<Header>, MemoryError> {
        Ok(match self.next(line::HEADER, Header::parse)? {
            NextLine::Complete(header) => Some(header),
            _ => None,
        })
    }

    fn next<T>(
        &mut self,
        expected_start: &[u8],
        parse: impl Fn(&[u8]) -> Result<T, LineError>,
    ) -> Result<NextLine<T>, MemoryError> {
        self.line.clear();
        let read = self.file.read_until(b'\n', &mut self.line);
        read.map_err(|e| failed("cannot be read", &self.path, e))?;
        self.lines += 1;
        let line = match self.line.as_slice() {
            [] => return Ok(NextLine::End),
            [line @ .., b'\n'] => line,
            tail => return self.tail(tail, expected_start, parse),
        };
        match parse(line) {
            Ok(parsed) => {
                self.end += self.line.len() as u64;
                Ok(NextLine::Complete(parsed))
            }
            Err(LineError::Damaged(why)) => self.torn_or_damaged(&why),
            Err(error) => Err(self.error(error)),
        }
    }

    /// Classifies a damaged line with a newline, and everything after it.
    fn torn_or_damaged<T>(&mut self, why: &str) -> Result<NextLine<T>, MemoryError> {
        let mut bytes = std::mem::take(&mut self.line);
        if has_unwritten_sector(&bytes, self.end) {
            let read = self.file.read_to_end(&mut bytes);
            read.map_err(|e| failed("cannot be read", &self.path, e))?;
            if is_torn_end(&bytes, self.end) {
                return Ok(NextLine::Torn(bytes));
            }
        }
        Err(self.damaged(why))
    }

    /// Classifies the bytes after the last newline.
    ///
    /// An interrupted write leaves the beginning of its line, perhaps with zeros where the file had
    /// grown before the bytes were written. Everything else is damage: a complete line with one
    /// more byte has had its newline changed.
    fn tail<T>(
        &self,
        tail: &[u8],
        expected_start: &[u8],
        parse: impl Fn(&[u8]) -> Result<T, LineError>,
    ) -> Result<NextLine<T>, MemoryError> {
        let zeros = tail.iter().rev().take_while(|byte| **byte == 0).count();
        let line = &tail[..tail.len() - zeros];
        match parse(line) {
            Ok(parsed) => return Ok(NextLine::Unterminated(parsed, line.len() as u64)),
            Err(LineError::Damaged(_)) => {}
            Err(error) => return Err(self.error(error)),
        }
        let newline_changed =
            zeros == 0 && !matches!(parse(&tail[..tail.len() - 1]), Err(LineError::Damaged(_)));
        let is_start = line.starts_with(expected_start) || expected_start.starts_with(line);
        let is_torn = is_start || has_unwritten_sector(tail, self.end);
        if newline_changed || !is_torn {
            return Err(self.damaged(
                "it has no newline, and is not the beginning of the line that was written there",
            ));
        }
        Ok(NextLine::Torn(tail.to_vec()))
    }

    fn error(&self, error: LineError) -> MemoryError {
        let line = self.lines;
        let path = self.path.display();
        match error {
            LineError::Damaged(why) => self.damaged(&why),
            LineError::NotUnderstood(why) => MemoryError::Damaged(
                format!(
                    "line {line} of {path} is not understood ({why}): update loopwright, a newer \
                 version may have written it"
                )
                .into(),
            ),
            LineError::Newer(version) => MemoryError::Newer {
                source_name: format!("line {line} of {path}"),
                found: version,
                known: VERSION,
            },
        }
    }

    /// Returns the error for damage in the line read last.
    pub(super) fn damaged(&self, why: &str) -> MemoryError {
        MemoryError::Damaged(
            format!(
                "line {} of {} is damaged: {why}. The file was left untouched; restore it from a \
             backup, or remove this line and all after it to continue from there",
                self.lines,
                self.path.display()
            )
            .into(),
        )
    }
}
