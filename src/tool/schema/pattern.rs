//! An estimate of the time to compile a regular expression, from its text.

/// Size of a class of Unicode characters.
const UNICODE_CLASS: usize = 250;

/// Estimates the size of a pattern with all repetitions written out. A size of 100,000 takes about
/// 150 ms to compile.
pub(super) fn size(pattern: &str) -> usize {
    // In patterns that cannot backtrack, `\w` is only ASCII.
    let word = if backtracks(pattern) { UNICODE_CLASS } else { 1 };
    let escape = |char: Option<char>| match char {
        Some('p' | 'P') => UNICODE_CLASS,
        Some('w' | 'W' | 'b' | 'B') => word,
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
                let mut size = 1;
                while let Some(char) = chars.next_if(|char| *char != ']') {
                    size = if char == '\\' { size.max(escape(chars.next())) } else { size };
                }
                chars.next();
                group.add(size);
            }
            '\\' => group.add(escape(chars.next())),
            _ => group.add(1),
        }
    }
    groups.iter().fold(0, |sum: usize, group| sum.saturating_add(group.total))
}

/// Returns whether matching a pattern can backtrack, because it has lookarounds or backreferences.
pub(super) fn backtracks(pattern: &str) -> bool {
    let escaped = |bytes: &[u8]| bytes[0] == b'\\' && matches!(bytes[1], b'1'..=b'9' | b'k' | b'G');
    ["(?=", "(?!", "(?<=", "(?<!", "(?>", "(?(", "++", "*+", "?+", "}+"]
        .iter()
        .any(|construct| pattern.contains(construct))
        || pattern.as_bytes().windows(2).any(escaped)
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
            (r"(\w{60}){3}x", 181),
            ("((a{10}){10}){10,}", 1_000),
            (r"\{9}\(", 3 + 1),
            ("a{x}", 3),
            (r"[\]a]{3}b", 3 + 1),
            (r"^[\p{L}\p{N} -]{1,100}$", 2 + 100 * UNICODE_CLASS),
            (r"^(?!x)\w{9}$", 4 + 1 + 9 * UNICODE_CLASS),
        ] {
            assert_eq!(size(pattern), expected, "{pattern}");
        }
        assert!(size("((((a{999}){999}){999}){999}){999999}){9999999}") > 1 << 40);
        assert_eq!(size("a))"), usize::MAX);
        assert!(size(&"(".repeat(100_000)) < 10);
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
