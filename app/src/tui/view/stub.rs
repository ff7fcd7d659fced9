//! Plain painting of replies and calls.

use ratatui::text::{Line, Span};

use crate::tui::paint::{Theme, wrap};
use crate::tui::state::{Phase, ToolEntry};

/// A text that grows: finished lines are wrapped once.
pub(super) struct Markdown {
    width: u16,
    done: usize,
    kept: usize,
    lines: Vec<Line<'static>>,
}

impl Markdown {
    pub(super) fn new(width: u16) -> Self {
        Markdown { width, done: 0, kept: 0, lines: Vec::new() }
    }
    pub(super) fn update(&mut self, text: &str, _finished: bool, theme: &Theme) -> &[Line<'static>] {
        self.lines.truncate(self.kept);
        if let Some(end) = text[self.done..].rfind('\n') {
            self.lines.extend(wrap(&text[self.done..self.done + end + 1], self.width, theme.text));
            self.done += end + 1;
            self.kept = self.lines.len();
        }
        self.lines.extend(wrap(&text[self.done..], self.width, theme.text));
        &self.lines
    }
    pub(super) fn lines(&self) -> &[Line<'static>] {
        &self.lines
    }
}

pub(super) fn tool(call: &ToolEntry, width: u16, open: bool, theme: &Theme) -> Vec<Line<'static>> {
    let arguments = call.value().map_or_else(|| call.raw.clone(), |value| value.to_string());
    let mut head = wrap(&format!("{} {arguments}", call.name), width, theme.text);
    head.truncate(if open { 40 } else { 1 });
    if let Some(result) = call.result() {
        let text = result.text();
        let all = wrap(text.trim_end(), width.saturating_sub(2), theme.dim);
        let most = if open { usize::MAX } else { 3 };
        let more = all.len().saturating_sub(most);
        head.extend(all.into_iter().take(most).map(indent));
        if more > 0 {
            head.push(indent(Line::from(Span::styled(format!("… {more} more lines"), theme.dim))));
        }
    } else if call.phase == Phase::Running {
        let all = wrap(&call.tail, width.saturating_sub(2), theme.dim);
        let skip = all.len().saturating_sub(if open { 20 } else { 5 });
        head.extend(all.into_iter().skip(skip).map(indent));
    }
    head
}

fn indent(mut line: Line<'static>) -> Line<'static> {
    line.spans.insert(0, Span::raw("  "));
    line
}
