//! What an edit makes of a text, and how one that was made before is known again.
//!
//! Line ends do not count when text is looked for: `\n` finds `\r\n`. What is put in gets the line
//! ends of the text around it; whatever is not replaced stays as it is, byte for byte.
//!
//! An edit may be made twice, when a crash came before its result was written down, and the second
//! time must change nothing. It is known by the text alone: `old` is gone, and `new` is there once
//! and says enough ([`says_enough`]); or `new` contains `old`, and each `old` in the text is part
//! of a `new`. A short `new` such as `}` is likely to be there by chance: then `old` is not found,
//! an error that changes nothing either. An edit whose result would be edited again is refused, so
//! there is none of which a repetition changes anything. A repeated deletion is not found, which is
//! an error and changes nothing.

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
    /// The text would have this many bytes after it, which is more than there may be.
    TooLarge { bytes: u64 },
    /// Once made, it could be made again at this line.
    Unstable { line: usize },
}

/// Lines that are named, of many.
const NAMED: usize = 10;
/// Characters of a line that is not there by chance.
const SIGN: usize = 8;

/// Puts `new` in the place of `old`, which is not empty and not `new`; of every one if `all`. The
/// result has at most `largest` bytes.
pub(super) fn apply(text: &str, old: &str, new: &str, all: bool, largest: u64) -> Edited {
    let (view, old, new) = (View::of(text), unix(old), unix(new));
    match judge(&view, &old, &new, all) {
        Verdict::Apply => {}
        Verdict::Other(edited) => return edited,
    }
    let bytes = size_after(&view, text, &old, &new);
    if bytes > largest {
        return Edited::TooLarge { bytes };
    }
    let (mut out, mut lines, mut done) =
        (String::with_capacity(text.len() + new.len()), Vec::new(), 0);
    let (mut line, mut counted) = (1, 0);
    let (mut crlf, new_crlf) = (view.ends_with_crlf(), new.replace('\n', "\r\n"));
    for at in memchr::memmem::find_iter(view.text.as_bytes(), old.as_bytes()) {
        out.push_str(&text[done..view.raw(at)]);
        match crlf(at) {
            true => out.push_str(&new_crlf),
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

/// How many bytes `text` has once `new` is in the place of each `old`.
fn size_after(view: &View, text: &str, old: &str, new: &str) -> u64 {
    let with_crlf = new.len() + memchr::memchr_iter(b'\n', new.as_bytes()).count();
    let places = memchr::memmem::find_iter(view.text.as_bytes(), old.as_bytes());
    let mut crlf = view.ends_with_crlf();
    places.fold(text.len() as u64, |bytes, at| {
        let came = if crlf(at) { with_crlf } else { new.len() };
        let went = view.raw(at + old.len()) - view.raw(at);
        (bytes + came as u64).saturating_sub(went as u64)
    })
}

enum Verdict {
    Apply,
    Other(Edited),
}

fn judge(view: &View, old: &str, new: &str, all: bool) -> Verdict {
    let (mut count, mut all_covered, mut first) = (0, true, Vec::new());
    let mut cover =
        Cover { starts: places(&view.text, new).peekable(), length: new.len(), last: None };
    for at in places(&view.text, old) {
        count += 1;
        all_covered = all_covered && cover.has(at, at + old.len());
        if first.len() < NAMED {
            first.push(at);
        }
    }
    if all_covered && !new.is_empty() {
        let mut made = places(&view.text, new);
        if let (Some(at), once) = (made.next(), made.next().is_none())
            && (all || once)
            && (count > 0 || says_enough(old, new) && !hint::is_elsewhere(&view.text, old, at, new))
        {
            return Verdict::Other(Edited::Already { line: view.line(at) });
        }
    }
    match count {
        0 => Verdict::Other(Edited::NotFound),
        1 => Verdict::Apply,
        _ if all => Verdict::Apply,
        _ => Verdict::Other(Edited::Ambiguous {
            count,
            lines: first.iter().map(|at| view.line(*at)).collect(),
        }),
    }
}

/// Whether `new`, found where `old` is nowhere, is a sign that the edit was made.
///
/// It is if one of its lines has eight characters or more, not counting white space at its ends, or
/// if it is `old` but for white space.
fn says_enough(old: &str, new: &str) -> bool {
    let long = |line: &str| line.trim().chars().nth(SIGN - 1).is_some();
    new.lines().any(long) || new.split_whitespace().eq(old.split_whitespace())
}

/// Where one text is in another, asked from the front to the back.
struct Cover<P: Iterator<Item = usize>> {
    starts: std::iter::Peekable<P>,
    length: usize,
    last: Option<usize>,
}

impl<P: Iterator<Item = usize>> Cover<P> {
    /// Whether these bytes are part of one of them. All are equally long, so of those that begin
    /// before it the last one reaches furthest.
    fn has(&mut self, from: usize, to: usize) -> bool {
        while let Some(start) = self.starts.next_if(|start| *start <= from) {
            self.last = Some(start);
        }
        self.last.is_some_and(|start| to <= start + self.length)
    }
}

/// Where `part` begins in `text`, also where one overlaps another; nothing is nowhere.
fn places<'a>(text: &'a str, part: &'a str) -> impl Iterator<Item = usize> + 'a {
    let (text, part) = (text.as_bytes(), part.as_bytes());
    let finder = memchr::memmem::Finder::new(part);
    // As Knuth, Morris and Pratt do: `read` bytes are, the last `fit` of them as `part` begins.
    // Where none is, the finder is faster. Looking again from each place would take the square of
    // the time where `part` repeats itself.
    let (mut borders, mut read, mut fit) = (Vec::new(), 0, 0);
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
                    borders = borders_of(part);
                }
                fit = borders[fit - 1];
                return Some(read - part.len());
            }
        }
    })
}

