//! What a command says: its beginning and its end are kept, the rest is counted.

use std::collections::VecDeque;

/// Bytes that are kept of the beginning, and as many of the end.
const HALF: usize = 4 * 1024 * 1024;
/// Bytes that wait to be told live; with more, the oldest are left out.
const WAITING: usize = 64 * 1024;
/// Bytes that are told live in all.
const LIVE: usize = 1024 * 1024;

/// The output of a command, in bounded memory.
#[derive(Debug, Default)]
pub(crate) struct Output {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    total: u64,
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
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.total += bytes.len() as u64;
        let (head, rest) = bytes.split_at(bytes.len().min(HALF - self.head.len()));
        self.head.extend_from_slice(head);
        let rest = &rest[rest.len().saturating_sub(HALF)..];
        let over = (self.tail.len() + rest.len()).saturating_sub(HALF);
        self.tail.drain(..over);
        self.tail.extend(rest);
    }

    /// How many bytes there were in all.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// All that is kept, as it came, with a word where something is lost; and how many bytes that is.
    pub(crate) fn kept(&self) -> (Vec<u8>, u64) {
        let lost = self.total - (self.head.len() + self.tail.len()) as u64;
        let word = if lost == 0 { String::new() } else { format!("\n[… {lost} bytes were left out here …]\n") };
        let (one, two) = self.tail.as_slices();
        ([&self.head, word.as_bytes(), one, two].concat(), lost)
    }

    /// At most so many bytes, a half of them from the end where that is too few.
    pub(crate) fn shown(&self, most: usize) -> Shown {
        let half = most / 2;
        if self.total <= most as u64 {
            return Shown { head: text(&self.kept().0), tail: String::new(), left_out: 0 };
        }
        let head = &self.head[..half.min(self.head.len())];
        let mut tail: Vec<u8> = self.tail.range(self.tail.len().saturating_sub(half)..).copied().collect();
        if tail.len() < half {
            // All of it is in the first half then, so what comes before is its end.
            let more = half - tail.len();
            tail = [&self.head[self.head.len().saturating_sub(more)..], &tail].concat();
        }
        let left_out = self.total - (head.len() + tail.len()) as u64;
        Shown { head: text(head), tail: text(&tail), left_out }
    }
}

/// Output as it can be told while the command runs: whole characters, and never more than a bounded part.
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

/// Bytes as text: what is no UTF-8, and NUL, which some stores refuse, become a replacement character.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).replace('\0', "\u{fffd}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn output(pieces: impl IntoIterator<Item = Vec<u8>>) -> Output {
        let mut output = Output::default();
        pieces.into_iter().for_each(|piece| output.push(&piece));
        output
    }

    #[test]
    fn what_fits_is_shown_whole() {
        let shown = output([b"ab".to_vec(), b"cd\0\xff".to_vec()]).shown(100);
        assert_eq!(shown, Shown { head: "abcd\u{fffd}\u{fffd}".into(), tail: String::new(), left_out: 0 });
        assert_eq!(output([]).shown(10).head, "");
    }

    #[test]
    fn what_does_not_loses_its_middle() {
        let shown = output([b"0123456789".to_vec()]).shown(4);
        assert_eq!(shown, Shown { head: "01".into(), tail: "89".into(), left_out: 6 });
    }

    #[test]
    fn the_gap_is_right_wherever_the_halves_meet() {
        for total in [HALF - 1, HALF, HALF + 1, 2 * HALF, 2 * HALF + 7, 3 * HALF] {
            let output = output((0..total).map(|n| n as u8).collect::<Vec<_>>().chunks(65_537).map(<[u8]>::to_vec));
            assert_eq!(output.total(), total as u64);
            assert!(output.head.len() + output.tail.len() <= 2 * HALF);
            assert_eq!(*output.tail.back().unwrap_or(output.head.last().unwrap()), (total - 1) as u8);
            let (kept, lost) = output.kept();
            assert_eq!(lost, total.saturating_sub(2 * HALF) as u64);
            let word = if lost == 0 { 0 } else { format!("\n[… {lost} bytes were left out here …]\n").len() };
            assert_eq!(kept.len() as u64, total as u64 - lost + word as u64);
            assert_eq!(*kept.last().unwrap(), (total - 1) as u8);
            assert_eq!(output.shown(1_000).left_out, total as u64 - 1_000);
        }
    }

    #[test]
    fn one_piece_larger_than_all_that_is_kept() {
        let mut piece = vec![b'a'; 3 * HALF];
        piece.push(b'z');
        let output = output([piece]);
        assert_eq!((output.head.len(), output.tail.len(), output.kept().1), (HALF, HALF, HALF as u64 + 1));
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
