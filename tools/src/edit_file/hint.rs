//! [`hint`]: similar text for a text that was not found, so that a model can correct its edit.

use super::view::normalized;

/// The maximum length of a quoted line, in characters.
const MAX_QUOTED_CHARS: usize = 120;

/// Returns a hint about text that is similar to `old`, if `text` contains any.
pub(super) fn hint(text: &str, old: &str) -> Option<String> {
    let text = normalized(text);
    let old = normalized(old);
    if let Some(plain) = without_numbers(&old).filter(|plain| text.contains(plain.as_str())) {
        let line = line_of(&text, text.find(&plain)?);
        return Some(format!(
            "it occurs at line {line} without the line numbers that read_file adds"
        ));
    }
    if old.contains("\\n") && text.contains(&old.replace("\\n", "\n")) {
        return Some("it occurs with line ends where old_string has a backslash and an n".into());
    }
    if let Some((first, line, wanted)) =
        similar(&text, &old, |_| true).first_difference(&text, &old)
    {
        return Some(format!(
            "the same text with other white space starts at line {first}. The file has `{}` at \
             line {line}, old_string has `{}`",
            quoted(&line_at(&text, line)),
            quoted(wanted)
        ));
    }
    let lower = text.to_lowercase();
    if let Some(at) = lower.find(&old.to_lowercase()) {
        return Some(format!(
            "it occurs with different capitalisation at line {}",
            line_of(&lower, at)
        ));
    }
    // If the first lines of `old` occur in the file, the model must correct the first line that
    // differs.
    let wanted: Vec<&str> = old.lines().skip_while(|line| line.trim().is_empty()).collect();
    let opening = wanted.first()?.trim();
    let has: Vec<&str> = text.lines().collect();
    let same =
        |at: usize| wanted.iter().zip(&has[at..]).take_while(|(a, b)| a.trim() == b.trim()).count();
    let starts = (0..has.len()).filter(|at| opening.len() > 3 && has[*at].trim() == opening);
    let (length, at) = starts
        .map(|at| (same(at), at))
        .max_by_key(|(length, at)| (*length, std::cmp::Reverse(*at)))?;
    let found = has
        .get(at + length)
        .map_or("the end of the file".to_owned(), |line| format!("`{}`", quoted(line)));
    Some(format!(
        "it starts like line {}, but line {} is {found}, where old_string has `{}`",
        at + 1,
        at + length + 1,
        quoted(wanted.get(length)?)
    ))
}

/// Returns whether text that only differs from `old` in white space occurs outside of the `new` at
/// this position.
pub(super) fn similar_outside(text: &str, old: &str, at: usize, new: &str) -> bool {
    let first = line_of(text, at);
    let last = first + new.matches('\n').count();
    similar(text, old, |(from, to)| to < first || from > last).0.is_some()
}

/// The number of the first line of a text that only differs from another text in white space.
struct Similar(Option<usize>);

fn similar(text: &str, old: &str, wanted: impl Fn((usize, usize)) -> bool) -> Similar {
    let old: Vec<String> = old.trim().lines().map(collapse_white_space).collect();
    if old.iter().all(String::is_empty) {
        return Similar(None);
    }
    let lines: Vec<String> = text.lines().map(collapse_white_space).collect();
    let found = lines.windows(old.len()).enumerate().find(|(n, window)| {
        let one = old.len() == 1 && window[0].contains(&old[0]);
        (one || **window == *old) && wanted((n + 1, n + old.len()))
    });
    Similar(found.map(|(n, _)| n + 1))
}

impl Similar {
    /// Returns the numbers of the first line and of the first line that differs, and the latter's
    /// text in `old`.
    fn first_difference<'o>(&self, text: &str, old: &'o str) -> Option<(usize, usize, &'o str)> {
        let first = self.0?;
        let skipped = old.lines().take_while(|line| line.trim().is_empty()).count();
        let pairs = old.lines().skip(skipped).zip(text.lines().skip(first - 1)).enumerate();
        let differs = pairs.into_iter().find(|(_, (wanted, has))| wanted != has);
        differs
            .map(|(n, (wanted, _))| (first, first + n, wanted))
            .or_else(|| Some((first, first, old.lines().next()?)))
    }
}

/// Trims the line and replaces each run of white space by one space.
fn collapse_white_space(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Removes a number and a tab from the start of each line, if every line has them.
fn without_numbers(old: &str) -> Option<String> {
    let lines = old.split_inclusive('\n').map(|line| {
        let (number, rest) = line.split_once('\t')?;
        number.trim_start().parse::<u64>().is_ok().then_some(rest)
    });
    lines.collect::<Option<String>>().filter(|plain| !plain.is_empty())
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

fn line_at(text: &str, line: usize) -> String {
    text.lines().nth(line - 1).unwrap_or_default().to_owned()
}

/// Returns the start of a line, with control characters escaped.
fn quoted(line: &str) -> String {
    let cut: String = line.chars().take(MAX_QUOTED_CHARS).collect();
    cut.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn similar_text_is_described() {
        let text = "fn main() {\n\tlet x = 1;\r\n    done();\n}\n";
        let table = [
            ("     2\t\tlet x = 1;", "at line 2 without the line numbers"),
            ("    done();\\n}", "a backslash and an n"),
            (
                "fn main() {\n    let x = 1;\n",
                "starts at line 1. The file has `\\tlet x = 1;` at line 2, old_string has `    let",
            ),
            ("let  x = 1;", "The file has `\\tlet x = 1;` at line 2"),
            ("FN main()", "different capitalisation at line 1"),
            (
                "fn main() {\n    let y = 2;",
                "starts like line 1, but line 2 is `\\tlet x = 1;`, where old_string has",
            ),
            ("    done();\n}\n}", "but line 5 is the end of the file, where old_string has `}`"),
        ];
        for (old, wanted) in table {
            let sentence = hint(text, old).unwrap_or_default();
            assert!(sentence.contains(wanted), "{old:?}: {sentence}");
        }
        assert_eq!(hint(text, "nothing of the kind"), None);
        assert_eq!(hint("", "x"), None);
        assert_eq!(hint(text, " \n "), None);
    }
}
