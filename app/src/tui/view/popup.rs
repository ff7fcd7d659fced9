//! What is offered for what is being written.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::print::harmless;
use crate::tui::paint::{Theme, columns, shorten};
use crate::tui::state::State;

/// The most that are seen at once.
const MOST: u16 = 8;

/// How many lines it takes of those there are, with an empty one below.
pub(super) fn height(state: &State, room: u16) -> u16 {
    let Some(popup) = state.popup.as_ref().filter(|_| !state.dialog.is_open()) else {
        return 0;
    };
    let found = u16::try_from(popup.found.len()).unwrap_or(u16::MAX);
    if popup.is_shown() { (found.clamp(1, MOST) + 1).min(room) } else { 0 }
}

/// Draws it.
pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer, area: Rect) {
    let Some(popup) = state.popup.as_ref().filter(|_| area.height > 1) else {
        return;
    };
    if popup.found.is_empty() {
        let text = if popup.waits { "Looking…" } else { "Nothing fits" };
        buffer.set_line(
            area.x + 2,
            area.y,
            &Line::from(Span::styled(text, theme.dim)),
            area.width - 2,
        );
        return;
    }
    let rows = usize::from(area.height - 1);
    let first = (popup.chosen + 1).saturating_sub(rows);
    let shown = popup.found.iter().enumerate().skip(first).take(rows);
    let width = usize::from(area.width);
    let widest =
        shown.clone().map(|(_, choice)| columns(&harmless(&choice.value))).max().unwrap_or(0);
    let room = widest.min(width.saturating_sub(2));
    for ((at, choice), y) in shown.zip(area.y..) {
        let chosen = at == popup.chosen;
        let (mark, style) = if chosen { ("› ", theme.accent) } else { ("  ", theme.text) };
        let name = shorten(&harmless(&choice.value), room);
        let space = " ".repeat(room - columns(&name).min(room));
        let note = shorten(&harmless(&choice.note), width.saturating_sub(room + 4));
        let line = Line::from(vec![
            Span::styled(mark, theme.accent),
            Span::styled(name, style),
            Span::styled(format!("{space}  {note}"), theme.dim),
        ]);
        buffer.set_line(area.x, y, &line, area.width);
    }
}
