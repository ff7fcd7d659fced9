//! A todo list, each item on a line.

use loopwright_core::tool::{TodoItem, TodoList, TodoStatus};
use ratatui::text::Line;

use super::flow::{Fragment, shorten};
use super::theme::Theme;

/// Lays out at most `max` items of the list, from the last one that is completed before the first
/// that is not.
pub(crate) fn todos(list: &TodoList, max: usize, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let items = &list.items;
    let is_open = |item: &TodoItem| item.status != TodoStatus::Completed;
    let first_open = items.iter().position(is_open).unwrap_or(items.len());
    let first = first_open.saturating_sub(1).min(items.len().saturating_sub(max));
    items.iter().skip(first).take(max).map(|item| line(item, width, theme)).collect()
}

fn line(item: &TodoItem, width: u16, theme: &Theme) -> Line<'static> {
    let (mark, mark_style, style) = match item.status {
        TodoStatus::Completed => ("✓", theme.ok, theme.dim),
        TodoStatus::InProgress => ("●", theme.accent, theme.text),
        TodoStatus::Pending => ("○", theme.dim, theme.text),
    };
    let text = shorten(&format!("{mark} {}", item.content), width.into());
    let rest = text.strip_prefix(mark).unwrap_or_default().to_owned();
    Line::from(vec![Fragment::styled(mark, mark_style), Fragment::styled(rest, style)])
}
