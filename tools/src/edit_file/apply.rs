//! What an edit makes of a text, and how one that was made before is known again.
//!
//! Line ends do not count when text is looked for: `\n` finds `\r\n`. What is put in gets the line ends of
//! the text around it; whatever is not replaced stays as it is, byte for byte.
//!
//! An edit may be made twice, when a crash came before its result was written down, and the second time must
//! change nothing. It is known by the text alone: `old` is gone, and `new` is there once; or `new` contains
//! `old`, and each `old` in the text is part of a `new`. An edit whose result would be edited again is refused,
//! so there is none of which a repetition changes anything. A repeated deletion is not found, which is an error
//! and changes nothing.

use super::hint;

/// What comes of an edit.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Edited {
    /// The text after it, and the lines (from 1) at which something was replaced.
    Changed { text: String, lines: Vec<usize> },
    /// It was made before: `new` is at this line.
    Already { line: usize },
    /// There is no such text.
    NotFound,
    /// There is more than one, at these lines, the first ones of them.
    Ambiguous { count: usize, lines: Vec<usize> },
    /// Once made, it could be made again at this line.
    Unstable { line: usize },
}

/// Lines that are named, of many.
const NAMED: usize = 10;

/// Puts `new` in the place of `old`, which is not empty and not `new`; of every one if `all`.
pub(super) fn apply(text: &str, old: &str, new: &str, all: bool) -> Edited {
    let (view, old, new) = (View::of(text), unix(old), unix(new));
    match judge(&view, &old, &new, all) {
        Verdict::Apply => {}
        Verdict::Other(edited) => return edited,
    }
    let (mut out, mut lines, mut done) = (String::with_capacity(text.len() + new.len()), Vec::new(), 0);
    let (mut line, mut counted) = (1, 0);
    for at in memchr::memmem::find_iter(view.text.as_bytes(), old.as_bytes()) {
        out.push_str(&text[done..view.raw(at)]);
        match view.ends_with_crlf(at) {
            true => out.push_str(&new.replace('\n', "\r\n")),
            false => out.push_str(&new),
        }
        done = view.raw(at + old.len());
        line += memchr::memchr_iter(b'\n', &view.text.as_bytes()[counted..at]).count();
        counted = at;
        lines.push(line);
    }
    out.push_str(&text[done..]);
    let again = View::of(&out);
    match judge(&again, &old, &new, all) {
        Verdict::Apply => Edited::Unstable { line: again.line(again.text.find(&old).unwrap_or(0)) },
        Verdict::Other(_) => Edited::Changed { text: out, lines },
    }
}

enum Verdict {
    Apply,
    Other(Edited),
}

fn judge(view: &View, old: &str, new: &str, all: bool) -> Verdict {
    let inside: Vec<usize> = places(new, old).collect();
    // Whether this `old` is part of a `new`.
    let covered = |at: usize| {
        let starts = inside.iter().filter_map(|within| at.checked_sub(*within));
        starts.into_iter().any(|start| view.text.as_bytes()[start..].starts_with(new.as_bytes()))
    };
    let (mut count, mut all_covered, mut first) = (0, true, Vec::new());
    for at in places(&view.text, old) {
        count += 1;
        all_covered = all_covered && covered(at);
        if first.len() < NAMED {
            first.push(at);
        }
    }
    if all_covered && !new.is_empty() {
        let mut made = places(&view.text, new);
        if let (Some(at), once) = (made.next(), made.next().is_none())
            && (all || once)
            && (count > 0 || !hint::is_elsewhere(&view.text, old, at, new))
        {
            return Verdict::Other(Edited::Already { line: view.line(at) });
        }
    }
    match count {
        0 => Verdict::Other(Edited::NotFound),
        1 => Verdict::Apply,
        _ if all => Verdict::Apply,
        _ => Verdict::Other(Edited::Ambiguous { count, lines: first.iter().map(|at| view.line(*at)).collect() }),
    }
}

/// Where `part` begins in `text`, also where one overlaps another.
fn places<'a>(text: &'a str, part: &'a str) -> impl Iterator<Item = usize> + 'a {
    let (finder, mut from) = (memchr::memmem::Finder::new(part.as_bytes()), 0);
    std::iter::from_fn(move || {
        let at = from + finder.find(text.as_bytes().get(from..)?)?;
        from = at + 1;
        Some(at)
    })
}

/// A text with `\n` for its line ends.
pub(super) fn unix(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n")
}

/// A text as it is looked at, and where each place of it is in the text as it is.
struct View {
    text: String,
    /// The places of those `\n` that have a `\r` before them.
    crlf: Vec<usize>,
}

