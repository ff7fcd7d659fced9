//! What a command says: its beginning and its end are in memory, and all of it in a file once it is
//! long.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Seek, Write};

use crate::workspace::Workspace;

/// Bytes that the model is shown. What is longer goes to a file.
pub(crate) const SHOWN: usize = 30 * 1024;
/// Where the file is.
pub(crate) const KEPT: &str = ".loopwright/output";

/// Bytes of the end that are in memory.
const END: usize = 1024 * 1024;
/// Bytes that wait to be told live; with more, the oldest are left out.
const WAITING: usize = 64 * 1024;
/// Bytes that are told live in all.
const LIVE: usize = 1024 * 1024;

/// The output of a command, in bounded memory.
#[derive(Debug)]
pub(crate) struct Output {
    /// The first bytes, as many as may be shown.
    head: Vec<u8>,
    /// The last bytes, which may be in `head` too.
    tail: VecDeque<u8>,
    total: u64,
    file: Spool,
}

/// The file that long output goes to while the command runs. It has no name, so a command that
/// reads all files of the workspace does not read what it prints.
#[derive(Debug)]
struct Spool {
    workspace: Workspace,
    /// Bytes that it takes: those of the beginning.
    most: u64,
    /// Bytes of the end that are kept besides.
    end: usize,
    written: u64,
    /// Open once it is needed; an error says why nothing is kept.
    open: Option<Result<File, String>>,
}

/// Output that was too long to be shown.
#[derive(Debug)]
pub(crate) struct Kept {
    start: File,
    end: Vec<u8>,
    /// Bytes between the two that are lost.
    pub(crate) lost: u64,
}

/// Output that fits into an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    /// The beginning and, where something is left out, what comes before the gap.
    pub(crate) head: String,
    /// What comes after the gap.
    pub(crate) tail: String,
    /// Bytes in the gap.
    pub(crate) left_out: u64,
}

impl Output {
    /// Of a command in this workspace, of which at most so many bytes are kept.
    pub(crate) fn new(workspace: &Workspace, most: u64) -> Self {
        let end = END.min(usize::try_from(most / 2).unwrap_or(END));
        let file = Spool {
            workspace: workspace.unguarded(),
            most: most - end as u64,
            end,
            written: 0,
            open: None,
        };
        Output { head: Vec::new(), tail: VecDeque::new(), total: 0, file }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        if self.total > SHOWN as u64 {
            if self.file.open.is_none() {
                self.file.write(&self.head); // all there was so far
            }
            self.file.write(bytes);
        }
        self.head.extend_from_slice(&bytes[..bytes.len().min(SHOWN - self.head.len())]);
        let last = &bytes[bytes.len().saturating_sub(END)..];
        let over = (self.tail.len() + last.len()).saturating_sub(END);
        self.tail.drain(..over);
        self.tail.extend(last);
    }

    /// How many bytes there were in all.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// What is kept, to be put into a file of its own, if there is more than is shown. An error
    /// says why nothing is.
    pub(crate) fn take_kept(&mut self) -> Option<Result<Kept, String>> {
        Some(self.file.open.take()?.map(|start| {
            let rest = self.total - self.file.written;
            let end = usize::try_from(rest).unwrap_or(usize::MAX).min(self.file.end);
            let end = self.tail.range(self.tail.len() - end..).copied().collect::<Vec<u8>>();
            Kept { lost: rest - end.len() as u64, start, end }
        }))
    }

    /// At most so many bytes, which must not be more than [`SHOWN`]; a half of them from the end
    /// where that is too few.
    pub(crate) fn shown(&self, most: usize) -> Shown {
        if self.total <= most as u64 {
            return Shown { head: text(&self.head), tail: String::new(), left_out: 0 };
        }
        let half = most / 2;
        let tail: Vec<u8> = self.tail.range(self.tail.len() - half..).copied().collect();
        Shown {
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
            .get_or_insert_with(|| self.workspace.spool(KEPT).map_err(|why| why.to_string()));
        let room = usize::try_from(self.most - self.written).unwrap_or(usize::MAX);
        let bytes = &bytes[..bytes.len().min(room)];
        let Ok(file) = open else { return };
        match file.write_all(bytes) {
            Ok(()) => self.written += bytes.len() as u64,
            Err(why) => *open = Err(why.to_string()), // closed, which gives the disk its room back
        }
    }
}

impl Kept {
    /// Puts it into a file, with a word where something is lost.
    pub(crate) fn put(&mut self, into: &mut File) -> io::Result<()> {
        self.start.rewind()?;
        io::copy(&mut self.start, into)?;
        if self.lost > 0 {
            write!(into, "\n[… {} bytes were left out here …]\n", self.lost)?;
        }
        into.write_all(&self.end)
    }
}

/// Output as it can be told while the command runs: whole characters, and never more than a bounded
/// part.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// The beginning of a character that is not complete.
    broken: Vec<u8>,
    waiting: String,
    told: usize,
}

