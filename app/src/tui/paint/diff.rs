//! Differences of texts: [`unified`] computes a unified diff, [`diff`] lays it out.

use std::time::Duration;

use ratatui::style::Style;
use ratatui::text::Line;
use similar::{DiffTag, TextDiff};
use unicode_segmentation::UnicodeSegmentation;

use super::flow::{Break, Flow, Fragment, add, wrap};
use super::theme::Theme;

/// Minimum width for line numbers, which take too much room below it.
const MIN_WIDTH_FOR_LINE_NUMBERS: usize = 40;
/// Maximum length of lines in which changed words are searched for.
const MAX_LINE_BYTES: usize = 1_000;
/// Minimum similarity of two lines in which changed words are searched for.
const MIN_SIMILARITY: f32 = 0.4;
/// Maximum number of pairs of lines per diff in which changed words are searched for.
const MAX_LINE_PAIRS: usize = 1_000;
/// Time after which a comparison becomes coarser, but stays correct.
const DIFF_TIMEOUT: Duration = Duration::from_millis(200);

/// Lays out a unified diff, with line numbers if there is room, and with changed words highlighted
/// in replaced lines.
pub(crate) fn diff(unified: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    paint(&rows(unified), width, true, theme)
}

/// Lays out the change of a part of a text, with all unchanged lines and without line numbers.
pub(super) fn replacement(
    before: &str,
    after: &str,
    width: u16,
    theme: &Theme,
) -> Vec<Line<'static>> {
    // A missing final line end is normal here, and not reported.
    let end = if before.ends_with('\n') || after.ends_with('\n') { "" } else { "\n" };
    let unified = unified(&format!("{before}{end}"), &format!("{after}{end}"), before.len());
    let rows: Vec<_> =
        rows(&unified).into_iter().filter(|row| !matches!(row, Row::Hunk(_))).collect();
    paint(&rows, width, false, theme)
}

/// Computes a unified diff with `context` lines around each change.
pub(super) fn unified(before: &str, after: &str, context: usize) -> String {
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_lines(before, after);
    diff.unified_diff().context_radius(context).to_string()
}

/// A line of a diff, without its sign.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Row<'a> {
    /// The name of a file, or a remark.
    Note(&'a str),
    Hunk(&'a str),
    /// A line with its number, the new one if it has two.
    Line(Side, usize, &'a str),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Both,
    Old,
    New,
}

impl<'a> Row<'a> {
    fn text(&self) -> &'a str {
        match self {
            Row::Note(text) | Row::Hunk(text) | Row::Line(_, _, text) => text,
        }
    }
}

/// The rest of a hunk. It tells a removed line that begins with `--` from a header.
#[derive(Default)]
struct Hunk {
    old: usize,
    old_left: usize,
    new: usize,
    new_left: usize,
}

impl Hunk {
    /// Parses `@@ -1,3 +1,4 @@`.
    fn read(line: &str) -> Option<Self> {
        let mut ranges = line.strip_prefix("@@ -")?.split(' ');
        let read = |range: &str| {
            let (start, count) = range.split_once(',').unwrap_or((range, "1"));
            Some((start.parse().ok()?, count.parse().ok()?))
        };
        let (old, old_left) = read(ranges.next()?)?;
        let (new, new_left) = read(ranges.next()?.strip_prefix('+')?)?;
        Some(Hunk { old, old_left, new, new_left })
    }

    fn line<'a>(&mut self, line: &'a str) -> Option<Row<'a>> {
        let (sign, text) = line.split_at_checked(1).unwrap_or((" ", ""));
        let (side, old, new) = match sign {
            "-" => (Side::Old, 1, 0),
            "+" => (Side::New, 0, 1),
            " " => (Side::Both, 1, 1),
            _ => return None,
        };
        let number = if side == Side::Old { self.old } else { self.new };
        self.old_left = self.old_left.checked_sub(old)?;
        self.new_left = self.new_left.checked_sub(new)?;
        self.old = self.old.saturating_add(old);
        self.new = self.new.saturating_add(new);
        Some(Row::Line(side, number, text))
    }
}

fn rows<'a>(unified: &'a str) -> Vec<Row<'a>> {
    let mut hunk = Hunk::default();
    let row = |line: &'a str| match Hunk::read(line) {
        Some(next) if hunk.old_left == 0 && hunk.new_left == 0 => {
            hunk = next;
            Row::Hunk(line)
        }
        _ => hunk.line(line).unwrap_or(Row::Note(line)),
    };
    // A carriage return at the end may be the change, so it is kept and shown.
    unified.split_terminator('\n').map(row).collect()
}

