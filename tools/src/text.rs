//! Text files: [`Text`], [`UnifiedDiff`], [`FileChange`].

use std::time::Duration;

use loopwright_core::ToolError;
use memchr::memchr_iter;
use similar::{ChangeTag, TextDiff};

use crate::error::printable;

/// The maximum size of a file that is held in memory as a whole.
pub(crate) const MAX_FILE_BYTES: u64 = 32 * 1024 * 1024;

/// The byte order mark that some files begin with.
pub(crate) const BYTE_ORDER_MARK: char = '\u{feff}';

/// The contents of a text file.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Text {
    /// `true` if the file begins with a byte order mark.
    pub(crate) has_bom: bool,
    /// The text without the byte order mark, with its original line ends.
    pub(crate) text: String,
}

impl Text {
    /// Decodes the bytes of the file `path`.
    pub(crate) fn new(path: &str, bytes: Vec<u8>) -> Result<Self, ToolError> {
        let what = match String::from_utf8(bytes) {
            Ok(text) if !text.contains('\0') => {
                return Ok(match text.strip_prefix(BYTE_ORDER_MARK) {
                    Some(rest) => Text { has_bom: true, text: rest.to_owned() },
                    None => Text { has_bom: false, text },
                });
            }
            Err(e) if !e.as_bytes().contains(&0) => {
                let valid = &e.as_bytes()[..e.utf8_error().valid_up_to()];
                let line = 1 + memchr_iter(b'\n', valid).count();
                format!(
                    "not UTF-8 text (line {line} is the first that is not): it is binary, or in \
                     another encoding"
                )
            }
            _ => "a binary file".to_owned(),
        };
        Err(ToolError::Failed(format!(
            "`{}` is {what}. This tool works on UTF-8 text only",
            printable(path)
        )))
    }

    /// Returns `content` with this file's byte order mark and, if all lines end with CRLF, its line
    /// ends, unless `content` has some itself.
    pub(crate) fn like_this(&self, content: &str) -> String {
        let ends = memchr_iter(b'\n', self.text.as_bytes()).count();
        let is_crlf = ends > 0 && self.text.matches("\r\n").count() == ends;
        let mut content = match is_crlf && !content.contains('\r') {
            true => content.replace('\n', "\r\n"),
            false => content.to_owned(),
        };
        if self.has_bom && !content.starts_with(BYTE_ORDER_MARK) {
            content.insert(0, BYTE_ORDER_MARK);
        }
        content
    }

    /// Encodes `text`, with a byte order mark if this file has one.
    pub(crate) fn bytes_with(&self, text: &str) -> Vec<u8> {
        let mark = if self.has_bom { "\u{feff}" } else { "" };
        [mark, text].concat().into_bytes()
    }
}

/// The text of a file before and after a change.
pub(crate) struct FileChange {
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// A unified diff, cut if it is long.
#[derive(Debug)]
pub(crate) struct UnifiedDiff {
    pub(crate) text: String,
    /// The number of added lines, counted in full even if the text is cut.
    pub(crate) added: usize,
    /// The number of removed lines, counted in full even if the text is cut.
    pub(crate) removed: usize,
    /// `true` if the text is cut.
    pub(crate) cut: bool,
}

impl UnifiedDiff {
    /// The maximum size of a diff in a tool's result.
    const MAX_BYTES: usize = 50 * 1024;

    /// The time after which the diff becomes coarser, but stays correct.
    const TIMEOUT: Duration = Duration::from_secs(2);

    /// Compares two texts, each with the name of its file.
    pub(crate) fn new(old: (&str, &str), new: (&str, &str)) -> Self {
        UnifiedDiff::with_limit(Self::MAX_BYTES, old, new)
    }

    /// Compares two texts. The text of the diff has at most `max_bytes` bytes.
    pub(crate) fn with_limit(
        max_bytes: usize,
        (old_name, old): (&str, &str),
        (new_name, new): (&str, &str),
    ) -> Self {
        let diff = TextDiff::configure().timeout(Self::TIMEOUT).diff_lines(old, new);
        let count = |tag| diff.iter_all_changes().filter(|change| change.tag() == tag).count();
        let added = count(ChangeTag::Insert);
        let removed = count(ChangeTag::Delete);
        let mut text = match added + removed {
            0 => String::new(),
            _ => format!("--- {}\n+++ {}\n", printable(old_name), printable(new_name)),
        };
        let mut cut = false;
        for hunk in diff.unified_diff().context_radius(3).iter_hunks() {
            text.push_str(&hunk.to_string());
            if text.len() > max_bytes {
                text.truncate(text.floor_char_boundary(max_bytes));
                cut = true;
                break;
            }
        }
        UnifiedDiff { text, added, removed, cut }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_text_is_refused_with_the_reason() {
        let why = |bytes: &[u8]| Text::new("f", bytes.to_vec()).unwrap_err().to_string();
        assert_eq!(why(b"a\0b"), "`f` is a binary file. This tool works on UTF-8 text only");
        assert_eq!(why(b"\xff\0"), why(b"a\0b"));
        assert!(why(b"fine\nna\xefve").starts_with("`f` is not UTF-8 text (line 2 "));
    }

    #[test]
    fn the_byte_order_mark_is_separated() {
        for bytes in ["\u{feff}a\r\n", "a\n", ""] {
            let text = Text::new("f", bytes.into()).unwrap();
            assert!(!text.text.contains(BYTE_ORDER_MARK));
            assert_eq!(text.bytes_with(&text.text), bytes.as_bytes());
        }
    }

    #[test]
    fn a_new_content_gets_the_byte_order_mark_and_the_line_ends() {
        for (old, new, expected) in [
            ("\u{feff}a\r\nb\r\n", "x\ny", "\u{feff}x\r\ny"),
            ("\u{feff}", "\u{feff}x\n", "\u{feff}x\n"),
            ("a\r\nb\n", "x\n", "x\n"),
            ("a\r\n", "x\ny\r\n", "x\ny\r\n"),
            ("", "x\n", "x\n"),
        ] {
            assert_eq!(Text::new("f", old.into()).unwrap().like_this(new), expected, "{old:?}");
        }
    }

    #[test]
    fn a_long_diff_is_cut_and_counted_all_the_same() {
        let new: String = (0..20_000).map(|n| format!("line {n}\n")).collect();
        let long = UnifiedDiff::new(("a", ""), ("b", &new));
        assert_eq!((long.added, long.removed, long.cut), (20_000, 0, true));
        assert!(long.text.len() <= UnifiedDiff::MAX_BYTES);
        let short = UnifiedDiff::new(("a", "x\nsame\n"), ("b", "y\nsame\n"));
        assert_eq!(short.text, "--- a\n+++ b\n@@ -1,2 +1,2 @@\n-x\n+y\n same\n");
        assert!(!short.cut && (short.added, short.removed) == (1, 1));
    }
}
