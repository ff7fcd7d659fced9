//! Diffs: the old and the new text of a file, or of its parts.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// A change of a file, as content of a tool call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "type", rename = "diff", rename_all = "camelCase")]
#[non_exhaustive]
pub struct Diff {
    /// The absolute path of the file.
    pub path: PathBuf,
    /// The text before the change; `None` for a new file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub old_text: Option<String>,
    /// The text after the change.
    pub new_text: String,
}

/// Returns the changes of a unified diff: one per hunk, with its lines of context. The paths in its
/// headers are relative to `cwd`. Other lines are ignored.
pub fn diffs(cwd: &Path, unified: &str) -> Vec<Diff> {
    let mut diffs: Vec<Diff> = Vec::new();
    let mut path = cwd.to_owned();
    // The remaining old and new lines of the hunk, and the kind of its last line.
    let (mut old_left, mut new_left, mut last) = (0, 0, ' ');
    for line in unified.split_inclusive('\n') {
        let mut chars = line.chars();
        let (kind, text) = (chars.next().unwrap_or(' '), chars.as_str());
        if kind == '\\' {
            if let Some(diff) = diffs.last_mut() {
                without_line_end(diff, last); // `\ No newline at end of file`
            }
            continue;
        }
        if (old_left, new_left) == (0, 0) {
            if let Some(name) = line.strip_prefix("+++ ") {
                path = cwd.join(name.trim_end());
            } else if let Some((old, new)) = hunk(line) {
                let old_text = (old > 0).then(String::new);
                diffs.push(Diff { path: path.clone(), old_text, new_text: String::new() });
                (old_left, new_left) = (old, new);
            }
            continue;
        }
        let Some(diff) = diffs.last_mut() else { continue };
        last = kind;
        if let (' ' | '-', 1.., Some(old)) = (kind, old_left, &mut diff.old_text) {
            old_left -= 1;
            old.push_str(text);
        }
        if let (' ' | '+', 1..) = (kind, new_left) {
            new_left -= 1;
            diff.new_text.push_str(text);
        }
    }
    diffs
}

/// Returns the numbers of old and new lines from the header of a hunk, `@@ -1,2 +1,3 @@`.
fn hunk(line: &str) -> Option<(usize, usize)> {
    let (old, rest) = line.strip_prefix("@@ -")?.split_once(" +")?;
    let (new, _) = rest.split_once(" @@")?;
    let lines = |range: &str| match range.split_once(',') {
        Some((_, lines)) => lines.parse().ok(),
        None => range.parse::<usize>().ok().map(|_| 1),
    };
    Some((lines(old)?, lines(new)?))
}

/// Removes the line end that the last line of the file lacks.
fn without_line_end(diff: &mut Diff, last: char) {
    let cut = |text: &mut String| {
        if text.ends_with('\n') {
            text.pop();
        }
    };
    if last != '+' {
        diff.old_text.as_mut().map(cut);
    }
    if last != '-' {
        cut(&mut diff.new_text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diff(path: &str, old: Option<&str>, new: &str) -> Diff {
        Diff { path: path.into(), old_text: old.map(Into::into), new_text: new.into() }
    }

    #[test]
    fn each_hunk_is_a_change_with_its_context() {
        let unified = "--- src/a\n+++ src/a\n@@ -1,3 +1,3 @@\n one\n-two\n+zwei\n three\n\
                       @@ -9 +9,2 @@\n-nine\n+++ x\n+neun\n";
        let expected = [
            diff("/srv/src/a", Some("one\ntwo\nthree\n"), "one\nzwei\nthree\n"),
            diff("/srv/src/a", Some("nine\n"), "++ x\nneun\n"),
        ];
        assert_eq!(diffs(Path::new("/srv"), unified), expected);
    }

    #[test]
    fn a_new_file_has_no_old_text_and_a_missing_line_end_is_missing() {
        let cwd = Path::new("/w");
        let new = "--- a\n+++ a\n@@ -0,0 +1 @@\n+hello\n\\ No newline at end of file\n";
        assert_eq!(diffs(cwd, new), [diff("/w/a", None, "hello")]);
        let ended = "+++ a\n@@ -1 +1 @@\n-x\n\\ No newline at end of file\n+x\n";
        assert_eq!(diffs(cwd, ended), [diff("/w/a", Some("x"), "x\n")]);
    }

    #[test]
    fn what_is_no_diff_has_no_changes() {
        for text in ["", "hello\n", "@@ -x +1 @@\n+a\n", "\\\n", "+++ a\n-b\n", "é\n@@ -1"] {
            assert_eq!(diffs(Path::new("/"), text), [], "{text}");
        }
    }
}
