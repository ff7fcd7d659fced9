//! The popup with completions.

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};

use crate::output::sanitized;
use crate::tui::paint::{Theme, columns, shorten};
use crate::tui::state::State;

/// Maximum number of visible choices.
const MAX_ROWS: u16 = 8;

/// Returns the number of free lines that the popup takes, including an empty one below.
pub(super) fn height(state: &State, room: u16) -> u16 {
    let Some(popup) = state.popup.as_ref().filter(|_| !state.dialog.is_open()) else {
        return 0;
    };
    let matches = u16::try_from(popup.matches.len()).unwrap_or(u16::MAX);
    if popup.is_visible() { (matches.clamp(1, MAX_ROWS) + 1).min(room) } else { 0 }
}

/// Draws the choices, or the reason why none exist.
pub(super) fn draw(state: &State, theme: &Theme, buffer: &mut Buffer, area: Rect) {
    let Some(popup) = state.popup.as_ref().filter(|_| area.height > 1) else {
        return;
    };
    if popup.matches.is_empty() {
        let text = if popup.is_loading { "Loading…" } else { "No matches" };
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
    let visible = popup.matches.iter().enumerate().skip(first).take(rows);
    let width = usize::from(area.width);
    let widest =
        visible.clone().map(|(_, choice)| columns(&sanitized(&choice.value))).max().unwrap_or(0);
    let room = widest.min(width.saturating_sub(2));
    for ((at, choice), y) in visible.zip(area.y..) {
        let chosen = at == popup.chosen;
        let (mark, style) = if chosen { ("› ", theme.accent) } else { ("  ", theme.text) };
        let name = shorten(&sanitized(&choice.value), room);
        let space = " ".repeat(room - columns(&name).min(room));
        let note = shorten(&sanitized(&choice.note), width.saturating_sub(room + 4));
        let line = Line::from(vec![
            Span::styled(mark, theme.accent),
            Span::styled(name, style),
            Span::styled(format!("{space}  {note}"), theme.dim),
        ]);
        buffer.set_line(area.x, y, &line, area.width);
    }
}
