//! [`occurrences`]: all occurrences of one text in another, in linear time.

use memchr::memmem::Finder;

/// Returns the positions of `part` in `text`, including overlapping ones. An empty `part` has none.
pub(super) fn occurrences<'a>(text: &'a str, part: &'a str) -> impl Iterator<Item = usize> + 'a {
    let text = text.as_bytes();
    let part = part.as_bytes();
    let finder = Finder::new(part);
    // The algorithm of Knuth, Morris and Pratt: `read` bytes have been read, and the last `fit` of
    // them are the start of `part`. While `fit` is 0 the finder is faster. Searching from each
    // position would take quadratic time if `part` repeats itself.
    let mut borders = Vec::new();
    let mut read = 0;
    let mut fit = 0;
    std::iter::from_fn(move || {
        loop {
            if part.is_empty() {
                return None;
            }
            if fit == 0 {
                read += finder.find(text.get(read..)?)? + part.len();
                fit = part.len();
            } else {
                while fit > 0 && part[fit] != *text.get(read)? {
                    fit = borders[fit - 1];
                }
                fit += usize::from(part[fit] == text[read]);
                read += 1;
            }
            if fit == part.len() {
                if borders.is_empty() {
                    borders = border_lengths(part);
                }
                fit = borders[fit - 1];
                return Some(read - part.len());
            }
        }
    })
}

/// Returns, for each prefix of `part`, the length of its longest proper suffix that is also a
/// prefix of `part`.
fn border_lengths(part: &[u8]) -> Vec<usize> {
    let mut borders = vec![0; part.len()];
    let mut fit = 0;
    for at in 1..part.len() {
        while fit > 0 && part[fit] != part[at] {
            fit = borders[fit - 1];
        }
        fit += usize::from(part[fit] == part[at]);
        borders[at] = fit;
    }
    borders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlapping_occurrences_are_all_found() {
        for (text, part) in [
            ("aabaabaabaa", "aabaa"),
            ("aaaa", "aa"),
            ("abcab", "ab"),
            ("ababcababab", "abab"),
            ("", "a"),
        ] {
            let each = (0..text.len()).filter(|at| text[*at..].starts_with(part));
            assert!(occurrences(text, part).eq(each), "{text} {part}");
        }
    }
}
