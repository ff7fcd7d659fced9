//! Text input on the screen, and the rule above it.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::tui::state::Prompt;

/// Draws a text being written, and sets the cursor's position in it.
pub(super) fn draw_input(prompt: &Prompt, frame: &mut Frame<'_>, rect: Rect) {
    let area = prompt.area();
    frame.render_widget(area, rect);
    let cursor = area.screen_cursor();
    let (top, _) = area.scroll_offset();
    let row = u16::try_from(cursor.row).unwrap_or(u16::MAX).saturating_sub(top);
    let column = u16::try_from(cursor.col).unwrap_or(u16::MAX);
    let x = rect.x.saturating_add(column).min(rect.right());
    let y = rect.y.saturating_add(row).min(rect.bottom().saturating_sub(1));
    frame.set_cursor_position((x, y));
}

/// Draws a horizontal line across the top of an area.
pub(super) fn draw_rule(frame: &mut Frame<'_>, area: Rect, style: Style) {
    let line = Line::from(Span::styled("─".repeat(area.width.into()), style));
    frame.buffer_mut().set_line(area.x, area.y, &line, area.width);
}
