//! A reader for the lines of a file of any size, in bounded memory.

use std::io::{self, BufRead, Read, Seek, SeekFrom};

use loopwright_core::{ToolContext, ToolError};

use memchr::{memchr, memchr_iter, memrchr_iter};

use crate::error::{WorkspaceError, printable};

/// The size of the blocks in which a file is read.
pub(super) const BLOCK_BYTES: usize = 64 * 1024;

/// Converts an I/O error that occurred while reading the file.
pub(super) fn read_error(path: &str, error: &io::Error) -> ToolError {
    WorkspaceError::io(printable(path), "read", error).into()
}

/// A reader that returns lines one by one and holds a bounded part of each.
pub(super) struct LineReader<'a, R> {
    pub(super) path: &'a str,
    pub(super) input: R,
    pub(super) cx: &'a ToolContext,
}

impl<R: BufRead> LineReader<'_, R> {
    /// Reads the next line, without its line end, and returns its full length in bytes. Only its
    /// first `max_bytes` bytes are written to `line`.
    pub(super) fn next(
        &mut self,
        line: &mut Vec<u8>,
        max_bytes: usize,
    ) -> Result<Option<usize>, ToolError> {
        line.clear();
        let mut length = 0;
        let mut any = false;
        loop {
            if self.cx.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            let chunk = self.input.fill_buf().map_err(|e| read_error(self.path, &e))?;
            if chunk.is_empty() {
                return Ok(any.then_some(length));
            }
            any = true;
            let end = memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            line.extend_from_slice(&part[..part.len().min(max_bytes - line.len())]);
            length += part.len();
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }
}

/// Returns the line as text, without the incomplete character at the end of a `cut` line.
pub(super) fn utf8(line: &[u8], cut: bool) -> Option<&str> {
    match std::str::from_utf8(line) {
        Ok(text) => Some(text),
        Err(e) if cut && e.error_len().is_none() => {
            std::str::from_utf8(&line[..e.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// The start of the last lines of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TailStart {
    /// The byte offset of the first of these lines.
    pub(super) position: u64,
    /// The number of these lines. It is smaller than requested if the file has no more.
    pub(super) lines: u64,
}

impl TailStart {
    /// Finds the last `wanted` lines of the first `size` bytes. Reads from the end, and no further
    /// than needed.
    pub(super) fn find(
        path: &str,
        file: &mut (impl Read + Seek),
        size: u64,
        wanted: u64,
        cx: &ToolContext,
    ) -> Result<Self, ToolError> {
        let fail = |e| read_error(path, &e);
        let mut block = vec![0; BLOCK_BYTES];
        let mut lines = 0;
        let mut end = size;
        while end > 0 {
            if cx.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            let begin = end.saturating_sub(BLOCK_BYTES as u64);
            let part = &mut block[..(end - begin) as usize];
            file.seek(SeekFrom::Start(begin)).map_err(fail)?;
            file.read_exact(part).map_err(fail)?;
            for at in memrchr_iter(b'\n', part) {
                let next = begin + at as u64 + 1;
                // The end of the last line does not start another one.
                lines += u64::from(next < size);
                if lines == wanted {
                    return Ok(TailStart { position: next, lines });
                }
            }
            end = begin;
        }
        Ok(TailStart { position: 0, lines: lines + u64::from(size > 0) })
    }
}

/// Counts the line ends before `position`.
pub(super) fn count_line_ends(
    path: &str,
    file: &mut (impl Read + Seek),
    position: u64,
    cx: &ToolContext,
) -> Result<u64, ToolError> {
    let fail = |e| read_error(path, &e);
    file.rewind().map_err(fail)?;
    let mut block = vec![0; BLOCK_BYTES];
    let mut left = position;
    let mut ends = 0;
    while left > 0 {
        if cx.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let part = &mut block[..left.min(BLOCK_BYTES as u64) as usize];
        file.read_exact(part).map_err(fail)?;
        ends += memchr_iter(b'\n', part).count() as u64;
        left -= part.len() as u64;
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    const MAX_BYTES: usize = 50 * 1024;

    /// An endless line takes only `max_bytes` bytes of memory.
    #[test]
    fn memory_does_not_grow_with_a_line() {
        let cx = ToolContext::detached();
        let mut lines = LineReader {
            path: "f",
            input: BufReader::new(std::io::repeat(b'x').take(50 << 20)),
            cx: &cx,
        };
        let mut line = Vec::new();
        assert_eq!(lines.next(&mut line, MAX_BYTES).unwrap(), Some(50 << 20));
        assert!(line.len() == MAX_BYTES && line.capacity() <= 4 * MAX_BYTES);
        assert_eq!(lines.next(&mut line, MAX_BYTES).unwrap(), None);
    }

    #[test]
    fn a_cancelled_call_stops_reading() {
        let cx = ToolContext::detached();
        cx.cancellation().cancel();
        let mut lines =
            LineReader { path: "f", input: BufReader::new(std::io::repeat(b'x')), cx: &cx };
        assert_eq!(lines.next(&mut Vec::new(), 0), Err(ToolError::Cancelled));
    }

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let cx = ToolContext::detached();
        let find = |text: &str, wanted| {
            TailStart::find("f", &mut Cursor::new(text), text.len() as u64, wanted, &cx).unwrap()
        };
        let table = [
            ("a\nb\nc\n", 1, (4, 1)),
            ("a\nb\nc", 1, (4, 1)),
            ("a\nb\nc\n", 2, (2, 2)),
            ("a\nb\nc\n", 3, (0, 3)),
            ("a\nb\nc\n", 9, (0, 3)),
            ("\n", 1, (0, 1)),
            ("\n\n", 1, (1, 1)),
            ("", 1, (0, 0)),
        ];
        for (text, wanted, (position, lines)) in table {
            assert_eq!(find(text, wanted), TailStart { position, lines }, "{text:?} {wanted}");
        }
        let long: String = (0..40_000).map(|n| format!("{n}\n")).collect();
        for wanted in [1, 2, 9_000, 39_999] {
            let TailStart { position, lines } = find(&long, wanted);
            assert_eq!(lines, wanted);
            assert!(long[position as usize..].starts_with(&format!("{}\n", 40_000 - wanted)));
            assert_eq!(
                count_line_ends("f", &mut Cursor::new(&long), position, &cx).unwrap(),
                40_000 - wanted
            );
        }
        cx.cancellation().cancel();
        assert_eq!(
            TailStart::find("f", &mut Cursor::new("a"), 1, 1, &cx),
            Err(ToolError::Cancelled)
        );
        assert_eq!(count_line_ends("f", &mut Cursor::new("a"), 1, &cx), Err(ToolError::Cancelled));
    }
}
