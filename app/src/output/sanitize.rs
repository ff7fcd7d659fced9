//! Replacement of control characters in text that may reach a terminal, directly or through a pipe.

use std::borrow::Cow;

/// Returns the text with control characters replaced by U+FFFD, except in line ends.
pub(crate) fn sanitized(text: &str) -> Cow<'_, str> {
    if !text.contains(is_control) {
        return text.into();
    }
    let lines = text.split_inclusive("\r\n").map(|line| match line.strip_suffix("\r\n") {
        Some(line) => line.replace(is_control, "\u{fffd}") + "\r\n",
        None => line.replace(is_control, "\u{fffd}"),
    });
    lines.collect::<String>().into()
}

/// Returns whether a terminal would obey the character instead of showing it: a part of an escape
/// sequence, or a mark that changes the direction of text.
pub(super) fn is_control(c: char) -> bool {
    let is_direction_mark = matches!(
        c,
        '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}'
    );
    is_direction_mark || c.is_control() && c != '\n' && c != '\t'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_for_a_terminal_contains_no_control_characters() {
        assert_eq!(
            sanitized("a\x1b[2Jb\u{9b}c\u{202e}d\n\té"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\n\té"
        );
        assert!(matches!(sanitized("plain"), Cow::Borrowed(_)));
        assert_eq!(sanitized("a\r\nb\rc\r\n"), "a\r\nb\u{fffd}c\r\n");
        for mark in ["\u{61c}", "\u{200f}", "\u{2067}", "\u{7f}", "\u{80}", "\u{9f}"] {
            assert_eq!(sanitized(mark), "\u{fffd}", "{mark:?}");
        }
    }
}
