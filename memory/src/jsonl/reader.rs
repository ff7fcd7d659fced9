//! Reading a log, line by line.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use loopwright_core::log::{LogEntry, MemoryError};

use super::failed;
use super::line::{self, Bad, Header, VERSION};

/// A log of which some lines are read.
pub(super) struct Reader {
    path: PathBuf,
    file: io::Take<BufReader<File>>,
    line: Vec<u8>,
    /// Lines that are read.
    lines: u64,
    /// Their length in bytes.
    pub(super) end: u64,
}

/// What comes next in a log.
pub(super) enum Next<T> {
    /// A whole line.
    Line(T),
    /// Nothing.
    End,
    /// The beginning of a line that never was whole.
    Torn(Vec<u8>),
    /// A whole line, this long, of which only the end is missing.
    Unended(T, u64),
}

impl Reader {
    /// Reads from here, as far as `length`.
    pub(super) fn new(path: &Path, file: File, length: u64) -> Self {
        let file = BufReader::with_capacity(1 << 16, file).take(length);
        Reader { path: path.to_owned(), file, line: Vec::new(), lines: 0, end: 0 }
    }

    /// The header, which comes first.
    pub(super) fn header(&mut self, session: &str) -> Result<Next<Header>, MemoryError> {
        let new = Header { session: session.to_owned(), parent: None }.line()?;
        let next = self.next(&new, Header::of)?; // a branch is never torn here: its file comes whole
        let (Next::Line(header) | Next::Unended(header, _)) = &next else {
            return Ok(next);
        };
        if header.session != session {
            let why = format!(
                "it is the log of the session `{}`, in the file of `{session}`",
                header.session
            );
            return Err(self.damaged(&why));
        }
        Ok(next)
    }

    /// The items of the next append, where `at` items come before it.
    pub(super) fn items(&mut self, at: u64) -> Result<Next<Vec<LogEntry>>, MemoryError> {
        self.next(line::begin(at).as_bytes(), |line| line::items(line, at))
    }

    /// The first line, whosever it is.
    pub(super) fn any_header(&mut self) -> Result<Option<Header>, MemoryError> {
        Ok(match self.next(line::HEADER, Header::of)? {
            Next::Line(header) => Some(header),
            _ => None,
        })
    }

    fn next<T>(
        &mut self,
        begin: &[u8],
        parse: impl Fn(&[u8]) -> Result<T, Bad>,
    ) -> Result<Next<T>, MemoryError> {
        self.line.clear();
        let read = self.file.read_until(b'\n', &mut self.line);
        read.map_err(|e| failed("cannot be read", &self.path, &e))?;
        self.lines += 1;
        let line = match self.line.as_slice() {
            [] => return Ok(Next::End),
            [line @ .., b'\n'] => line,
            tail => return self.tail(tail, begin, parse),
        };
        let parsed = parse(line).map_err(|bad| self.bad(bad))?;
        self.end += self.line.len() as u64;
        Ok(Next::Line(parsed))
    }

    /// What is after the last end of a line: a part of a line that was being written, perhaps with
    /// zeros after it where the file had grown and the bytes had not come. Nothing else is: a whole
    /// line with one more byte has had its end changed.
    fn tail<T>(
        &self,
        tail: &[u8],
        begin: &[u8],
        parse: impl Fn(&[u8]) -> Result<T, Bad>,
    ) -> Result<Next<T>, MemoryError> {
        let zeros = tail.iter().rev().take_while(|byte| **byte == 0).count();
        let line = &tail[..tail.len() - zeros];
        match parse(line) {
            Ok(parsed) => return Ok(Next::Unended(parsed, line.len() as u64)),
            Err(Bad::Damaged(_)) => {}
            Err(whole) => return Err(self.bad(whole)),
        }
        let end_changed =
            zeros == 0 && !matches!(parse(&tail[..tail.len() - 1]), Err(Bad::Damaged(_)));
        if end_changed || !(line.starts_with(begin) || begin.starts_with(line)) {
            return Err(self.damaged(
                "it has no end, and is not the beginning of the line that was written there",
            ));
        }
        Ok(Next::Torn(tail.to_vec()))
    }

    fn bad(&self, bad: Bad) -> MemoryError {
        match bad {
            Bad::Damaged(why) => self.damaged(&why),
            Bad::Unknown(why) => MemoryError::Damaged(format!(
                "line {} of {} is not understood ({why}): update loopwright, a newer version may have written it",
                self.lines,
                self.path.display()
            )),
            Bad::Newer(found) => {
                let place = format!("line {} of {}", self.lines, self.path.display());
                MemoryError::Newer { place, found, known: VERSION }
            }
        }
    }

    /// The error that the line read last is not as it was written.
    pub(super) fn damaged(&self, why: &str) -> MemoryError {
        MemoryError::Damaged(format!(
            "line {} of {} is damaged: {why}. Nothing was changed; put the file back from a copy, or take out this line \
             and all after it to go on from there",
            self.lines,
            self.path.display()
        ))
    }
}
