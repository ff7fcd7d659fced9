//! Differences between two texts as lines, of limited length.

use similar::{Algorithm, DiffOp, capture_diff_slices, group_diff_ops};

use crate::testing::excerpt::{excerpt, excerpts};

/// Number of equal lines around each difference.
const CONTEXT_LINES: usize = 2;

/// Maximum number of lines of a diff.
const MAX_LINES: usize = 60;

/// Returns the lines of the difference: `-` before lines of `old`, `+` before lines of `new`, with
/// a few equal lines around them. Long lines are shortened to the difference.
pub(super) fn diff(old: &[String], new: &[String]) -> String {
    let ops = capture_diff_slices(Algorithm::Myers, old, new);
    let mut lines = Vec::new();
    for group in group_diff_ops(ops, CONTEXT_LINES) {
        if !lines.is_empty() {
            lines.push("  …".to_owned());
        }
        group.iter().for_each(|op| op_lines(op, old, new, &mut lines));
    }
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("  … and {more} more lines"));
    }
    lines.join("\n")
}

fn op_lines(op: &DiffOp, old: &[String], new: &[String], lines: &mut Vec<String>) {
    let (old, new) = (&old[op.old_range()], &new[op.new_range()]);
    if let DiffOp::Equal { .. } = op {
        lines.extend(old.iter().map(|line| format!("  {}", excerpt(line, 0))));
        return;
    }
    let pairs: Vec<_> = old.iter().zip(new).map(|(old, new)| excerpts(old, new)).collect();
    let alone = |lines: &[String]| {
        let rest = lines.iter().skip(pairs.len());
        rest.map(|line| excerpt(line, 0)).collect::<Vec<_>>()
    };
    let removed = pairs.iter().map(|(old, _)| old.clone()).chain(alone(old));
    let added = pairs.iter().map(|(_, new)| new.clone()).chain(alone(new));
    lines.extend(removed.map(|line| format!("- {line}")));
    lines.extend(added.map(|line| format!("+ {line}")));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> Vec<String> {
        text.lines().map(str::to_owned).collect()
    }

    #[test]
    fn only_what_differs_is_shown_with_two_lines_around_it() {
        let old = lines("a\nb\nc\nd\ne\nf\ng\nh\ni\nj");
        let new = lines("a\nB\nc\nd\ne\nf\ng\nh\nj");
        let expected = "  a\n- b\n+ B\n  c\n  d\n  …\n  g\n  h\n- i\n  j";
        assert_eq!(diff(&old, &new), expected);
        assert_eq!(diff(&old, &old), "");
    }

    #[test]
    fn long_lines_are_shortened_to_where_they_differ_and_the_whole_is_bounded() {
        let long = |end: &str| vec![format!("{}{end}", "x".repeat(1_000))];
        let text = diff(&long("old"), &long("new"));
        assert!(text.contains("xold") && text.contains("xnew") && text.len() < 200, "{text}");
        let many = |text: &str| (0..100).map(|n| format!("{text}{n}")).collect::<Vec<_>>();
        let text = diff(&many("a"), &many("b"));
        assert_eq!(text.lines().count(), MAX_LINES + 1);
        assert!(text.ends_with("\n  … and 140 more lines"), "{text}");
    }
}
