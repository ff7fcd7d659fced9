//! [`apply`]: computes an edit, and recognises an edit that was already made.
//!
//! Searching ignores line ends: `\n` matches `\r\n`. Inserted text gets the line ends of the text
//! around it. All other text stays unchanged, byte for byte.
//!
//! A call may be repeated if a crash came before its result was logged, and the repetition must
//! change nothing. It is recognised by the text alone: `old` does not occur, and `new` occurs once
//! and is [distinctive](is_distinctive); or `new` contains `old`, and each `old` in the text is
//! part of a `new`. A short `new` such as `}` is likely to occur anyway. Then `old` is reported as
//! not found, which changes nothing either. The same happens to a repeated deletion. An edit whose
//! result could be edited again is refused, so no repetition changes anything.

use memchr::{memchr_iter, memmem};

use super::hint;
use super::occurrences::occurrences;
use super::view::{View, normalized};

/// The result of an edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The text after the edit, and the lines (from 1) in which text was replaced.
    Changed { text: String, lines: Vec<usize> },
    /// The edit was already made: `new` is at this line.
    AlreadyApplied { line: usize },
    /// `old` does not occur.
    NotFound,
    /// `old` occurs more than once. Contains the lines of the first occurrences.
    Ambiguous { count: usize, lines: Vec<usize> },
    /// The text would have this many bytes after the edit, more than allowed.
    TooLarge { bytes: u64 },
    /// After the edit, `old` would occur at this line.
    Unstable { line: usize },
}

/// The maximum number of listed lines of ambiguous occurrences.
const MAX_LISTED_LINES: usize = 10;
/// The length of a line, in characters, that is unlikely to occur by coincidence.
const DISTINCTIVE_CHARS: usize = 8;

/// Replaces `old` by `new`: every occurrence if `all`, else exactly one. `old` must be neither
/// empty nor equal to `new`. The result has at most `max_bytes` bytes.
pub(super) fn apply(text: &str, old: &str, new: &str, all: bool, max_bytes: u64) -> Edited {
    let view = View::of(text);
    let old = normalized(old);
    let new = normalized(new);
    if let Some(edited) = refusal(&view, &old, &new, all) {
        return edited;
    }
    let bytes = size_after(&view, text, &old, &new);
    if bytes > max_bytes {
        return Edited::TooLarge { bytes };
    }
    let mut out = String::with_capacity(text.len() + new.len());
    let mut lines = Vec::new();
    let mut done = 0;
    let mut line = 1;
    let mut counted = 0;
    let mut is_crlf = view.crlf_lookup();
    let new_crlf = new.replace('\n', "\r\n");
    for at in memmem::find_iter(view.text.as_bytes(), old.as_bytes()) {
        out.push_str(&text[done..view.original(at)]);
        match is_crlf(at) {
            true => out.push_str(&new_crlf),
            false => out.push_str(&new),
        }
        done = view.original(at + old.len());
        line += memchr_iter(b'\n', &view.text.as_bytes()[counted..at]).count();
        counted = at;
        lines.push(line);
    }
    out.push_str(&text[done..]);
    let after = View::of(&out);
    match refusal(&after, &old, &new, all) {
        None => Edited::Unstable { line: after.line(after.text.find(&old).unwrap_or(0)) },
        Some(_) => Edited::Changed { text: out, lines },
    }
}

/// Computes the size of `text` in bytes after replacing each `old` by `new`.
fn size_after(view: &View, text: &str, old: &str, new: &str) -> u64 {
    let new_crlf_len = new.len() + memchr_iter(b'\n', new.as_bytes()).count();
    let replaced = memmem::find_iter(view.text.as_bytes(), old.as_bytes());
    let mut is_crlf = view.crlf_lookup();
    replaced.fold(text.len() as u64, |bytes, at| {
        let added = if is_crlf(at) { new_crlf_len } else { new.len() };
        let removed = view.original(at + old.len()) - view.original(at);
        (bytes + added as u64).saturating_sub(removed as u64)
    })
}

