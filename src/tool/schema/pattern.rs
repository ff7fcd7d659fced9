//! The patterns of schemas, and estimates of the time to compile one and to match with it.

use fancy_regex::{Regex, RegexBuilder};
use jsonschema_regex::{is_valid_ecma_regex, to_rust_regex};

use crate::excerpt;

/// Maximum number of backtracks of a match.
const MAX_BACKTRACKS: usize = 1_000;
/// Maximum memory of a matcher's cache, in bytes.
const MAX_CACHE: usize = 200_000;
/// Maximum length of a pattern in an error, in characters.
const MAX_SHOWN_CHARS: usize = 200;
/// Size of a class of Unicode characters.
const UNICODE_CLASS: usize = 250;
/// Size of a class of most characters, as UTF-8.
const WIDE_CLASS: usize = 15;
/// Size of a class whose upper and lower case are the same: each character is looked up.
const FOLDED_CLASS: usize = 5_000;
/// Size of compiling the smallest pattern.
const SMALLEST: usize = 100;
/// Characters that the translation reads again for each escape, in the time of a size of one.
const TRANSLATED_CHARS: usize = 5;

/// A regular expression of ECMA-262, which a part of a text must match.
pub(super) struct Pattern {
    text: String,
    size: usize,
    backtracks: bool,
    /// `None` until it is compiled.
    regex: Option<Regex>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Pattern {
        Pattern { text: text.into(), size: size(text), backtracks: backtracks(text), regex: None }
    }

    /// Estimates the time to compile the pattern. A size of 100,000 takes about 150 ms.
    pub(super) fn compile_size(&self) -> usize {
        self.size.saturating_add(SMALLEST)
    }

    /// Compiles the pattern, whose [`compile_size`](Pattern::compile_size) must be bounded.
    pub(super) fn compile(&mut self) -> Result<(), String> {
        let text = &self.text;
        let mistake = || {
            let shown = excerpt::chars(text, MAX_SHOWN_CHARS);
            format!("{shown:?} is not a regular expression of ECMA-262, or is too large")
        };
        // What can backtrack is not translated, and the matcher knows constructs without bounds.
        if (self.backtracks && !is_valid_ecma_regex(text)) || has_flag(text, 'x') {
            return Err(mistake());
        }
        let translated = to_rust_regex(text).map_err(|()| mistake())?;
        let mut builder = RegexBuilder::new(&translated);
        builder.backtrack_limit(MAX_BACKTRACKS).delegate_dfa_size_limit(MAX_CACHE);
        self.regex = Some(builder.build().map_err(|_| mistake())?);
        Ok(())
    }

    /// Returns the steps of a match in a text of so many bytes.
    pub(super) fn steps(&self, bytes: usize) -> usize {
        let scanned = bytes.saturating_mul(1 + self.size) / 256;
        match self.backtracks {
            // Each backtrack can scan the text, and so can each position in it.
            true => scanned + 100 + bytes.saturating_mul(50 + bytes / 160),
            false => 1 + bytes / 64 + scanned,
        }
    }

    /// Returns whether a part of a text matches, or `None` if finding that out takes too long.
    pub(super) fn matches(&self, text: &str) -> Option<bool> {
        self.regex.as_ref()?.is_match(text).ok()
    }

    pub(super) fn as_str(&self) -> &str {
        &self.text
    }
}

