//! [`Table`]: cells in columns, or as a list if the columns have no room.

use pulldown_cmark::Alignment;
use ratatui::style::Style;

use super::super::flow::{Break, Flow, Fragment, columns};
use super::super::theme::Theme;

/// Minimum width of a column, unless its cells are narrower.
const MIN_COLUMN_WIDTH: usize = 8;
const SEPARATOR: &str = " │ ";
const SEPARATOR_WIDTH: usize = 3;

type Cell = Vec<Fragment>;

/// The cells of a table, the first row's first.
pub(super) struct Table {
    alignments: Vec<Alignment>,
    cells: Vec<Vec<Cell>>,
}

impl Table {
    pub(super) fn new(alignments: Vec<Alignment>) -> Self {
        Table { alignments, cells: Vec::new() }
    }

    pub(super) fn begin_row(&mut self) {
        self.cells.push(Vec::new());
    }

    pub(super) fn begin_cell(&mut self) {
        if let Some(row) = self.cells.last_mut() {
            row.push(Cell::new());
        }
    }

    /// Returns the cell that was begun last.
    pub(super) fn cell(&mut self) -> &mut Cell {
        if self.cells.is_empty() {
            self.begin_row();
        }
        let row = self.cells.len() - 1;
        if self.cells[row].is_empty() {
            self.begin_cell();
        }
        let cell = self.cells[row].len() - 1;
        &mut self.cells[row][cell]
    }

    /// Lays out the table.
    pub(super) fn rows(&self, width: usize, theme: &Theme) -> Vec<Vec<Fragment>> {
        match self.widths(width) {
            Some(widths) => self.as_columns(&widths, theme),
            None => self.as_list(width, theme),
        }
    }

    /// Returns the width of each column, or `None` if the columns have no room. A column is as wide
    /// as its cells; the widest columns are cut to one width.
    fn widths(&self, width: usize) -> Option<Vec<usize>> {
        let count = self.alignments.len();
        let room = width.checked_sub(SEPARATOR_WIDTH * count.checked_sub(1)?)?;
        let natural = |column: usize| {
            self.cells.iter().filter_map(|row| row.get(column)).map(cell_width).max()
        };
        let mut widths: Vec<usize> =
            (0..count).map(|column| natural(column).unwrap_or(0).max(1)).collect();
        let max_width = widths.iter().copied().max()?;
        let taken =
            |max_width: usize| widths.iter().map(|width| (*width).min(max_width)).sum::<usize>();
        if taken(max_width) > room {
            // The largest width that fits; `taken` grows with it.
            let (mut fits, mut too_wide) = (0, max_width);
            while too_wide - fits > 1 {
                let middle = fits.midpoint(too_wide);
                if taken(middle) <= room { fits = middle } else { too_wide = middle }
            }
            if fits < MIN_COLUMN_WIDTH {
                return None;
            }
            let mut left = room - taken(fits);
            for width in widths.iter_mut().filter(|width| **width > fits) {
                *width = fits + usize::from(left > 0);
                left = left.saturating_sub(1);
            }
        }
        Some(widths)
    }

    fn as_columns(&self, widths: &[usize], theme: &Theme) -> Vec<Vec<Fragment>> {
        let mut rows = Vec::new();
        for (n, row) in self.cells.iter().enumerate() {
            let style = if n == 0 { theme.heading } else { Style::new() };
            let cells: Vec<_> = widths
                .iter()
                .enumerate()
                .map(|(n, width)| lay_out(row.get(n), *width, style))
                .collect();
            for line in 0..cells.iter().map(Vec::len).max().unwrap_or(0) {
                let mut out = Vec::new();
                for (column, (cell, width)) in cells.iter().zip(widths).enumerate() {
                    if column > 0 {
                        out.push(Fragment::styled(SEPARATOR, theme.dim));
                    }
                    let fragments = cell.get(line).cloned().unwrap_or_default();
                    let free = width.saturating_sub(fragments_width(&fragments));
                    let before = match self.alignments.get(column) {
                        Some(Alignment::Right) => free,
                        Some(Alignment::Center) => free / 2,
                        _ => 0,
                    };
                    let last = column + 1 == widths.len();
                    out.push(Fragment::raw(" ".repeat(before)));
                    out.extend(fragments);
                    out.push(Fragment::raw(" ".repeat(if last { 0 } else { free - before })));
                }
                out.retain(|fragment| !fragment.content.is_empty());
                rows.push(out);
            }
            if n == 0 {
                let rules: Vec<String> = widths.iter().map(|width| "─".repeat(*width)).collect();
                rows.push(vec![Fragment::styled(rules.join("─┼─"), theme.dim)]);
            }
        }
        rows
    }

    /// Lays out each row as lines of the form `heading: cell`.
    fn as_list(&self, width: usize, theme: &Theme) -> Vec<Vec<Fragment>> {
        let (head, body) =
            self.cells.split_first().map_or((&[][..], &[][..]), |(head, body)| (&head[..], body));
        let hanging = if width < MIN_COLUMN_WIDTH { 0 } else { 2 };
        let mut rows = Vec::new();
        let mut put = |key: Option<&Cell>, cell: Option<&Cell>| {
            let mut flow = Flow::new(width - hanging, Break::Words);
            push(&mut flow, key, theme.heading);
            if key.is_some_and(|key| !key.is_empty()) && cell.is_some() {
                flow.push(": ", theme.heading);
            }
            push(&mut flow, cell, Style::new());
            for (n, mut row) in flow.finish().into_iter().enumerate() {
                if n > 0 && hanging > 0 {
                    row.insert(0, Fragment::raw(" ".repeat(hanging)));
                }
                rows.push(row);
            }
        };
        if body.is_empty() {
            head.iter().for_each(|key| put(Some(key), None));
        }
        for (n, row) in body.iter().enumerate() {
            if n > 0 {
                put(
                    None,
                    Some(&vec![Fragment::styled("─".repeat((width - hanging).min(3)), theme.dim)]),
                );
            }
            row.iter().enumerate().for_each(|(column, cell)| put(head.get(column), Some(cell)));
        }
        rows
    }
}

fn push(flow: &mut Flow, cell: Option<&Cell>, style: Style) {
    cell.into_iter()
        .flatten()
        .for_each(|fragment| flow.push(&fragment.content, fragment.style.patch(style)));
}

fn lay_out(cell: Option<&Cell>, width: usize, style: Style) -> Vec<Vec<Fragment>> {
    let mut flow = Flow::new(width, Break::Words);
    push(&mut flow, cell, style);
    flow.finish()
}

fn cell_width(cell: &Cell) -> usize {
    lay_out(Some(cell), usize::MAX, Style::new())
        .iter()
        .map(|row| fragments_width(row))
        .max()
        .unwrap_or(0)
}

fn fragments_width(fragments: &[Fragment]) -> usize {
    fragments.iter().map(|fragment| columns(&fragment.content)).sum()
}