/// For each beginning of `part` how long the longest of its ends is that `part` begins with too,
/// itself aside.
fn borders_of(part: &[u8]) -> Vec<usize> {
    let (mut borders, mut fit) = (vec![0; part.len()], 0);
    for at in 1..part.len() {
        while fit > 0 && part[fit] != part[at] {
            fit = borders[fit - 1];
        }
        fit += usize::from(part[fit] == part[at]);
        borders[at] = fit;
    }
    borders
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
        let (mut view, mut done) =
            (View { text: String::with_capacity(text.len()), crlf: Vec::new() }, 0);
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

    /// Whether the line at a place ends with `\r\n`; the last one is as the one before it. To be
    /// asked from the front to the back: a line is looked at once.
    fn ends_with_crlf(&self) -> impl FnMut(usize) -> bool {
        let (bytes, mut known) = (self.text.as_bytes(), None);
        move |at| match known {
            Some((until, crlf)) if at <= until => crlf,
            _ => {
                let next = memchr::memchr(b'\n', &bytes[at..]).map(|n| at + n);
                let end = next.or_else(|| memchr::memrchr(b'\n', &bytes[..at]));
                let crlf = end.is_some_and(|end| self.crlf.binary_search(&end).is_ok());
                known = Some((next.unwrap_or(bytes.len()), crlf));
                crlf
            }
        }
    }

    /// The number of the line at this place.
    fn line(&self, at: usize) -> usize {
        1 + memchr::memchr_iter(b'\n', &self.text.as_bytes()[..at]).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn apply(text: &str, old: &str, new: &str, all: bool) -> Edited {
        super::apply(text, old, new, all, u64::MAX)
    }

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
        assert_eq!(
            apply("aaa", "aa", "b", false),
            Edited::Ambiguous { count: 2, lines: vec![1, 1] }
        );
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
        assert_eq!(apply("x\nnew text\n", "old text", "new text", false), already(2));
        // There by chance, for all that is known.
        assert_eq!(apply("x\nnew\n", "old", "new", false), Edited::NotFound);
        assert_eq!(
            apply("fn f() {\n    g();\n}\n", "nonexistent_fn()", "}", false),
            Edited::NotFound
        );
        assert_eq!(
            apply("fn a() {}\nfn b() {}\n", "fn a() {}", "fn a() {}\nfn b() {}", false),
            already(1)
        );
        assert_eq!(apply("ab ab", "a", "ab", true), already(1));
        // It could be any of these, so it is none.
        assert_eq!(apply("new text\nnew text\n", "old", "new text", false), Edited::NotFound);
        // What is meant is still there, with other white space.
        assert_eq!(apply("if  x {\n}\ny\n", "if x {\n}", "y", false), Edited::NotFound);
        // The new text differs from the old one in white space only.
        assert_eq!(apply("    x();\n", "  x();", "    x();", false), already(1));
        assert_eq!(apply("\tx();\n", "  x();", "\tx();", false), already(1));
        assert_eq!(apply("gone\n", "deleted\n", "", false), Edited::NotFound);
    }

    #[test]
    fn the_size_after_it_is_known_before() {
        for (text, new, bytes) in
            [("a\na", "b\nb", 7), ("a\r\na", "b\nb", 10), ("ab\r\n\nab\n", "c\n", 11)]
        {
            let edit = |largest| super::apply(text, "a", new, true, largest);
            assert_eq!(edit(bytes - 1), Edited::TooLarge { bytes }, "{text:?}");
            assert!(
                matches!(edit(bytes), Edited::Changed { text, .. } if text.len() as u64 == bytes),
                "{text:?}"
            );
        }
    }

    #[test]
    fn places_overlap_and_are_all_there() {
        for (text, part) in [
            ("aabaabaabaa", "aabaa"),
            ("aaaa", "aa"),
            ("abcab", "ab"),
            ("ababcababab", "abab"),
            ("", "a"),
        ] {
            let each = (0..text.len()).filter(|at| text[*at..].starts_with(part));
            assert!(places(text, part).eq(each), "{text} {part}");
        }
    }

    /// Each of these took the square of the time or more.
    #[test]
    fn what_repeats_itself_takes_no_longer() {
        let start = std::time::Instant::now();
        let many = "a".repeat(300_000);
        let wide = format!("{many}b");
        let largest = crate::text::WHOLE;
        let edit = super::apply(&format!("{wide}{many}"), "a", &wide, true, largest);
        assert!(matches!(edit, Edited::TooLarge { .. }), "{edit:?}");
        assert_eq!(
            super::apply(&many, "a", &many[..150_000], true, largest),
            Edited::Already { line: 1 }
        );
        let one_line = super::apply(&format!("\r\n{many}"), "a", "b", true, largest);
        assert!(matches!(one_line, Edited::Changed { .. }));
        assert!(start.elapsed().as_secs() < 20, "{:?}", start.elapsed());
    }

    /// Whatever small texts are edited: the second time changes nothing, and nobody is told that it
    /// did.
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
                for new in ["", "b", "a", "ab", "a\nb", "ba", " a", "a long line", " ab\nlong line"]
                {
                    for all in [false, true] {
                        if unix(&old) == new {
                            continue;
                        }
                        let Edited::Changed { text: once, .. } = apply(&text, &old, new, all)
                        else {
                            continue;
                        };
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
        assert!(edits > 20_000 && known > edits / 4, "{known} of {edits}");
    }
}