/// Estimates the size of a pattern with all repetitions written out.
fn size(pattern: &str) -> usize {
    // In patterns that cannot backtrack, `\w` is only ASCII.
    let word = if backtracks(pattern) { UNICODE_CLASS } else { 1 };
    let folded = if has_flag(pattern, 'i') { FOLDED_CLASS } else { 0 };
    let mut escapes: usize = 0;
    let mut escape = |char: Option<char>| match char {
        Some('p' | 'P') => UNICODE_CLASS + folded,
        Some('w' | 'W' | 'b' | 'B') => {
            escapes += 1;
            word + folded
        }
        Some('S' | 's' | 'D') => {
            escapes += 1;
            WIDE_CLASS + folded
        }
        Some('d' | 'c') => {
            escapes += 1;
            1
        }
        _ => 1,
    };
    let mut groups = vec![Group::default()];
    let mut chars = pattern.chars().peekable();
    while let Some(char) = chars.next() {
        let Some(group) = groups.last_mut() else {
            return usize::MAX; // more groups end than begin: it does not compile
        };
        match char {
            '(' => groups.push(Group::default()),
            ')' => {
                let size = group.total;
                groups.pop();
                if let Some(outer) = groups.last_mut() {
                    outer.add(size);
                }
            }
            '{' => {
                let mut bounds = String::new();
                while let Some(char) = chars.next_if(|char| char.is_ascii_digit() || *char == ',') {
                    bounds.push(char);
                }
                chars.next_if_eq(&'}');
                let times = bounds.split(',').filter_map(|bound| bound.parse().ok()).max();
                group.repeat(times.unwrap_or(1));
            }
            '[' => {
                let mut size = 1 + folded;
                if chars.next_if_eq(&'^').is_some() {
                    size += WIDE_CLASS;
                }
                while let Some(char) = chars.next_if(|char| *char != ']') {
                    size += match char {
                        '\\' => escape(chars.next()),
                        char if char.is_ascii() => 0,
                        _ => 3,
                    };
                }
                chars.next();
                group.add(size);
            }
            '\\' => group.add(escape(chars.next())),
            '.' => group.add(WIDE_CLASS),
            _ => group.add(1),
        }
    }
    let sum = groups.iter().fold(0, |sum: usize, group| sum.saturating_add(group.total));
    let translation = escapes.saturating_mul(pattern.len()) / TRANSLATED_CHARS;
    sum.saturating_add(translation).max(pattern.len())
}

/// Returns whether matching a pattern can backtrack, because it has lookarounds or backreferences.
fn backtracks(pattern: &str) -> bool {
    let escaped = |bytes: &[u8]| bytes[0] == b'\\' && matches!(bytes[1], b'0'..=b'9' | b'k' | b'G');
    ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "++", "*+", "?+", "}+"]
        .iter()
        .any(|construct| pattern.contains(construct))
        || pattern.as_bytes().windows(2).any(escaped)
}

/// Returns whether a flag is set anywhere in a pattern, such as `i` in `(?i)` or `(?s-i:…)`.
fn has_flag(pattern: &str, flag: char) -> bool {
    pattern.split("(?").skip(1).any(|rest| {
        let flags = rest.split(|char: char| !char.is_ascii_alphabetic() && char != '-').next();
        flags.is_some_and(|flags| flags.contains(flag))
    })
}

/// A group of a pattern, or one of its alternatives.
#[derive(Default)]
struct Group {
    total: usize,
    last: usize,
}

impl Group {
    fn add(&mut self, size: usize) {
        self.total = self.total.saturating_add(size);
        self.last = size;
    }

    /// Repeats the last part.
    fn repeat(&mut self, times: usize) {
        let repeated = self.last.saturating_mul(times);
        self.total = (self.total - self.last).saturating_add(repeated);
        self.last = repeated;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repetitions_are_written_out() {
        for (pattern, expected) in [
            ("", 0),
            ("abc", 3),
            ("^[a-z_]{1,64}$", 2 + 64),
            (r"(\w{60}){3}x", 181 + 12 / TRANSLATED_CHARS),
            ("[^a]{100}", 100 * (1 + WIDE_CLASS)),
            (&r"\d".repeat(1_000), 1_000 + 1_000 * 2_000 / TRANSLATED_CHARS),
            ("(?i:[a])", 3 + FOLDED_CLASS + 1),
            ("[äöü]{9}", 9 * (1 + 3 * 3)),
            ("((a{10}){10}){10,}", 1_000),
            (r"\{9}\(", 6),
            ("a{x}", 4),
            (r"[\]a]{3}b", 9),
            (r"^[\p{L}\p{N} -]{1,100}$", 2 + 100 * (1 + 2 * UNICODE_CLASS)),
            (r"^(?!x)\w{9}$", 4 + 1 + 9 * UNICODE_CLASS + 12 / TRANSLATED_CHARS),
        ] {
            assert_eq!(size(pattern), expected, "{pattern}");
        }
        assert!(size("((((a{999}){999}){999}){999}){999999}){9999999}") > 1 << 40);
        assert_eq!(size("a))"), usize::MAX);
        assert_eq!(size(&"(".repeat(100_000)), 100_000);
    }

    #[test]
    fn what_looks_around_or_back_can_backtrack() {
        for pattern in ["(?!a)b", "^(?=.*a)", r"(a)\1", "(?<!x)y", "a++"] {
            assert!(backtracks(pattern), "{pattern}");
        }
        for pattern in ["", r"^(\w+\s?)*$", r"\d{3}", "(?:a|b)", "(?i)x", "(?<name>x)"] {
            assert!(!backtracks(pattern), "{pattern}");
        }
    }
}