fn paint(rows: &[Row<'_>], width: u16, numbers: bool, theme: &Theme) -> Vec<Line<'static>> {
    let largest =
        rows.iter().map(|row| if let Row::Line(_, number, _) = row { *number } else { 0 }).max();
    let digits = if numbers && usize::from(width) >= MIN_WIDTH_FOR_LINE_NUMBERS {
        largest.unwrap_or(0).to_string().len()
    } else {
        0
    };
    let mut painter = Painter { width: width.max(1).into(), digits, theme, pairs: 0 };
    let (mut lines, mut from) = (Vec::new(), 0);
    while let Some(row) = rows.get(from) {
        match row {
            Row::Note(text) | Row::Hunk(text) => {
                lines.extend(wrap(text, width, theme.dim));
                from += 1;
            }
            Row::Line(Side::Both, number, text) => {
                painter.line(Side::Both, *number, &[(text, false)], &mut lines);
                from += 1;
            }
            Row::Line(..) => {
                let run = |from: usize, side| {
                    let of_side =
                        |row: &&Row<'_>| matches!(row, Row::Line(its, ..) if *its == side);
                    from + rows[from..].iter().take_while(of_side).count()
                };
                let middle = run(from, Side::Old);
                let end = run(middle, Side::New);
                painter.replaced(&rows[from..middle], &rows[middle..end], &mut lines);
                from = end;
            }
        }
    }
    lines
}

struct Painter<'a> {
    width: usize,
    /// The number of digits of the largest line number; 0 if numbers are not shown.
    digits: usize,
    theme: &'a Theme,
    /// The number of pairs of lines that were compared.
    pairs: usize,
}

impl Painter<'_> {
    /// Lays out removed lines and the ones that replaced them.
    fn replaced(&mut self, old: &[Row<'_>], new: &[Row<'_>], lines: &mut Vec<Line<'static>>) {
        let pairs = old.iter().zip(new).take(MAX_LINE_PAIRS - self.pairs);
        let changes: Vec<_> = pairs.map(|(old, new)| words(old.text(), new.text())).collect();
        self.pairs += changes.len();
        let (old_words, new_words): (Vec<_>, Vec<_>) = changes.into_iter().unzip();
        for (rows, changes, side) in [(old, old_words, Side::Old), (new, new_words, Side::New)] {
            let mut changes = changes.into_iter();
            for row in rows {
                let Row::Line(_, number, line) = row else {
                    continue;
                };
                let words = changes.next().unwrap_or_else(|| vec![(line, false)]);
                self.line(side, *number, &words, lines);
            }
        }
    }

    /// Lays out a line, given as words, some of them changed.
    fn line(
        &self,
        side: Side,
        number: usize,
        words: &[(&str, bool)],
        lines: &mut Vec<Line<'static>>,
    ) {
        let (sign, style, changed) = match side {
            Side::Both => (" ", self.theme.text, self.theme.text),
            Side::Old => ("-", self.theme.removed, self.theme.removed_word),
            Side::New => ("+", self.theme.added, self.theme.added_word),
        };
        let gutter = if self.digits > 0 { self.digits + 1 } else { 0 };
        let signed = if self.width < 8 { 1 } else { 2 };
        let mut flow = Flow::new(self.width.saturating_sub(gutter + signed), Break::Anywhere);
        words.iter().for_each(|(word, is_changed)| {
            flow.push(word, if *is_changed { changed } else { style })
        });
        if words.iter().all(|(word, _)| word.is_empty()) {
            flow.end_line();
        }
        for (n, row) in flow.finish().into_iter().enumerate() {
            let mut line = Vec::new();
            if self.digits > 0 {
                let number = if n == 0 { number.to_string() } else { String::new() };
                line.push(Fragment::styled(
                    format!("{number:>digits$} ", digits = self.digits),
                    self.theme.dim,
                ));
            }
            if self.width > 1 {
                let mark = if n == 0 || signed < 2 { " " } else { "↪" };
                add(&mut line, sign, style);
                let mark_style = if n == 0 { style } else { Style::new().patch(self.theme.dim) };
                add(&mut line, if signed < 2 { "" } else { mark }, mark_style);
            }
            line.extend(row);
            lines.push(Line::from(line));
        }
    }
}

