//! [`Code`]: program text that grows, highlighted, with a mark on continuation rows.

use ratatui::text::Line;

use super::flow::{Break, Flow, Fragment};
use super::highlight::{Highlighter, MAX_LINE_BYTES};
use super::theme::Theme;

/// Margins of the first row of a line and of its continuation rows.
const MARGINS: (&str, &str) = ("  ", "↪ ");
/// Number of bytes of a very long line that are laid out at a time.
const CHUNK_BYTES: usize = 1_024;

/// The incremental layout of program text.
#[derive(Clone)]
pub(super) struct Code {
    width: usize,
    highlighter: Highlighter,
    /// A line too long to be laid out again whenever it grows, and the number of its bytes that are
    /// laid out.
    long: Option<(Flow, usize)>,
    /// `true` until a row of the long line was returned.
    first: bool,
}

impl Code {
    pub(super) fn new(width: usize, highlighter: Highlighter) -> Self {
        Code { width, highlighter, long: None, first: true }
    }

    /// Lays out a complete line, or the rest of it after [`Code::begin`].
    pub(super) fn line(&mut self, line: &str, theme: &Theme, into: &mut Vec<Line<'static>>) {
        self.begin(line, theme, into);
        let first = std::mem::replace(&mut self.first, true);
        let rows = match self.long.take() {
            Some((mut flow, from)) => {
                flow.push(line.get(from..).unwrap_or_default(), theme.text);
                flow.finish()
            }
            None => {
                let mut flow = Flow::new(self.inner(), Break::Anywhere);
                for fragment in self.highlighter.line(line, theme) {
                    flow.push(&fragment.content, fragment.style);
                }
                flow.end_line();
                flow.finish()
            }
        };
        self.put(rows, first, theme, into);
    }

    /// Lays out the part of an incomplete line that can no longer change. Later calls pass the same
    /// line, or a longer one.
    pub(super) fn begin(&mut self, line: &str, theme: &Theme, into: &mut Vec<Line<'static>>) {
        if line.len() <= MAX_LINE_BYTES {
            return;
        }
        let (flow, from) =
            self.long.get_or_insert_with(|| (Flow::new(inner(self.width), Break::Anywhere), 0));
        while line.len() > *from + CHUNK_BYTES {
            let to = line.floor_char_boundary(*from + CHUNK_BYTES);
            flow.push(&line[*from..to], theme.text);
            *from = to;
        }
        let rows = flow.full_rows();
        if !rows.is_empty() {
            let first = std::mem::replace(&mut self.first, false);
            self.put(rows, first, theme, into);
        }
    }

    fn inner(&self) -> usize {
        inner(self.width)
    }

    fn put(
        &self,
        rows: Vec<Vec<Fragment>>,
        mut first: bool,
        theme: &Theme,
        into: &mut Vec<Line<'static>>,
    ) {
        for mut row in rows {
            if self.inner() < self.width {
                let mark = if first { MARGINS.0 } else { MARGINS.1 };
                row.insert(0, Fragment::styled(mark, theme.dim));
            }
            first = false;
            into.push(Line::from(row));
        }
    }
}

/// Returns the width without the margin, which a very narrow column has no room for.
fn inner(width: usize) -> usize {
    if width < 8 { width } else { width - 2 }
}
