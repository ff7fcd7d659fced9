//! The lines above the prompt: the current activity, the stages of the pattern's work, the todo
//! list and the queued messages.

use loopwright_core::event::QueueKind;
use ratatui::text::{Line, Span};

use crate::tui::paint::{Theme, stages, todos, wrap};
use crate::tui::state::{Activity, Run, State};
use crate::wording::{retry, time, waiting};

const SPINNER_FRAMES: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// Hints, of which the first that fits is shown.
const HINTS: [&str; 2] = [" · Esc interrupts", " · Esc"];
/// Maximum number of queued messages that are shown.
const MAX_QUEUED_LINES: usize = 4;
/// Maximum number of stages that are shown.
const MAX_STAGE_LINES: usize = 3;
/// Maximum number of items of the todo list that are shown.
const MAX_TODO_LINES: usize = 6;

/// Returns the lines, the first one empty.
pub(super) fn lines(state: &State, theme: &Theme, width: u16) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    lines.extend(working(state, theme, width));
    if !state.dialog.is_open() {
        let room = width.saturating_sub(4).max(1);
        let now = state.is_working().then_some(state.now);
        let stages = stages(&state.stages, MAX_STAGE_LINES, now, room, theme);
        let list = state.transcript.open_todos();
        let todos = list.map(|list| todos(list, MAX_TODO_LINES, room, theme));
        for mut line in stages.into_iter().chain(todos.into_iter().flatten()) {
            line.spans.insert(0, Span::raw("  "));
            lines.push(line);
        }
    }
    let next = state.queues.texts(QueueKind::Steering).map(|text| ("next", text));
    let later = state.queues.texts(QueueKind::FollowUp).map(|text| ("later", text));
    let queued: Vec<(&str, &str)> = next.chain(later).collect();
    let more = queued.len().saturating_sub(MAX_QUEUED_LINES);
    for (when, text) in queued.into_iter().take(MAX_QUEUED_LINES) {
        let room = width.saturating_sub(12).max(8);
        let mut all = wrap(text.trim(), room, theme.dim).into_iter();
        let mut line = vec![Span::styled(format!("  {when:<7}"), theme.accent)];
        line.extend(all.next().unwrap_or_default().spans);
        if all.next().is_some() {
            line.push(Span::styled(" …", theme.dim));
        }
        lines.push(Line::from(line));
    }
    if more > 0 {
        lines.push(Line::from(Span::styled(format!("  and {more} more"), theme.dim)));
    }
    lines
}

fn working(state: &State, theme: &Theme, width: u16) -> Option<Line<'static>> {
    let spinner = SPINNER_FRAMES[(state.now / 100 % SPINNER_FRAMES.len() as u64) as usize];
    let (what, since) = match &state.run {
        Run::Working { stopping: true, since, .. } => ("Stopping".to_owned(), Some(*since)),
        _ if state.dialog.is_open() => return None,
        Run::Closed | Run::Idle if state.is_opening => ("Opening".to_owned(), None),
        Run::Idle | Run::Working { .. } if state.dialog.waiting() > 0 => {
            let waits = waiting(state.dialog.actions()).unwrap_or_default() + " for your decision";
            return Some(Line::from(vec![
                Span::styled("? ", theme.warning),
                Span::styled(waits, theme.text),
                Span::styled(" · Tab", theme.dim),
            ]));
        }
        Run::Working { since, activity, .. } => (describe(activity, state.now), Some(*since)),
        Run::Closed | Run::Idle => return None,
    };
    let mut line =
        vec![Span::styled(format!("{spinner} "), theme.accent), Span::styled(what, theme.text)];
    if let Some(since) = since {
        let seconds = state.now.saturating_sub(since) / 1000;
        line.push(Span::styled(format!("  {}", time(seconds)), theme.dim));
        let used: usize = line.iter().map(Span::width).sum();
        let fits = |hint: &&str| used + hint.chars().count() <= usize::from(width);
        line.extend(HINTS.into_iter().find(fits).map(|hint| Span::styled(hint, theme.dim)));
    }
    Some(Line::from(line))
}

fn describe(activity: &Activity, now: u64) -> String {
    match activity {
        Activity::Requesting => "Waiting for the model".into(),
        Activity::Retrying(notice, until) if *until > now => {
            retry(notice, (until - now).div_ceil(1000))
        }
        Activity::Retrying(..) => "Waiting for the model".into(),
        Activity::Thinking => "Thinking".into(),
        Activity::Writing => "Writing".into(),
        Activity::Calling => "Preparing a call".into(),
        Activity::Running(name) => format!("Running {name}"),
        Activity::Compacting => "Summarising".into(),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use loopwright_core::model::{ModelError, ModelErrorKind, RetryNotice};

    use super::*;

    #[test]
    fn a_retry_is_counted_down() {
        let failed = ModelError::new(ModelErrorKind::Overloaded, "the server is busy");
        let notice = RetryNotice::new(2, 10, Duration::from_secs(70), &failed);
        let waiting = Activity::Retrying(Arc::new(notice), 100_000);
        let text = |now| describe(&waiting, now);
        assert_eq!(
            [30_000, 99_001].map(text),
            ["1m 10s", "1s"].map(|left| {
                format!("The server is busy. Trying again in {left} (attempt 2 of 10)")
            })
        );
        assert_eq!(text(100_000), "Waiting for the model");
    }
}
