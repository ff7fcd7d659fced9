//! [`CommandOutput`]: the output of a command in bounded memory, with a file for long output.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, Write};

use crate::workspace::Workspace;

/// The maximum size of output for the model. Longer output is saved to a file.
pub(crate) const MAX_SHOWN_BYTES: usize = 30 * 1024;
/// The directory of these files, relative to the workspace.
pub(crate) const OUTPUT_DIR: &str = ".loopwright/output";

/// The maximum size of the end that is held in memory.
const MAX_TAIL_BYTES: usize = 1024 * 1024;

/// The output of a command, in bounded memory.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    /// The first bytes, up to the size that may be shown.
    head: Vec<u8>,
    /// The last bytes, which may overlap with `head`.
    tail: VecDeque<u8>,
    total: u64,
    file: Spool,
}

/// The file for long output, written while the command runs. It has no name, so a command that
/// reads all files of the workspace does not read its own output.
#[derive(Debug)]
struct Spool {
    workspace: Workspace,
    /// The maximum number of bytes that are written from the start of the output.
    max_bytes: u64,
    /// The number of bytes of the end that are saved as well.
    tail_bytes: usize,
    written: u64,
    /// The file, opened when needed. An error says why the output is not saved.
    open: Option<Result<File, String>>,
}

/// Output that is too long to be shown, and will be saved.
#[derive(Debug)]
pub(crate) struct LongOutput {
    start: File,
    end: Vec<u8>,
    /// The number of bytes lost between start and end.
    pub(crate) lost: u64,
}

/// The part of the output for the model.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Excerpt {
    /// The whole output, or its start if it is too long.
    pub(crate) head: String,
    /// The end of output that is too long, else empty.
    pub(crate) tail: String,
    /// The number of bytes between `head` and `tail`.
    pub(crate) left_out: u64,
}

impl CommandOutput {
    /// Creates the output of a command in this workspace. At most `max_bytes` bytes are saved.
    pub(crate) fn new(workspace: &Workspace, max_bytes: u64) -> Self {
        let half = usize::try_from(max_bytes / 2).unwrap_or(MAX_TAIL_BYTES);
        let tail_bytes = MAX_TAIL_BYTES.min(half);
        let file = Spool {
            workspace: workspace.unguarded(),
            max_bytes: max_bytes - tail_bytes as u64,
            tail_bytes,
            written: 0,
            open: None,
        };
        CommandOutput { head: Vec::new(), tail: VecDeque::new(), total: 0, file }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.total > MAX_SHOWN_BYTES as u64 {
            if self.file.open.is_none() {
                self.file.write(&self.head); // all output so far
            }
            self.file.write(bytes);
        }
        self.head.extend_from_slice(&bytes[..bytes.len().min(MAX_SHOWN_BYTES - self.head.len())]);
        let last = &bytes[bytes.len().saturating_sub(MAX_TAIL_BYTES)..];
        let over = (self.tail.len() + last.len()).saturating_sub(MAX_TAIL_BYTES);
        self.tail.drain(..over);
        self.tail.extend(last);
    }

    /// Returns the size of the whole output in bytes.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Takes the output to save, or returns `None` if all of it is shown. An error says why the
    /// output cannot be saved.
    pub(crate) fn take_long(&mut self) -> Option<Result<LongOutput, String>> {
        Some(self.file.open.take()?.map(|start| {
            let rest = self.total - self.file.written;
            let end = usize::try_from(rest).unwrap_or(usize::MAX).min(self.file.tail_bytes);
            let end = self.tail.range(self.tail.len() - end..).copied().collect::<Vec<u8>>();
            LongOutput { lost: rest - end.len() as u64, start, end }
        }))
    }

    /// Returns the output. If it is longer than `max_bytes`, returns its start and its end, of
    /// equal size. `max_bytes` must not be more than [`MAX_SHOWN_BYTES`].
    pub(crate) fn excerpt(&self, max_bytes: usize) -> Excerpt {
        if self.total <= max_bytes as u64 {
            return Excerpt { head: text(&self.head), tail: String::new(), left_out: 0 };
        }
        let half = max_bytes / 2;
        let tail: Vec<u8> = self.tail.range(self.tail.len() - half..).copied().collect();
        Excerpt {
            head: text(&self.head[..half]),
            tail: text(&tail),
            left_out: self.total - 2 * half as u64,
        }
    }
}

impl Spool {
    fn write(&mut self, bytes: &[u8]) {
        let open = self
            .open
            .get_or_insert_with(|| self.workspace.spool(OUTPUT_DIR).map_err(|why| why.to_string()));
        let room = usize::try_from(self.max_bytes - self.written).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        let Ok(file) = open else { return };
        match file.write_all(bytes) {
            Ok(()) => self.written += bytes.len() as u64,
            Err(why) => *open = Err(why.to_string()), // closes the file, which frees its disk space
        }
    }
}

