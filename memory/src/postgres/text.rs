//! Text as PostgreSQL stores it: its type `text` has no NUL.

use std::borrow::Cow;

/// The escape character. It is itself escaped, too.
const ESCAPE: char = '\u{1}';

/// Returns text without NUL. Preserves order.
pub(super) fn to_text(text: &str) -> Cow<'_, str> {
    if !text.contains(['\0', ESCAPE]) {
        return text.into();
    }
    let mut escaped = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\0' => escaped.push_str("\u{1}\u{1}"),
            ESCAPE => escaped.push_str("\u{1}\u{2}"),
            c => escaped.push(c),
        }
    }
    escaped.into()
}

/// Returns the original text of [`to_text`].
pub(super) fn from_text(text: &str) -> Cow<'_, str> {
    if !text.contains(ESCAPE) {
        return text.into();
    }
    let (mut original, mut chars) = (String::with_capacity(text.len()), text.chars());
    while let Some(c) = chars.next() {
        original.push(match (c, c == ESCAPE) {
            (_, true) if chars.next() == Some('\u{2}') => ESCAPE,
            (_, true) => '\0',
            (c, false) => c,
        });
    }
    original.into()
}

/// Returns the pattern of `LIKE` for texts from [`to_text`] that contain this word.
pub(super) fn like(word: &str) -> String {
    let mut pattern = String::with_capacity(word.len() + 2);
    pattern.push('%');
    for c in to_text(word).chars() {
        if matches!(c, '%' | '_' | '\\') {
            pattern.push('\\');
        }
        pattern.push(c);
    }
    pattern.push('%');
    pattern
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_read_as_it_was_written_and_sorted_as_before() {
        let parts = ["", "\0", "\u{1}", "\u{2}", "a", "é", "\u{10ffff}"];
        let mut texts: Vec<String> = Vec::new();
        for (a, b, c) in
            parts.iter().flat_map(|a| parts.iter().flat_map(move |b| parts.map(|c| (a, b, c))))
        {
            texts.push(format!("{a}{b}{c}"));
        }
        for text in &texts {
            assert_eq!(from_text(&to_text(text)), *text);
            assert!(!to_text(text).contains('\0'));
        }
        for one in &texts {
            for two in &texts {
                assert_eq!(to_text(one).cmp(&to_text(two)), one.cmp(two), "{one:?} {two:?}");
            }
        }
    }
}
