//! Text files as the tools work on them: [`Text`], and [`Unified`], how two differ.

use std::time::Duration;

use loopwright_core::ToolError;
use similar::{ChangeTag, TextDiff};

use crate::error::shown;

/// The largest file that is held in memory as a whole, in bytes.
pub(crate) const WHOLE: u64 = 32 * 1024 * 1024;

/// The byte order mark, as it may stand at the start of a file.
const MARK: char = '\u{feff}';

/// What a text file contains.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// Whether a byte order mark comes before the text.
    pub(crate) marked: bool,
    /// The text, with the line ends that it has.
    pub(crate) text: String,
}

impl Text {
    /// The text in these bytes of the file `path`.
    pub(crate) fn new(path: &str, bytes: Vec<u8>) -> Result<Self, ToolError> {
        let what = match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => {
                return Ok(match text.strip_prefix(MARK) {
                    Some(rest) => Text { marked: true, text: rest.to_owned() },
                    None => Text { marked: false, text },
                });
            }
            Err(e) if !e.as_bytes().contains(&0) => {
                let line =
                    1 + memchr::memchr_iter(b'\n', &e.as_bytes()[..e.utf8_error().valid_up_to()])
                        .count();
                format!(
                    "not UTF-8 text (line {line} is the first that is not): it is binary, or in another encoding"
                )
            }
            _ => "a binary file".to_owned(),
        };
        Err(ToolError::Failed(format!(
            "`{}` is {what}. Only UTF-8 text can be worked on",
            shown(path)
        )))
    }

    /// The bytes of a file that contains `text`, marked as this one is.
    pub(crate) fn bytes_with(&self, text: &str) -> Vec<u8> {
        let mark = if self.marked { "\u{feff}" } else { "" };
        [mark, text].concat().into_bytes()
    }
}

/// How a text became another: a unified diff, shortened if it is long.
#[derive(Debug)]
pub(crate) struct Unified {
    pub(crate) text: String,
    /// Lines that came and went.
    pub(crate) added: usize,
    pub(crate) removed: usize,
    /// Whether the text is shortened.
    pub(crate) cut: bool,
}

impl Unified {
    /// The longest text, in bytes.
    const BYTES: usize = 50 * 1024;

    pub(crate) fn new(old: (&str, &str), new: (&str, &str)) -> Self {
        Unified::up_to(Self::BYTES, old, new)
    }

    /// With a text of at most `most` bytes.
    pub(crate) fn up_to(
        most: usize,
        (old_name, old): (&str, &str),
        (new_name, new): (&str, &str),
    ) -> Self {
        // Past the time the diff is a coarser one, and still a true one.
        let diff = TextDiff::configure().timeout(Duration::from_secs(2)).diff_lines(old, new);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        let (added, removed) = (count(ChangeTag::Insert), count(ChangeTag::Delete));
        let mut text = match added + removed {
            0 => String::new(),
            _ => format!("--- {}\n+++ {}\n", shown(old_name), shown(new_name)),
        };
        let mut cut = false;
        for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
            text.push_str(&hunk.to_string());
            if text.len() > most {
                text.truncate(text.floor_char_boundary(most));
                cut = true;
                break;
            }
        }
        Unified { text, added, removed, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_named() {
        let why = |bytes: &[u8]| Text::new("f", bytes.to_vec()).unwrap_err().to_string();
        assert_eq!(why(b"a\0b"), "`f` is a binary file. Only UTF-8 text can be worked on");
        assert_eq!(why(b"\xff\0"), why(b"a\0b"));
        assert!(why(b"fine\nna\xefve").starts_with("`f` is not UTF-8 text (line 2 "));
    }

    #[test]
    fn the_mark_is_kept_apart() {
        for bytes in ["\u{feff}a\r\n", "a\n", ""] {
            let text = Text::new("f", bytes.into()).unwrap();
            assert!(!text.text.contains(MARK));
            assert_eq!(text.bytes_with(&text.text), bytes.as_bytes());
        }
    }

    #[test]
    fn a_long_diff_is_cut_and_counted_all_the_same() {
        let new: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        let long = Unified::new(("a", ""), ("b", &new));
        assert_eq!((long.added, long.removed, long.cut), (20_000, 0, true));
        assert!(long.text.len() <= Unified::BYTES);
        let short = Unified::new(("a", "x\nsame\n"), ("b", "y\nsame\n"));
        assert_eq!(short.text, "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-x\n+y\n same\n");
        assert!(!short.cut && (short.added, short.removed) == (1, 1));
    }
}
