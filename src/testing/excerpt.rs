//! Short excerpts of texts, for differences.

/// The maximum length of an excerpt, in bytes.
const MAX_EXCERPT_BYTES: usize = 200;

/// How much of what two texts have in common their excerpts contain, in bytes.
const COMMON_BYTES: usize = 60;

/// Returns an excerpt of each of two texts that contains the first position at which they differ.
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