impl LongOutput {
    /// Writes the output to a file, with a note where bytes are lost.
    pub(crate) fn write_to(&mut self, into: &mut File) -> io::Result<()> {
        self.start.rewind()?;
        io::copy(&mut self.start, into)?;
        if self.lost > 0 {
            write!(into, "\n[… {} bytes were left out here …]\n", self.lost)?;
        }
        into.write_all(&self.end)
    }
}

/// Converts bytes to text. Replaces invalid UTF-8, and NUL, which some stores refuse.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn output(chunks: impl IntoIterator<Item = Vec<u8>>) -> CommandOutput {
        output_of(1 << 30, chunks)
    }

    fn output_of(max_bytes: u64, chunks: impl IntoIterator<Item = Vec<u8>>) -> CommandOutput {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let mut output = CommandOutput::new(&workspace, max_bytes);
        chunks.into_iter().for_each(|chunk| output.push(&chunk));
        output
    }

    /// Returns the number of lost bytes, and the contents of the file.
    fn contents(mut long: LongOutput) -> (u64, Vec<u8>) {
        let mut file = tempfile::tempfile().unwrap();
        let mut whole = Vec::new();
        long.write_to(&mut file).unwrap();
        file.rewind().unwrap();
        file.read_to_end(&mut whole).unwrap();
        (long.lost, whole)
    }

    #[test]
    fn short_output_is_shown_whole() {
        let excerpt = output([b"ab".to_vec(), b"cd\0\xff".to_vec()]).excerpt(100);
        assert_eq!(
            excerpt,
            Excerpt { head: "abcd\u{fffd}\u{fffd}".into(), tail: String::new(), left_out: 0 }
        );
        assert_eq!(output([]).excerpt(10).head, "");
    }

    #[test]
    fn long_output_loses_its_middle() {
        let excerpt = output([b"0123456789".to_vec()]).excerpt(4);
        assert_eq!(excerpt, Excerpt { head: "01".into(), tail: "89".into(), left_out: 6 });
    }

    #[test]
    fn start_and_end_join_without_a_gap_at_every_size() {
        let max = 4 * MAX_TAIL_BYTES as u64;
        for total in [
            MAX_SHOWN_BYTES,
            MAX_SHOWN_BYTES + 1,
            MAX_TAIL_BYTES - 1,
            MAX_TAIL_BYTES,
            MAX_TAIL_BYTES + 1,
            4 * MAX_TAIL_BYTES,
            4 * MAX_TAIL_BYTES + 1,
            6 * MAX_TAIL_BYTES,
        ] {
            let all: Vec<u8> = (0..total).map(|n| (n % 251) as u8).collect();
            let mut output = output_of(max, all.chunks(65_537).map(<[u8]>::to_vec));
            assert_eq!(output.total(), total as u64);
            assert!(output.head.len() + output.tail.len() <= MAX_SHOWN_BYTES + MAX_TAIL_BYTES);
            assert_eq!(output.excerpt(1_000).left_out, total as u64 - 1_000);
            let Some(long) = output.take_long() else {
                assert_eq!(total, MAX_SHOWN_BYTES);
                continue;
            };
            let (lost, whole) = contents(long.unwrap());
            assert_eq!(lost, (total as u64).saturating_sub(max));
            let (start, end) =
                all.split_at((total - MAX_TAIL_BYTES.min(total)).min(3 * MAX_TAIL_BYTES));
            let note = format!("\n[… {lost} bytes were left out here …]\n");
            match lost {
                0 => assert!(whole == all),
                _ => assert!(
                    whole == [start, note.as_bytes(), &end[end.len() - MAX_TAIL_BYTES..]].concat()
                ),
            }
        }
    }

    #[test]
    fn a_small_bound_holds_too() {
        for (max, first, last) in [(0, 0, 0), (1, 1, 0), (7, 4, 3), (40_000, 20_000, 20_000)] {
            let all: Vec<u8> = (0..50_000).map(|n| (n % 251) as u8).collect();
            let (lost, whole) =
                contents(output_of(max, [all.clone()]).take_long().unwrap().unwrap());
            assert_eq!(lost, 50_000 - max);
            assert!(
                whole.starts_with(&all[..first]) && whole.ends_with(&all[50_000 - last..]),
                "{max}"
            );
            assert!(whole.len() < max as usize + 60);
        }
    }

    #[test]
    fn one_chunk_larger_than_the_memory_limit() {
        let mut chunk = vec![b'a'; 3 * MAX_TAIL_BYTES];
        chunk.push(b'z');
        let output = output([chunk]);
        assert_eq!((output.head.len(), output.tail.len()), (MAX_SHOWN_BYTES, MAX_TAIL_BYTES));
        assert!(output.excerpt(10).tail.ends_with('z'));
    }
}