impl Live {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.told >= LIVE {
            return;
        }
        let bytes = [&std::mem::take(&mut self.broken), bytes].concat();
        for chunk in bytes.utf8_chunks() {
            self.waiting.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let at_end = invalid.as_ptr_range().end == bytes.as_ptr_range().end;
            if at_end && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none()) {
                self.broken = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.waiting.push('\u{fffd}');
            }
        }
        if self.waiting.len() > WAITING {
            let from = self.waiting.ceil_char_boundary(self.waiting.len() - WAITING / 2);
            self.waiting.replace_range(..from, "\n[… left out here …]\n");
        }
    }

    /// What is to be told now, if anything.
    pub(super) fn take(&mut self) -> Option<String> {
        if self.waiting.is_empty() {
            return None;
        }
        let mut text = std::mem::take(&mut self.waiting);
        self.told += text.len();
        if self.told >= LIVE {
            text.push_str("\n[… the rest is not shown while it runs …]\n");
        }
        Some(text)
    }

    /// Puts back what could not be told yet.
    pub(super) fn put_back(&mut self, text: String) {
        self.told -= self.told.min(text.len());
        self.waiting.insert_str(0, &text);
    }
}

/// Bytes as text: what is no UTF-8, and NUL, which some stores refuse, become a replacement
/// character.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    fn output(pieces: impl IntoIterator<Item = Vec<u8>>) -> Output {
        output_of(1 << 30, pieces)
    }

    fn output_of(most: u64, pieces: impl IntoIterator<Item = Vec<u8>>) -> Output {
        let dir = tempfile::tempdir().unwrap();
        let mut output = Output::new(&Workspace::open(dir.path()).unwrap(), most);
        pieces.into_iter().for_each(|piece| output.push(&piece));
        output
    }

    /// What is lost, and what is in the file.
    fn contents(mut kept: Kept) -> (u64, Vec<u8>) {
        let (mut file, mut whole) = (tempfile::tempfile().unwrap(), Vec::new());
        kept.put(&mut file).unwrap();
        file.rewind().unwrap();
        file.read_to_end(&mut whole).unwrap();
        (kept.lost, whole)
    }

    #[test]
    fn what_fits_is_shown_whole() {
        let shown = output([b"ab".to_vec(), b"cd\0\xff".to_vec()]).shown(100);
        assert_eq!(
            shown,
            Shown { head: "abcd\u{fffd}\u{fffd}".into(), tail: String::new(), left_out: 0 }
        );
        assert_eq!(output([]).shown(10).head, "");
    }

    #[test]
    fn what_does_not_loses_its_middle() {
        let shown = output([b"0123456789".to_vec()]).shown(4);
        assert_eq!(shown, Shown { head: "01".into(), tail: "89".into(), left_out: 6 });
    }

    #[test]
    fn the_gap_is_right_wherever_the_parts_meet() {
        let max = 4 * END as u64;
        for total in [SHOWN, SHOWN + 1, END - 1, END, END + 1, 4 * END, 4 * END + 1, 6 * END] {
            let all: Vec<u8> = (0..total).map(|n| (n % 251) as u8).collect();
            let mut output = output_of(max, all.chunks(65_537).map(<[u8]>::to_vec));
            assert_eq!(output.total(), total as u64);
            assert!(output.head.len() + output.tail.len() <= SHOWN + END);
            assert_eq!(output.shown(1_000).left_out, total as u64 - 1_000);
            let Some(kept) = output.take_kept() else {
                assert_eq!(total, SHOWN);
                continue;
            };
            let (lost, whole) = contents(kept.unwrap());
            assert_eq!(lost, (total as u64).saturating_sub(max));
            let (start, end) = all.split_at((total - END.min(total)).min(3 * END));
            let word = format!("\n[… {lost} bytes were left out here …]\n");
            match lost {
                0 => assert!(whole == all),
                _ => assert!(whole == [start, word.as_bytes(), &end[end.len() - END..]].concat()),
            }
        }
    }

    #[test]
    fn a_small_bound_holds_too() {
        for (max, first, last) in [(0, 0, 0), (1, 1, 0), (7, 4, 3), (40_000, 20_000, 20_000)] {
            let all: Vec<u8> = (0..50_000).map(|n| (n % 251) as u8).collect();
            let (lost, whole) =
                contents(output_of(max, [all.clone()]).take_kept().unwrap().unwrap());
            assert_eq!(lost, 50_000 - max);
            assert!(
                whole.starts_with(&all[..first]) && whole.ends_with(&all[50_000 - last..]),
                "{max}"
            );
            assert!(whole.len() < max as usize + 60);
        }
    }

    #[test]
    fn one_piece_larger_than_all_that_is_in_memory() {
        let mut piece = vec![b'a'; 3 * END];
        piece.push(b'z');
        let output = output([piece]);
        assert_eq!((output.head.len(), output.tail.len()), (SHOWN, END));
        assert!(output.shown(10).tail.ends_with('z'));
    }

    #[test]
    fn characters_are_told_whole_when_live() {
        let mut live = Live::default();
        live.push(b"a\xc3");
        assert_eq!(live.take().unwrap(), "a");
        live.push(b"\xa9\xffb");
        assert_eq!(live.take().unwrap(), "é\u{fffd}b");
        assert_eq!(live.take(), None);
    }

    #[test]
    fn live_output_is_bounded_and_can_be_put_back() {
        let mut live = Live::default();
        live.push(&[b'x'; 4 * WAITING]);
        let text = live.take().unwrap();
        assert!(text.len() < WAITING && text.starts_with("\n[… left out"), "{}", text.len());
        live.put_back("first ".into());
        live.push(b"second");
        assert_eq!(live.take().unwrap(), "first second");
        let mut told = 0;
        for _ in 0..1_000 {
            live.push(&[b'x'; 10_000]);
            told += live.take().map_or(0, |text| text.len());
        }
        assert!(told < LIVE + 20_000, "{told}");
    }
}
