//! The transcript on the screen. Only visible blocks are laid out: upwards from the end, or
//! downwards from the scroll position.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use super::layouts::{Layouts, mark, welcome};
use crate::tui::paint::Theme;
use crate::tui::state::{Entry, Kind, Scroll, State};

/// The scroll position.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Position {
    /// At the end, following what is added.
    #[default]
    Bottom,
    /// At this line of this block, which is the first visible one.
    At { id: u64, line: usize },
}

/// The drawing of the transcript, with its scroll position.
#[derive(Default)]
pub(super) struct TranscriptView {
    layouts: Layouts,
    position: Position,
    /// The area of the last frame.
    area: Rect,
}

/// A line of the transcript: a block and a line of it. Line 0 is the gap above the block, if it has
/// one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Spot {
    at: usize,
    line: usize,
}

impl TranscriptView {
    /// Draws the visible lines, and a hint if more are below.
    pub(super) fn draw(&mut self, state: &State, theme: &Theme, buffer: &mut Buffer, area: Rect) {
        self.area = area;
        self.layouts.begin(&state.transcript);
        if area.height == 0 || area.width < 4 {
            return;
        }
        let entries = state.transcript.entries();
        if entries.is_empty() {
            let lines = welcome(&state.status.root.to_string_lossy(), area.width - 3, theme);
            for (line, y) in lines.iter().zip(area.y..area.bottom()) {
                buffer.set_line(area.x + 2, y, line, area.width - 2);
            }
            return;
        }
        let end = self.spot_at_bottom(state, theme);
        let top = match self.spot(state) {
            Some(top) if (top.at, top.line) < (end.at, end.line) => top,
            _ => {
                self.position = Position::Bottom;
                end
            }
        };
        let more = top != end;
        let rows = if more { area.height - 1 } else { area.height };
        let mut spot = top;
        let mut y = area.y;
        while y < area.y + rows && spot.at < entries.len() {
            let entry = &entries[spot.at];
            let gap = gap(entries, spot.at);
            let chosen = state.selected == Some(entry.id);
            let sign = mark(entry, theme);
            let choice = Span::styled("▌", theme.accent);
            let inset = if matches!(entry.kind, Kind::Tool(_)) { 0 } else { 2 };
            let lines = self.layouts.lines(entry, area.width - 1, state, theme);
            while y < area.y + rows && spot.line < lines.len() + gap {
                if let Some(line) = spot.line.checked_sub(gap).and_then(|at| lines.get(at)) {
                    buffer.set_line(area.x + inset, y, line, area.width - inset);
                    if let Some(sign) = sign.as_ref().filter(|_| spot.line == gap) {
                        buffer.set_span(area.x, y, sign, 1);
                    }
                    // Between the sign and the text, neither of which is overwritten.
                    if chosen {
                        buffer.set_span(area.x + 1, y, &choice, 1);
                    }
                }
                y += 1;
                spot.line += 1;
            }
            if spot.line >= lines.len() + gap {
                spot = Spot { at: spot.at + 1, line: 0 };
            }
        }
        if more {
            let text = "↓ more below · End";
            let line = Line::from(Span::styled(text, theme.accent));
            buffer.set_line(area.x + 2, area.bottom() - 1, &line, area.width - 2);
        }
    }

    /// Scrolls by lines, pages, or to a block.
    pub(super) fn scroll(&mut self, state: &State, theme: &Theme, how: Scroll) {
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
            Scroll::Show(id) => return self.show(state, theme, id),
        };
        let end = self.spot_at_bottom(state, theme);
        let from = self.spot(state).unwrap_or(end);
        let to = self.moved(state, theme, from, by);
        self.position = match entries.get(to.at) {
            Some(entry) if (to.at, to.line) < (end.at, end.line) => {
                Position::At { id: entry.id, line: to.line }
            }
            _ => Position::Bottom,
        };
    }

    /// Scrolls to a block unless it is visible.
    fn show(&mut self, state: &State, theme: &Theme, id: u64) {
        let Some(at) = state.transcript.position(id) else {
            return;
        };
        let end = self.spot_at_bottom(state, theme);
        let top = self.spot(state).unwrap_or(end);
        let page = i32::from(self.area.height).saturating_sub(3);
        let last = self.moved(state, theme, top, page);
        if at < top.at || at > last.at || (at == top.at && top.line > 1) {
            let to = self.moved(state, theme, Spot { at, line: 0 }, -2);
            let id = state.transcript.entries()[to.at].id;
            self.position = Position::At { id, line: to.line };
        }
    }

    /// Returns the first visible line, or `None` at the end.
    fn spot(&self, state: &State) -> Option<Spot> {
        let Position::At { id, line } = self.position else {
            return None;
        };
        Some(Spot { at: state.transcript.position(id)?, line })
    }

    /// Returns the first visible line of the last page.
    fn spot_at_bottom(&mut self, state: &State, theme: &Theme) -> Spot {
        let end = Spot { at: state.transcript.entries().len(), line: 0 };
        self.moved(state, theme, end, -i32::from(self.area.height))
    }

    /// Moves by a number of lines, stopping at the first and the last line.
    fn moved(&mut self, state: &State, theme: &Theme, from: Spot, by: i32) -> Spot {
        let width = self.area.width - 1;
        let entries = state.transcript.entries();
        let mut height = |at: usize| {
            let lines =
                entries.get(at).map(|entry| self.layouts.lines(entry, width, state, theme).len());
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
                at = before;
                line = height(before);
            }
        }
        let mut left = by.unsigned_abs() as usize;
        while at < entries.len() {
            let rest = height(at).saturating_sub(line);
            if left < rest {
                return Spot { at, line: line + left };
            }
            left -= rest;
            at += 1;
            line = 0;
        }
        Spot { at: entries.len(), line: 0 }
    }
}

#[cfg(test)]
impl TranscriptView {
    /// Returns the number of blocks laid out so far.
    pub(super) fn layout_count(&self) -> u64 {
        self.layouts.layout_count
    }

    /// Returns the number of cached lines of blocks.
    pub(super) fn cached_lines(&self) -> usize {
        self.layouts.cached_lines()
    }
}

/// Returns the number of empty lines above a block: none between consecutive calls, below the name
/// of a speaker, or above a block that is hidden.
fn gap(entries: &[Entry], at: usize) -> usize {
    let is_tool = |entry: &Entry| matches!(entry.kind, Kind::Tool(_));
    let Some(entry) = entries.get(at).filter(|entry| !entry.is_hidden()) else { return 0 };
    let before = entries[..at].iter().rev().find(|entry| !entry.is_hidden());
    let follows = |before: &Entry| {
        matches!(before.kind, Kind::Speaker(_)) || is_tool(entry) && is_tool(before)
    };
    before.map_or(0, |before| usize::from(!follows(before)))
}
