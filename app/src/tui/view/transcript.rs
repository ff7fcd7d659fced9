//! The transcript on the screen. Only what is seen is laid out: upwards from the end, or downwards
//! from where one has scrolled to.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::View;
use super::layouts::{mark, welcome};
use crate::tui::state::{Entry, Kind, Scroll, State};

/// Where one has scrolled to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Position {
    /// The end, wherever it is.
    Bottom,
    /// This line of this block is the first one that is seen.
    At { id: u64, line: usize },
}

/// A place in the transcript: which block, which line of it; the line above a block is its line 0
/// if it has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    at: usize,
    line: usize,
}

impl View {
    /// Draws it, and says below it that there is more where there is.
    pub(super) fn draw_transcript(&mut self, state: &State, buffer: &mut Buffer, area: Rect) {
        self.layouts.begin(&state.transcript);
        if area.height == 0 || area.width < 4 {
            return;
        }
        let entries = state.transcript.entries();
        if entries.is_empty() {
            let lines = welcome(&state.status.root.to_string_lossy(), area.width - 3, &self.theme);
            for (line, y) in lines.iter().zip(area.y..area.bottom()) {
                buffer.set_line(area.x + 2, y, line, area.width - 2);
            }
            return;
        }
        let end = self.spot_at_bottom(state, area);
        let top = match self.spot(state) {
            Some(top) if (top.at, top.line) < (end.at, end.line) => top,
            _ => {
                self.position = Position::Bottom;
                end
            }
        };
        let more = top != end;
        let rows = if more { area.height - 1 } else { area.height };
        let (mut spot, mut y) = (top, area.y);
        while y < area.y + rows && spot.at < entries.len() {
            let entry = &entries[spot.at];
            let gap = gap(entries, spot.at);
            let chosen = state.selected == Some(entry.id);
            let (sign, choice) = (mark(entry, &self.theme), Span::styled("▌", self.theme.accent));
            let inset = if matches!(entry.kind, Kind::Tool(_)) { 0 } else { 2 };
            let lines = self.layouts.lines(entry, area.width - 1, state, &self.theme);
            while y < area.y + rows && spot.line < lines.len() + gap {
                if let Some(line) = spot.line.checked_sub(gap).and_then(|at| lines.get(at)) {
                    buffer.set_line(area.x + inset, y, line, area.width - inset);
                    if let Some(sign) = sign.as_ref().filter(|_| spot.line == gap) {
                        buffer.set_span(area.x, y, sign, 1);
                    }
                    // Between the sign and the text, which both stay.
                    if chosen {
                        buffer.set_span(area.x + 1, y, &choice, 1);
                    }
                }
                (y, spot.line) = (y + 1, spot.line + 1);
            }
            if spot.line >= lines.len() + gap {
                spot = Spot { at: spot.at + 1, line: 0 };
            }
        }
        if more {
            let text = "↓ more below · End";
            let line = Line::from(Span::styled(text, self.theme.accent));
            buffer.set_line(area.x + 2, area.bottom() - 1, &line, area.width - 2);
        }
    }

    /// Moves what is seen.
    pub(super) fn scroll_transcript(&mut self, state: &State, how: Scroll) {
        let area = self.area;
        let entries = state.transcript.entries();
        if area.height == 0 || area.width < 4 || entries.is_empty() {
            return;
        }
        let page = i32::from(area.height.saturating_sub(2).max(1));
        let by = match how {
            Scroll::Lines(by) => by,
            Scroll::Pages(by) => by.saturating_mul(page),
            Scroll::Bottom => {
                self.position = Position::Bottom;
                return;
            }
            Scroll::Top => {
                self.position = Position::At { id: entries[0].id, line: 0 };
                return;
            }
            Scroll::Show(id) => return self.show(state, id, area),
        };
        let end = self.spot_at_bottom(state, area);
        let from = self.spot(state).unwrap_or(end);
        let to = self.moved(state, from, by, area.width - 1);
        self.position = match entries.get(to.at) {
            Some(entry) if (to.at, to.line) < (end.at, end.line) => {
                Position::At { id: entry.id, line: to.line }
            }
            _ => Position::Bottom,
        };
    }

    /// Scrolls if this block is not seen.
    fn show(&mut self, state: &State, id: u64, area: Rect) {
        let Some(at) = state.transcript.position(id) else {
            return;
        };
        let end = self.spot_at_bottom(state, area);
        let top = self.spot(state).unwrap_or(end);
        let last = self.moved(state, top, i32::from(area.height).saturating_sub(3), area.width - 1);
        if at < top.at || at > last.at || (at == top.at && top.line > 1) {
            let to = self.moved(state, Spot { at, line: 0 }, -2, area.width - 1);
            let id = state.transcript.entries()[to.at].id;
            self.position = Position::At { id, line: to.line };
        }
    }

    /// The place that is scrolled to, if it is not the end.
    fn spot(&self, state: &State) -> Option<Spot> {
        let Position::At { id, line } = self.position else {
            return None;
        };
        Some(Spot { at: state.transcript.position(id)?, line })
    }

    /// The first line that is seen where the last one is at the bottom.
    fn spot_at_bottom(&mut self, state: &State, area: Rect) -> Spot {
        let end = Spot { at: state.transcript.entries().len(), line: 0 };
        self.moved(state, end, -i32::from(area.height), area.width - 1)
    }

    /// So many lines on from there, or back; not further than the beginning and the last line.
    fn moved(&mut self, state: &State, from: Spot, by: i32, width: u16) -> Spot {
        let entries = state.transcript.entries();
        let mut height = |at: usize| {
            let lines = entries
                .get(at)
                .map(|entry| self.layouts.lines(entry, width, state, &self.theme).len());
            lines.map_or(0, |lines| lines + gap(entries, at))
        };
        let Spot { mut at, mut line } = from;
        if by < 0 {
            let mut left = by.unsigned_abs() as usize;
            loop {
                if left <= line {
                    return Spot { at, line: line - left };
                }
                left -= line;
                let Some(before) = at.checked_sub(1) else {
                    return Spot { at: 0, line: 0 };
                };
                (at, line) = (before, height(before));
            }
        }
        let mut left = by.unsigned_abs() as usize;
        while at < entries.len() {
            let rest = height(at).saturating_sub(line);
            if left < rest {
                return Spot { at, line: line + left };
            }
            left -= rest;
            (at, line) = (at + 1, 0);
        }
        Spot { at: entries.len(), line: 0 }
    }
}

/// The empty lines above a block: calls that follow each other stand together.
fn gap(entries: &[Entry], at: usize) -> usize {
    let is_tool =
        |at: usize| entries.get(at).is_some_and(|entry| matches!(entry.kind, Kind::Tool(_)));
    usize::from(at > 0 && !(is_tool(at) && is_tool(at - 1)))
}