/// Returns why the edit must not be made, or `None` if it may be.
fn refusal(view: &View, old: &str, new: &str, all: bool) -> Option<Edited> {
    let mut count = 0;
    let mut all_covered = true;
    let mut first = Vec::new();
    let starts = occurrences(&view.text, new).peekable();
    let mut coverage = Coverage { starts, length: new.len(), last: None };
    for at in occurrences(&view.text, old) {
        count += 1;
        all_covered = all_covered && coverage.contains(at, at + old.len());
        if first.len() < MAX_LISTED_LINES {
            first.push(at);
        }
    }
    if all_covered && !new.is_empty() {
        let mut applied = occurrences(&view.text, new);
        if let (Some(at), once) = (applied.next(), applied.next().is_none())
            && (all || once)
            && (count > 0
                || is_distinctive(old, new) && !hint::similar_outside(&view.text, old, at, new))
        {
            return Some(Edited::AlreadyApplied { line: view.line(at) });
        }
    }
    match count {
        0 => Some(Edited::NotFound),
        1 => None,
        _ if all => None,
        _ => {
            let lines = first.iter().map(|at| view.line(*at)).collect();
            Some(Edited::Ambiguous { count, lines })
        }
    }
}

/// Returns whether `new`, in a text without `old`, is evidence that the edit was made.
///
/// It is if one of its lines has at least eight characters, without white space at the ends, or if
/// it only differs from `old` in white space.
fn is_distinctive(old: &str, new: &str) -> bool {
    let long = |line: &str| line.trim().chars().nth(DISTINCTIVE_CHARS - 1).is_some();
    new.lines().any(long) || new.split_whitespace().eq(old.split_whitespace())
}

/// The ranges of all occurrences of a text in another one, queried from front to back.
struct Coverage<P: Iterator<Item = usize>> {
    starts: std::iter::Peekable<P>,
    length: usize,
    last: Option<usize>,
}

