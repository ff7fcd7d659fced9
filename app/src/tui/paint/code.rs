//! [`Code`]: program text that grows, highlighted, and with a mark where a long line goes on.

use ratatui::text::Line;

use super::flow::{Break, Flow, Piece};
use super::highlight::{Highlighter, LONGEST};
use super::theme::Theme;

/// Before the first row of a line, and before the rows on which it goes on.
const MARGINS: (&str, &str) = ("  ", "↪ ");
/// So much of a very long line, in bytes, is laid out at a time.
const STEP: usize = 1_024;

/// Takes lines and makes rows of them.
#[derive(Clone)]
pub(super) struct Code {
    width: usize,
    highlighter: Highlighter,
    /// A line too long to be laid out anew each time it grows, and how many bytes of it are laid
    /// out.
    long: Option<(Flow, usize)>,
    /// No row of the long line was handed out.
    first: bool,
}

impl Code {
    pub(super) fn new(width: usize, highlighter: Highlighter) -> Self {
        Code { width, highlighter, long: None, first: true }
    }

    /// Lays out a line that is whole, or what is left of it after [`Code::begin`].
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
                for piece in self.highlighter.line(line, theme) {
                    flow.push(&piece.content, piece.style);
                }
                flow.end_line();
                flow.finish()
            }
        };
        self.put(rows, first, theme, into);
    }

    /// Lays out what can no longer change of a line that is not whole; the line is the same, or
    /// longer, each time.
    pub(super) fn begin(&mut self, line: &str, theme: &Theme, into: &mut Vec<Line<'static>>) {
        if line.len() <= LONGEST {
            return;
        }
        let (flow, from) =
            self.long.get_or_insert_with(|| (Flow::new(inner(self.width), Break::Anywhere), 0));
        while line.len() > *from + STEP {
            let to = line.floor_char_boundary(*from + STEP);
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
        rows: Vec<Vec<Piece>>,
        mut first: bool,
        theme: &Theme,
        into: &mut Vec<Line<'static>>,
    ) {
        for mut row in rows {
            if self.inner() < self.width {
                let mark = if first { MARGINS.0 } else { MARGINS.1 };
                row.insert(0, Piece::styled(mark, theme.dim));
            }
            first = false;
            into.push(Line::from(row));
        }
    }
}

/// The width without the margin, which a very narrow column has no room for.
fn inner(width: usize) -> usize {
    if width < 8 { width } else { width - 2 }
}
