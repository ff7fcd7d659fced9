//! Plain painting of calls.

use ratatui::text::{Line, Span};

use crate::tui::paint::{Theme, wrap};
use crate::tui::state::{Phase, ToolEntry};

/// A call and what came of it.
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
