//! The beginning of a text that is too long to be shown whole.

use std::borrow::Cow;

/// Returns a text, or its first `max` characters and an ellipsis if it is longer.
///
/// ```
/// use loopwright_core::excerpt;
///
/// assert_eq!(excerpt::chars("été", 3), "été");
/// assert_eq!(excerpt::chars("étés", 3), "été…");
/// ```
pub fn chars(text: &str, max: usize) -> Cow<'_, str> {
    match text.char_indices().nth(max) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// Returns a text, or its first `max` bytes and the mark ` […]` if it is longer. No character is
/// split.
///
/// ```
/// assert_eq!(loopwright_core::excerpt::bytes("étés", 4), "ét […]");
/// ```
pub fn bytes(text: &str, max: usize) -> String {
    if text.len() <= max {
        return text.to_owned();
    }
    format!("{} […]", &text[..text.floor_char_boundary(max)])
}
