//! What is like a text that was not found: the hint that lets a model mend its edit.

use super::apply::unix;

/// The longest piece of a line that is quoted, in characters.
const QUOTED: usize = 120;

/// A sentence on what `text` has instead of `old`, if there is anything like it.
pub(super) fn hint(text: &str, old: &str) -> Option<String> {
    let (text, old) = (unix(text), unix(old));
    if let Some(plain) = without_numbers(&old).filter(|plain| text.contains(plain.as_str())) {
        let line = line_of(&text, text.find(&plain)?);
        return Some(format!(
            "it is there, at line {line}, without the line numbers that read_file puts before each line"
        ));
    }
    if old.contains("\\n") && text.contains(&old.replace("\\n", "\n")) {
        return Some("it is there with line ends where old_string has a backslash and an n".into());
    }
    if let Some((first, line, wanted)) = like(&text, &old, |_| true).first_difference(&text, &old) {
        return Some(format!(
            "the same text with other white space is there from line {first} on. The file has `{}` at line {line}, \
             old_string has `{}`",
            quoted(&line_at(&text, line)),
            quoted(wanted)
        ));
    }
    let lower = text.to_lowercase();
    if let Some(at) = lower.find(&old.to_lowercase()) {
        return Some(format!(
            "it is there with other capital letters, at line {}",
            line_of(&lower, at)
        ));
    }
    // Where it begins as the file does, the first line that differs is the one to mend.
    let wanted: Vec<&str> = old.lines().skip_while(|line| line.trim().is_empty()).collect();
    let opening = wanted.first()?.trim();
    let has: Vec<&str> = text.lines().collect();
    let same =
        |at: usize| wanted.iter().zip(&has[at..]).take_while(|(a, b)| a.trim() == b.trim()).count();
    let starts = (0..has.len()).filter(|at| opening.len() > 3 && has[*at].trim() == opening);
    let (length, at) = starts
        .map(|at| (same(at), at))
        .max_by_key(|(length, at)| (*length, std::cmp::Reverse(*at)))?;
    let instead = has
        .get(at + length)
        .map_or("the end of the file".to_owned(), |line| format!("`{}`", quoted(line)));
    Some(format!(
        "it begins as line {} does, but line {} is {instead}, where old_string has `{}`",
        at + 1,
        at + length + 1,
        quoted(wanted.get(length)?)
    ))
}

/// Whether text that is `old` but for white space is anywhere else than in the `new` at this place.
pub(super) fn is_elsewhere(text: &str, old: &str, at: usize, new: &str) -> bool {
    let first = line_of(text, at);
    let last = first + new.matches('\n').count();
    like(text, old, |(from, to)| to < first || from > last).0.is_some()
}

/// Lines that are the same but for white space.
struct Like(Option<usize>);

fn like(text: &str, old: &str, wanted: impl Fn((usize, usize)) -> bool) -> Like {
    let old: Vec<String> = old.trim().lines().map(squeezed).collect();
    if old.iter().all(String::is_empty) {
        return Like(None);
    }
    let lines: Vec<String> = text.lines().map(squeezed).collect();
    let found = lines.windows(old.len()).enumerate().find(|(n, window)| {
        let one = old.len() == 1 && window[0].contains(&old[0]);
        (one || **window == *old) && wanted((n + 1, n + old.len()))
    });
    Like(found.map(|(n, _)| n + 1))
}

impl Like {
    /// Where they begin, and the first line that is not the same, in the text and as it was wanted.
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

/// A line without white space at its ends, and with single blanks in it.
fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The text without a number and a tab before each line, if each has them.
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

/// A line with its tabs and the like to be seen.
fn quoted(line: &str) -> String {
    let cut: String = line.chars().take(QUOTED).collect();
    cut.chars()
        .flat_map(|c| if c.is_control() { c.escape_default().collect() } else { vec![c] })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_like_it_is_named() {
        let text = "fn main() {\n\tlet x = 1;\r\n    done();\n}\n";
        let table = [
            ("     2\t\tlet x = 1;", "at line 2, without the line numbers"),
            ("    done();\\n}", "a backslash and an n"),
            (
                "fn main() {\n    let x = 1;\n",
                "from line 1 on. The file has `\\tlet x = 1;` at line 2, old_string has `    let",
            ),
            ("let  x = 1;", "The file has `\\tlet x = 1;` at line 2"),
            ("FN main()", "other capital letters, at line 1"),
            (
                "fn main() {\n    let y = 2;",
                "begins as line 1 does, but line 2 is `\\tlet x = 1;`, where old_string has",
            ),
            ("    done();\n}\n}", "but line 5 is the end of the file, where old_string has `}`"),
        ];
        for (old, wanted) in table {
            let told = hint(text, old).unwrap_or_default();
            assert!(told.contains(wanted), "{old:?}: {told}");
        }
        assert_eq!(hint(text, "nothing of the kind"), None);
        assert_eq!(hint("", "x"), None);
        assert_eq!(hint(text, " \n "), None);
    }
}
