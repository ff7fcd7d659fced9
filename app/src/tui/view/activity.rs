//! Above the prompt: what goes on, and what waits in the queues.

use ratatui::text::{Line, Span};

use crate::telling::{time, waiting};
use crate::tui::paint::{Theme, wrap};
use crate::tui::state::{Doing, Run, State};

const SPINNER: [&str; 10] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
/// The first that fits is shown.
const HINTS: [&str; 2] = [" · Esc interrupts", " · Esc"];
/// The most lines of messages that wait.
const QUEUED: usize = 4;

/// The lines, an empty one before them.
pub(super) fn lines(state: &State, theme: &Theme, width: u16) -> Vec<Line<'static>> {
    let mut lines = vec![Line::default()];
    lines.extend(working(state, theme, width));
    let (steering, later) = &state.queues;
    let queued: Vec<(&str, &String)> = steering
        .iter()
        .map(|text| ("next", text))
        .chain(later.iter().map(|text| ("later", text)))
        .collect();
    let more = queued.len().saturating_sub(QUEUED);
    for (when, text) in queued.into_iter().take(QUEUED) {
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
    let spinner = SPINNER[(state.now / 100 % SPINNER.len() as u64) as usize];
    let (what, since) = match &state.run {
        Run::Working { stopping: true, since, .. } => ("Stopping".to_owned(), Some(*since)),
        _ if state.dialog.is_open() => return None,
        Run::Rest | Run::Working { .. } if state.dialog.waiting() > 0 => {
            let waits = waiting(state.dialog.waiting()).unwrap_or_default() + " for your answer";
            return Some(Line::from(vec![
                Span::styled("? ", theme.warning),
                Span::styled(waits, theme.text),
                Span::styled(" · Tab", theme.dim),
            ]));
        }
        Run::Working { since, doing, .. } => (words(doing), Some(*since)),
        Run::Opening => ("Opening".to_owned(), None),
        Run::Closed | Run::Rest => return None,
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

fn words(doing: &Doing) -> String {
    match doing {
        Doing::Asking => "Waiting for the model".into(),
        Doing::Thinking => "Thinking".into(),
        Doing::Writing => "Writing".into(),
        Doing::Calling => "Preparing a call".into(),
        Doing::Running(name) => format!("Running {name}"),
        Doing::SummaryCompaction => "Summarising".into(),
    }
}
