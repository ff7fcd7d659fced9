//! Lines of a file of any size, with little of it in memory at once.

use std::io::{BufRead, Read, Seek, SeekFrom};

use loopwright_core::{ToolContext, ToolError};

use super::unreadable;

/// Bytes that are read at once.
pub(super) const BLOCK: usize = 64 * 1024;

/// Lines one by one, none of them held in full unless there is room.
pub(super) struct Lines<'a, R> {
    pub(super) path: &'a str,
    pub(super) input: R,
    pub(super) cx: &'a ToolContext,
}

impl<R: BufRead> Lines<'_, R> {
    /// Puts the first `room` bytes of the next line into `line`, without its end; gives its whole
    /// length.
    pub(super) fn next(
        &mut self,
        line: &mut Vec<u8>,
        room: usize,
    ) -> Result<Option<usize>, ToolError> {
        line.clear();
        let (mut length, mut any) = (0, false);
        loop {
            if self.cx.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            let chunk = self.input.fill_buf().map_err(|e| unreadable(self.path, &e))?;
            if chunk.is_empty() {
                return Ok(any.then_some(length));
            }
            any = true;
            let end = memchr::memchr(b'\n', chunk);
            let part = &chunk[..end.unwrap_or(chunk.len())];
            line.extend_from_slice(&part[..part.len().min(room - line.len())]);
            length += part.len();
            let used = part.len() + usize::from(end.is_some());
            self.input.consume(used);
            if end.is_some() {
                return Ok(Some(length));
            }
        }
    }
}

/// The line as text; of one that is `cut`, without the piece of a character at its end.
pub(super) fn utf8(line: &[u8], cut: bool) -> Option<&str> {
    match std::str::from_utf8(line) {
        Ok(text) => Some(text),
        Err(e) if cut && e.error_len().is_none() => {
            std::str::from_utf8(&line[..e.valid_up_to()]).ok()
        }
        Err(_) => None,
    }
}

/// Where the last lines of a file begin.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Last {
    /// The place of the first of them.
    pub(super) place: u64,
    /// How many they are: fewer than were asked for if the file has no more.
    pub(super) lines: u64,
}

impl Last {
    /// Finds the last `wanted` lines of the first `size` bytes, reading from the end and no further
    /// than needed.
    pub(super) fn find(
        path: &str,
        file: &mut (impl Read + Seek),
        size: u64,
        wanted: u64,
        cx: &ToolContext,
    ) -> Result<Self, ToolError> {
        let fail = |e| unreadable(path, &e);
        let (mut block, mut lines, mut end) = (vec![0; BLOCK], 0, size);
        while end > 0 {
            if cx.is_cancelled() {
                return Err(ToolError::Cancelled);
            }
            let begin = end.saturating_sub(BLOCK as u64);
            let part = &mut block[..(end - begin) as usize];
            file.seek(SeekFrom::Start(begin)).map_err(fail)?;
            file.read_exact(part).map_err(fail)?;
            for at in memchr::memrchr_iter(b'\n', part) {
                let next = begin + at as u64 + 1;
                // The end of the last line begins no other.
                lines += u64::from(next < size);
                if lines == wanted {
                    return Ok(Last { place: next, lines });
                }
            }
            end = begin;
        }
        Ok(Last { place: 0, lines: lines + u64::from(size > 0) })
    }
}

/// How many line ends there are before `place`.
pub(super) fn ends_before(
    path: &str,
    file: &mut (impl Read + Seek),
    place: u64,
    cx: &ToolContext,
) -> Result<u64, ToolError> {
    let fail = |e| unreadable(path, &e);
    file.rewind().map_err(fail)?;
    let (mut block, mut left, mut ends) = (vec![0; BLOCK], place, 0);
    while left > 0 {
        if cx.is_cancelled() {
            return Err(ToolError::Cancelled);
        }
        let part = &mut block[..left.min(BLOCK as u64) as usize];
        file.read_exact(part).map_err(fail)?;
        ends += memchr::memchr_iter(b'\n', part).count() as u64;
        left -= part.len() as u64;
    }
    Ok(ends)
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Cursor};

    use super::*;

    const BYTES: usize = 50 * 1024;

    /// A line that never ends, of which no more is held than there is room for.
    #[test]
    fn memory_does_not_grow_with_a_line() {
        let cx = ToolContext::detached();
        let mut lines = Lines {
            path: "f",
            input: BufReader::new(std::io::repeat(b'x').take(50 << 20)),
            cx: &cx,
        };
        let mut line = Vec::new();
        assert_eq!(lines.next(&mut line, BYTES).unwrap(), Some(50 << 20));
        assert!(line.len() == BYTES && line.capacity() <= 4 * BYTES);
        assert_eq!(lines.next(&mut line, BYTES).unwrap(), None);
    }

    #[test]
    fn a_cancelled_call_stops_reading() {
        let cx = ToolContext::detached();
        cx.cancellation().cancel();
        let mut lines = Lines { path: "f", input: BufReader::new(std::io::repeat(b'x')), cx: &cx };
        assert_eq!(lines.next(&mut Vec::new(), 0), Err(ToolError::Cancelled));
    }

    #[test]
    fn the_last_lines_are_found_from_the_end() {
        let cx = ToolContext::detached();
        let find = |text: &str, wanted| {
            Last::find("f", &mut Cursor::new(text), text.len() as u64, wanted, &cx).unwrap()
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
        for (text, wanted, (place, lines)) in table {
            assert_eq!(find(text, wanted), Last { place, lines }, "{text:?} {wanted}");
        }
        let long: String = (0..40_000).map(|n| format!("{n}\n")).collect();
        for wanted in [1, 2, 9_000, 39_999] {
            let Last { place, lines } = find(&long, wanted);
            assert_eq!(lines, wanted);
            assert!(long[place as usize..].starts_with(&format!("{}\n", 40_000 - wanted)));
            assert_eq!(
                ends_before("f", &mut Cursor::new(&long), place, &cx).unwrap(),
                40_000 - wanted
            );
        }
        cx.cancellation().cancel();
        assert_eq!(Last::find("f", &mut Cursor::new("a"), 1, 1, &cx), Err(ToolError::Cancelled));
        assert_eq!(ends_before("f", &mut Cursor::new("a"), 1, &cx), Err(ToolError::Cancelled));
    }
}
