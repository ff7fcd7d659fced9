//! The last line: the model, the session, tokens, cost and the use of the context window.

use loopwright_core::model::ThinkingLevel;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use crate::tui::paint::Theme;
use crate::tui::state::State;

/// Minimum use of the context window that is shown as a warning, in percent.
const CONTEXT_WARNING_PERCENT: u64 = 80;
/// Minimum use of the context window that is shown as an error, in percent.
const CONTEXT_ERROR_PERCENT: u64 = 95;

/// Lays out names on the left and numbers on the right, leaving out what does not fit.
pub(super) fn line(state: &State, theme: &Theme, width: u16) -> Line<'static> {
    let width = usize::from(width);
    if state.quit_deadline.is_some() {
        return Line::from(Span::styled("Press Ctrl+C again to quit", theme.warning));
    }
    let status = &state.status;
    let mut left = Vec::new();
    if let Some(model) = &status.model {
        let short = model.id.rsplit('/').next().unwrap_or(&model.id);
        left.push(if width < 60 && model.id.len() > 20 {
            short.to_owned()
        } else {
            model.id.to_string()
        });
    }
    if status.thinking != ThinkingLevel::Off {
        left.push(format!("thinking {}", status.thinking));
    }
    if let Some(session) = status.session.as_ref().filter(|_| width >= 60) {
        left.push(if status.is_persistent { session.to_string() } else { "not saved".into() });
    }
    if width >= 100 {
        left.push(status.root.display().to_string());
    }
    let mut right: Vec<(String, Style)> = Vec::new();
    if status.usage.total() > 0 {
        right.push((format!("{} tokens", count(status.usage.total())), theme.dim));
    }
    if status.cost > 0.0 {
        right.push((dollars(status.cost), theme.dim));
    }
    if let Some(share) = status.share() {
        let style = match share {
            0..CONTEXT_WARNING_PERCENT => theme.dim,
            CONTEXT_WARNING_PERCENT..CONTEXT_ERROR_PERCENT => theme.warning,
            _ => theme.error,
        };
        right.push((format!("{share} % full"), style));
    }
    fit(&mut left, &mut right, width);
    let numbers: usize =
        right.iter().map(|(text, _)| text.chars().count() + 3).sum::<usize>().saturating_sub(3);
    let names = left.join(" · ");
    let space = width.saturating_sub(names.chars().count() + numbers);
    let mut spans = vec![Span::styled(names, theme.dim), Span::raw(" ".repeat(space))];
    for (at, (text, style)) in right.into_iter().enumerate() {
        if at > 0 {
            spans.push(Span::styled(" · ", theme.dim));
        }
        spans.push(Span::styled(text, style));
    }
    Line::from(spans)
}

/// Drops what does not fit: names from the right, then numbers from the left.
fn fit(left: &mut Vec<String>, right: &mut Vec<(String, Style)>, width: usize) {
    let size = |left: &[String], right: &[(String, Style)]| {
        left.iter().map(|text| text.chars().count() + 3).sum::<usize>()
            + right.iter().map(|(text, _)| text.chars().count() + 3).sum::<usize>()
    };
    while size(left, right) > width + 3 {
        if left.len() > 1 {
            left.pop();
        } else if right.len() > 1 {
            right.remove(0);
        } else {
            return;
        }
    }
}

/// Formats a number of tokens as `950`, `12.3k` or `1.05M`.
fn count(tokens: u64) -> String {
    match tokens {
        0..1000 => tokens.to_string(),
        1000..100_000 => format!("{:.1}k", tokens as f64 / 1e3),
        100_000..1_000_000 => format!("{}k", tokens / 1000),
        _ => format!("{:.2}M", tokens as f64 / 1e6),
    }
}

fn dollars(cost: f64) -> String {
    if cost < 0.1 { format!("${cost:.4}") } else { format!("${cost:.2}") }
}