impl<P: Iterator<Item = usize>> Coverage<P> {
    /// Returns whether one of the ranges contains these bytes. All ranges have the same length, so
    /// the last range that starts before the bytes reaches furthest.
    fn contains(&mut self, from: usize, to: usize) -> bool {
        while let Some(start) = self.starts.next_if(|start| *start <= from) {
            self.last = Some(start);
        }
        self.last.is_some_and(|start| to <= start + self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::MAX_FILE_BYTES;

    fn edit(text: &str, old: &str, new: &str, all: bool) -> Edited {
        apply(text, old, new, all, u64::MAX)
    }

    fn changed(text: &str, old: &str, new: &str) -> String {
        match edit(text, old, new, false) {
            Edited::Changed { text, .. } => text,
            other => panic!("{text:?} {old:?} {new:?}: {other:?}"),
        }
    }

    #[test]
    fn line_ends_match_either_way_and_are_preserved() {
        let table = [
            ("a\r\nb\r\nc\r\n", "a\nb", "x\ny\nz", "x\r\ny\r\nz\r\nc\r\n"),
            ("a\r\nb\r\nc\r\n", "a\r\nb", "x\r\ny", "x\r\ny\r\nc\r\n"),
            ("a\r\nb\r\n", "b", "b\nc", "a\r\nb\r\nc\r\n"),
            ("a\r\nb", "b", "x\ny", "a\r\nx\r\ny"),
            ("a\r\nb\r\n", "\nb", "\nx", "a\r\nx\r\n"),
            ("a\r\nb\r\n", "a\n", "", "b\r\n"),
            ("a\nb\n", "a\r\nb", "x\r\ny", "x\ny\n"),
            ("a\nb\r\nc\n", "b", "x\ny", "a\nx\r\ny\r\nc\n"),
            ("a\nb\r\nc\n", "c", "x\ny", "a\nb\r\nx\ny\n"),
            ("lone\rcr\r\n", "cr", "x", "lone\rx\r\n"),
            ("ü\r\né\r\n", "é", "è\nà", "ü\r\nè\r\nà\r\n"),
        ];
        for (text, old, new, wanted) in table {
            assert_eq!(changed(text, old, new), wanted, "{text:?} {old:?}");
        }
    }

    #[test]
    fn exactly_one_occurrence_is_required_unless_all_are_replaced() {
        let ambiguous = Edited::Ambiguous { count: 3, lines: vec![1, 2, 2] };
        assert_eq!(edit("a\na a\n", "a", "b", false), ambiguous);
        assert_eq!(
            edit("aaa", "aa", "b", false),
            Edited::Ambiguous { count: 2, lines: vec![1, 1] }
        );
        let all = Edited::Changed { text: "b\nb b\n".into(), lines: vec![1, 2, 2] };
        assert_eq!(edit("a\na a\n", "a", "b", true), all);
        assert_eq!(edit("a\n", "x", "b", true), Edited::NotFound);
    }

    #[test]
    fn an_edit_that_could_be_repeated_is_refused() {
        assert_eq!(edit("x\naab\n", "ab", "b", false), Edited::Unstable { line: 2 });
        assert_eq!(edit("a    b", "  ", " ", true), Edited::Unstable { line: 1 });
        assert_eq!(changed("a  b", "  ", " "), "a b");
    }

    #[test]
    fn an_edit_that_was_already_made_is_recognised() {
        let already = |line| Edited::AlreadyApplied { line };
        assert_eq!(edit("x\nnew text\n", "old text", "new text", false), already(2));
        // Too short to be evidence.
        assert_eq!(edit("x\nnew\n", "old", "new", false), Edited::NotFound);
        assert_eq!(
            edit("fn f() {\n    g();\n}\n", "nonexistent_fn()", "}", false),
            Edited::NotFound
        );
        assert_eq!(
            edit("fn a() {}\nfn b() {}\n", "fn a() {}", "fn a() {}\nfn b() {}", false),
            already(1)
        );
        assert_eq!(edit("ab ab", "a", "ab", true), already(1));
        // Ambiguous, so it is not recognised.
        assert_eq!(edit("new text\nnew text\n", "old", "new text", false), Edited::NotFound);
        // The old text still occurs, with other white space.
        assert_eq!(edit("if  x {\n}\ny\n", "if x {\n}", "y", false), Edited::NotFound);
        // The new text only differs from the old one in white space.
        assert_eq!(edit("    x();\n", "  x();", "    x();", false), already(1));
        assert_eq!(edit("\tx();\n", "  x();", "\tx();", false), already(1));
        assert_eq!(edit("gone\n", "deleted\n", "", false), Edited::NotFound);
    }

    #[test]
    fn the_size_after_an_edit_is_computed_in_advance() {
        for (text, new, bytes) in
            [("a\na", "b\nb", 7), ("a\r\na", "b\nb", 10), ("ab\r\n\nab\n", "c\n", 11)]
        {
            let replace = |max_bytes| apply(text, "a", new, true, max_bytes);
            assert_eq!(replace(bytes - 1), Edited::TooLarge { bytes }, "{text:?}");
            let Edited::Changed { text: edited, .. } = replace(bytes) else { panic!("{text:?}") };
            assert_eq!(edited.len() as u64, bytes, "{text:?}");
        }
    }

    /// Naive algorithms take at least quadratic time for these texts.
    #[test]
    fn repetitive_text_takes_linear_time() {
        let start = std::time::Instant::now();
        let many = "a".repeat(300_000);
        let wide = format!("{many}b");
        let max_bytes = MAX_FILE_BYTES;
        let large = apply(&format!("{wide}{many}"), "a", &wide, true, max_bytes);
        assert!(matches!(large, Edited::TooLarge { .. }), "{large:?}");
        assert_eq!(
            apply(&many, "a", &many[..150_000], true, max_bytes),
            Edited::AlreadyApplied { line: 1 }
        );
        let one_line = apply(&format!("\r\n{many}"), "a", "b", true, max_bytes);
        assert!(matches!(one_line, Edited::Changed { .. }));
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }

    /// For all small texts, the second call changes nothing, and is never reported as a change.
    #[test]
    fn a_second_call_changes_nothing() {
        let alphabet = ["a", "b", " ", "\n", "\r\n", "ab"];
        let word = |mut n: usize, length: usize| -> String {
            let letters = (0..length).map(|_| {
                let letter = alphabet[n % alphabet.len()];
                n /= alphabet.len();
                letter
            });
            letters.collect()
        };
        let mut edits = 0;
        let mut known = 0;
        for text in (0..6usize.pow(4)).map(|n| word(n, 4)) {
            for old in (0..42).map(|n| if n < 36 { word(n, 2) } else { word(n - 36, 1) }) {
                for new in ["", "b", "a", "ab", "a\nb", "ba", " a", "a long line", " ab\nlong line"]
                {
                    for all in [false, true] {
                        if normalized(&old) == new {
                            continue;
                        }
                        let Edited::Changed { text: once, .. } = edit(&text, &old, new, all) else {
                            continue;
                        };
                        edits += 1;
                        match edit(&once, &old, new, all) {
                            Edited::Changed { text: twice, .. } => {
                                panic!("{text:?} {old:?} {new:?}: {once:?} {twice:?}")
                            }
                            Edited::AlreadyApplied { .. } => known += 1,
                            _ => {}
                        }
                    }
                }
            }
        }
        assert!(edits > 20_000 && known > edits / 4, "{known} of {edits}");
    }
}