impl View {
    fn of(text: &str) -> Self {
        let (mut view, mut done) = (View { text: String::with_capacity(text.len()), crlf: Vec::new() }, 0);
        for at in memchr::memmem::find_iter(text.as_bytes(), b"\r\n") {
            view.text.push_str(&text[done..at]);
            view.crlf.push(view.text.len());
            done = at + 1;
        }
        view.text.push_str(&text[done..]);
        view
    }

    /// The same place in the text as it is: of a line end, where all of it begins.
    fn raw(&self, at: usize) -> usize {
        at + self.crlf.partition_point(|end| *end < at)
    }

    /// Whether the line at this place ends with `\r\n`; the last one is as the one before it.
    fn ends_with_crlf(&self, at: usize) -> bool {
        let bytes = self.text.as_bytes();
        let next = memchr::memchr(b'\n', &bytes[at..]).map(|n| at + n);
        let end = next.or_else(|| memchr::memrchr(b'\n', &bytes[..at]));
        end.is_some_and(|end| self.crlf.binary_search(&end).is_ok())
    }

    /// The number of the line at this place.
    fn line(&self, at: usize) -> usize {
        1 + memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at]).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(text: &str, old: &str, new: &str) -> String {
        match apply(text, old, new, false) {
            Edited::Changed { text, .. } => text,
            other => panic!("{text:?} {old:?} {new:?}: {other:?}"),
        }
    }

    #[test]
    fn line_ends_are_found_either_way_and_kept() {
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
    fn exactly_one_is_wanted_unless_all_are() {
        let ambiguous = Edited::Ambiguous { count: 3, lines: vec![1, 2, 2] };
        assert_eq!(apply("a\na a\n", "a", "b", false), ambiguous);
        assert_eq!(apply("aaa", "aa", "b", false), Edited::Ambiguous { count: 2, lines: vec![1, 1] });
        let all = Edited::Changed { text: "b\nb b\n".into(), lines: vec![1, 2, 2] };
        assert_eq!(apply("a\na a\n", "a", "b", true), all);
        assert_eq!(apply("a\n", "x", "b", true), Edited::NotFound);
    }

    #[test]
    fn what_would_be_edited_again_is_refused() {
        assert_eq!(apply("x\naab\n", "ab", "b", false), Edited::Unstable { line: 2 });
        assert_eq!(apply("a    b", "  ", " ", true), Edited::Unstable { line: 1 });
        assert_eq!(changed("a  b", "  ", " "), "a b");
    }

    #[test]
    fn an_edit_that_was_made_is_known_again() {
        let already = |line| Edited::Already { line };
        assert_eq!(apply("x\nnew\n", "old", "new", false), already(2));
        assert_eq!(apply("fn a() {}\nfn b() {}\n", "fn a() {}", "fn a() {}\nfn b() {}", false), already(1));
        assert_eq!(apply("ab ab", "a", "ab", true), already(1));
        // It could be any of these, so it is none.
        assert_eq!(apply("new\nnew\n", "old", "new", false), Edited::NotFound);
        // What is meant is still there, with other white space.
        assert_eq!(apply("if  x {\n}\ny\n", "if x {\n}", "y", false), Edited::NotFound);
        // The new text differs from the old one in white space only.
        assert_eq!(apply("    x();\n", "  x();", "    x();", false), already(1));
        assert_eq!(apply("\tx();\n", "  x();", "\tx();", false), already(1));
        assert_eq!(apply("gone\n", "deleted\n", "", false), Edited::NotFound);
    }

    /// Whatever small texts are edited: the second time changes nothing, and nobody is told that it did.
    #[test]
    fn a_second_time_changes_nothing() {
        let alphabet = ["a", "b", " ", "\n", "\r\n", "ab"];
        let word = |mut n: usize, length: usize| -> String {
            let letters = (0..length).map(|_| {
                let letter = alphabet[n % alphabet.len()];
                n /= alphabet.len();
                letter
            });
            letters.collect()
        };
        let (mut edits, mut known) = (0, 0);
        for text in (0..6usize.pow(4)).map(|n| word(n, 4)) {
            for old in (0..42).map(|n| if n < 36 { word(n, 2) } else { word(n - 36, 1) }) {
                for new in ["", "b", "a", "ab", "a\nb", "ba", " a"] {
                    for all in [false, true] {
                        if unix(&old) == new {
                            continue;
                        }
                        let Edited::Changed { text: once, .. } = apply(&text, &old, new, all) else { continue };
                        edits += 1;
                        match apply(&once, &old, new, all) {
                            Edited::Changed { text: twice, .. } => {
                                panic!("{text:?} {old:?} {new:?}: {once:?} {twice:?}")
                            }
                            Edited::Already { .. } => known += 1,
                            _ => {}
                        }
                    }
                }
            }
        }
        assert!(edits > 20_000 && known > edits / 3, "{known} of {edits}");
    }
}