/// The words of a line, each with whether it has changed.
type Words<'a> = Vec<(&'a str, bool)>;

/// Compares the words of a line and its replacement.
fn words<'a>(old: &'a str, new: &'a str) -> (Words<'a>, Words<'a>) {
    let whole = || (vec![(old, false)], vec![(new, false)]);
    if old.len().max(new.len()) > MAX_LINE_BYTES {
        return whole();
    }
    let (old_words, new_words): (Vec<_>, Vec<_>) =
        (old.split_word_bounds().collect(), new.split_word_bounds().collect());
    let diff = TextDiff::configure().timeout(DIFF_TIMEOUT).diff_slices(&old_words, &new_words);
    if diff.ratio() < MIN_SIMILARITY {
        return whole();
    }
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for op in diff.ops() {
        let changed = op.tag() != DiffTag::Equal;
        before.extend(old_words[op.old_range()].iter().map(|word| (*word, changed)));
        after.extend(new_words[op.new_range()].iter().map(|word| (*word, changed)));
    }
    (before, after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rendered(lines: &[Line<'static>]) -> String {
        let theme = Theme::ansi();
        let fragment = |fragment: &Fragment| match fragment.style {
            style if style == theme.added_word || style == theme.removed_word => {
                format!("⟦{}⟧", fragment.content)
            }
            _ => fragment.content.to_string(),
        };
        lines
            .iter()
            .map(|line| line.spans.iter().map(fragment).collect::<String>() + "\n")
            .collect()
    }

    const DIFF: &str = "--- a.rs\n+++ a.rs\n@@ -8,4 +8,4 @@\n fn main() {\n\
        -    let x = old(1);\n+    let x = new(1, 2);\n }\n--- a comment\n+-- a remark\n\
        @@ -90,2 +90,3 @@ fn other\n one\n\
        +a line that is so long that it must be wrapped in order to fit\n two\n\
        \\ No newline at end of file\n";

    #[test]
    fn a_diff_has_numbers_signs_and_the_words_that_changed() {
        insta::assert_snapshot!("wide", rendered(&diff(DIFF, 60, &Theme::ansi())));
        insta::assert_snapshot!("narrow", rendered(&diff(DIFF, 20, &Theme::ansi())));
    }

    #[test]
    fn changes_are_those_of_the_texts() {
        let (before, after) = ("a\nb\nc\nd\ne\nf\n", "a\nb\nc\nD\ne\nf\n");
        let lines = rendered(&diff(&unified(before, after, 1), 50, &Theme::ansi()));
        assert_eq!(lines, "@@ -3,3 +3,3 @@\n3   c\n4 - d\n4 + D\n5   e\n");
        assert_eq!(diff(&unified("same", "same", 3), 50, &Theme::ansi()), []);
        let lines = rendered(&replacement("a\nb\n", "a\nb\r\n", 50, &Theme::ansi()));
        assert_eq!(rendered(&replacement("a", "b", 50, &Theme::ansi())), "- a\n+ b\n");
        assert_eq!(lines, "  a\n- b\n+ b⟦\u{fffd}⟧\n");
    }

    #[test]
    fn words_are_compared_in_so_many_lines_and_no_more() {
        let (old, new) = (
            "-let x = old(1);\n".repeat(MAX_LINE_PAIRS + 1),
            "+let x = new(1);\n".repeat(MAX_LINE_PAIRS + 1),
        );
        let lines = diff(
            &format!("@@ -1,{0} +1,{0} @@\n{old}{new}", MAX_LINE_PAIRS + 1),
            30,
            &Theme::ansi(),
        );
        let rendered = rendered(&lines);
        assert_eq!(
            (rendered.matches("⟦old⟧").count(), rendered.matches("⟦new⟧").count()),
            (MAX_LINE_PAIRS, MAX_LINE_PAIRS)
        );
        assert_eq!(rendered.matches("new(1)").count(), 1);
    }

    #[test]
    fn no_diff_is_too_wide() {
        let nasty = format!(
            "{DIFF}@@ -1 +1 @@\n-漢字👩‍👩‍👧‍👦\t\x1b[1m\n+漢\u{301}\u{202e}\n\
             @@ -1,18446744073709551615 +1,9 @@\n\n-\n+\n?"
        );
        for width in 1..=120 {
            for line in diff(&nasty, width, &Theme::ansi()) {
                assert!(line.width() <= usize::from(width), "{width}: {line:?}");
            }
        }
    }
}
