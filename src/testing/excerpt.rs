//! Short excerpts of differing texts.

/// Maximum length of an excerpt, in bytes.
const MAX_EXCERPT_BYTES: usize = 200;

/// Length of the common text before the difference in an excerpt, in bytes.
const COMMON_BYTES: usize = 60;

/// Returns an excerpt of each of two texts, around the first difference.
pub(super) fn excerpts(a: &str, b: &str) -> (String, String) {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let fits = same < MAX_EXCERPT_BYTES - COMMON_BYTES;
    let from = if fits { 0 } else { same - COMMON_BYTES };
    (excerpt(a, from), excerpt(b, from))
}

/// Returns an excerpt that begins at the byte `from`.
pub(super) fn excerpt(text: &str, from: usize) -> String {
    let from = text.floor_char_boundary(from);
    let to = text.floor_char_boundary(from + MAX_EXCERPT_BYTES);
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
    format!("{before}{}{after}", &text[from..to])
}
