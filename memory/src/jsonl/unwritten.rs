//! Distinction between a log's end torn by a power failure and damage.
//!
//! A disk writes the pages of an append in any order. Parts that were unwritten when the power
//! failed read as zeros, in units of sectors; intact lines may follow. A flush includes everything
//! before it. So nothing after the first unwritten sector was ever flushed, and nothing there that
//! had to be durable was acknowledged.

use super::line;

/// The smallest unit that a disk writes.
const SECTOR_BYTES: u64 = 512;

/// Returns `true` if a power failure can have left these bytes at the end of a log, from `position`
/// on: the first line has an unwritten sector, and no intact line has an entry that must be
/// durable.
pub(super) fn is_torn_end(bytes: &[u8], position: u64) -> bool {
    let mut lines = bytes.split_inclusive(|byte| *byte == b'\n');
    lines.next().is_some_and(|first| has_unwritten_sector(first, position))
        && !bytes.split(|byte| matches!(byte, b'\n' | 0)).any(line::is_durable)
}

/// Returns `true` if a line at this position of its file has zeros that fill a sector, or the part
/// of a sector up to the line's beginning or end.
pub(super) fn has_unwritten_sector(line: &[u8], position: u64) -> bool {
    let is_edge = |at: usize| (position + at as u64).is_multiple_of(SECTOR_BYTES);
    let mut at = 0;
    line.chunk_by(|a, b| (*a == 0) == (*b == 0)).any(|run| {
        let start = at;
        at += run.len();
        run[0] == 0 && (start == 0 || is_edge(start)) && (at == line.len() || is_edge(at))
    })
}

#[cfg(test)]
mod tests {
    use loopwright_core::log::LogEntry;

    use super::*;

    #[test]
    fn only_zeros_up_to_the_edges_of_a_sector_are_unwritten() {
        let line = |zeros: std::ops::Range<usize>| {
            let mut line = vec![b'x'; 2000];
            line[zeros].fill(0);
            line
        };
        for (zeros, position, unwritten) in [
            (512..1024, 0, true),
            (500..1024, 12, false),
            (500..1012, 12, true),
            (500..2000, 12, true),
            (0..412, 100, true),
            (0..411, 100, false),
            (700..701, 0, false),
            (0..0, 0, false),
        ] {
            assert_eq!(
                has_unwritten_sector(&line(zeros.clone()), position),
                unwritten,
                "{zeros:?}"
            );
        }
    }

    #[test]
    fn an_intact_entry_that_must_be_durable_shows_that_the_end_was_flushed() {
        let torn = [b"{\"at\"".as_slice(), &[0; 512], b"]}\n"].concat();
        let volatile = line::append(7, &[LogEntry::Delivered { input: "i".into() }]).unwrap();
        let durable = line::append(8, &[LogEntry::Reset]).unwrap();
        let position = 512 - 5;
        assert!(is_torn_end(&torn, position));
        assert!(is_torn_end(&[&*torn, &volatile].concat(), position));
        assert!(!is_torn_end(&[&*torn, &volatile, &durable].concat(), position));
        assert!(!is_torn_end(&[&*torn, &[0; 9], &durable].concat(), position));
        assert!(is_torn_end(&[&*torn, &durable[..durable.len() - 3]].concat(), position));
        assert!(!is_torn_end(&volatile, position), "a line without an unwritten sector is first");
    }
}
