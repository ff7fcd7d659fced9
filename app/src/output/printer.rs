//! Events as text: the answer on standard output, tool calls and thinking on standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal};
use std::sync::Arc;

use loopwright_core::event::{Role, RunOutcome};
use loopwright_core::log::Stage;
use loopwright_core::message::{MessageKind, ResultStatus};
use loopwright_core::model::Update;
use loopwright_core::tool::TodoList;
use loopwright_core::{AgentEvent, Environment as _, Message, SystemEnvironment};
use loopwright_patterns::{GoalEnd, GoalProgress};

use super::format::shortened;
use super::sanitize::sanitized;
use super::streams::{Style, line, write_stderr, write_stdout};
use super::verbosity::Verbosity;
use crate::wording;

/// A printer of a session's events as text.
pub(crate) struct Printer {
    verbosity: Verbosity,
    /// `true` if the answer is printed while it streams; otherwise the caller prints it at the end.
    streams: bool,
    shows_thinking: bool,
    cursor: Cursor,
    /// `true` once a part of the current message was printed.
    printed: bool,
    /// `true` if the current message had text that streamed.
    has_text: bool,
    /// The stage of the pattern's work, and the number of its visits.
    stage: Option<(Arc<str>, u32)>,
}

/// The kind of text on the current line.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cursor {
    LineStart,
    /// The answer, on standard output.
    Answer,
    /// Text on standard error.
    Note,
}

impl Printer {
    /// Creates a printer that streams the answer. On a terminal it also shows the thinking.
    pub(crate) fn new() -> Self {
        Self::with(Verbosity::Normal, true)
    }

    /// Creates a printer with this verbosity. Without `streams`, it does not print the answer.
    pub(crate) fn with(verbosity: Verbosity, streams: bool) -> Self {
        let shows_thinking = match verbosity {
            Verbosity::Quiet => false,
            Verbosity::Normal => io::stderr().is_terminal(),
            Verbosity::Verbose => true,
        };
        let cursor = Cursor::LineStart;
        let (printed, has_text, stage) = (false, false, None);
        Printer { verbosity, streams, shows_thinking, cursor, printed, has_text, stage }
    }

    pub(super) fn verbosity(&self) -> Verbosity {
        self.verbosity
    }

    /// Prints an event. Fails if standard output cannot be written.
    pub(super) fn show(&mut self, event: &AgentEvent) -> io::Result<()> {
        match event {
            AgentEvent::MessageStart { .. } => (self.printed, self.has_text) = (false, false),
            AgentEvent::MessageUpdate { update, .. } => self.update(update)?,
            AgentEvent::MessageEnd { message } if message.is_detached() => {
                // Whole, since several can stream at once.
                if let MessageKind::Detached(shown) = &message.body {
                    let text = shown.reply.text();
                    self.note_line(&format!("[{}] {}", shown.speaker, text.trim()))?;
                }
            }
            AgentEvent::MessageEnd { message } => {
                // The pattern's own messages do not stream.
                if message.role() == Role::Assistant && !self.has_text {
                    self.answer(&message.text())?;
                }
                self.end_line()?
            }
            AgentEvent::AgentEnd(outcome) => {
                self.end_line()?;
                if let Some(note) = wording::asleep(outcome, SystemEnvironment.now()) {
                    self.note_line(&format!("({note})"))?;
                }
            }
            AgentEvent::ToolExecutionStart { name, arguments, .. } => {
                let is_verbose = self.verbosity == Verbosity::Verbose;
                let text = if is_verbose { None } else { wording::todos(arguments) };
                let text = text.unwrap_or_else(|| arguments.to_string());
                let text = if is_verbose { Cow::from(&text) } else { shortened(&text) };
                self.note_line(&format!("→ {name} {text}"))?;
            }
            AgentEvent::ToolExecutionEnd { name, status, result, .. } => {
                let text = match (TodoList::written(result), self.verbosity) {
                    (Some(list), _) => format!("✓ {name}:{}", indented(&list.to_string())),
                    (None, Verbosity::Verbose) => whole_result(name, *status, result),
                    (None, _) => result_line(name, *status, result),
                };
                self.note_line(&text)?;
            }
            AgentEvent::Retry(notice) => {
                let seconds = notice.delay_ms.div_ceil(1000);
                self.note_line(&format!("({})", wording::retry(notice, seconds)))?
            }
            AgentEvent::Compaction(done) => {
                self.note_line(&format!("({})", wording::compaction(done)))?
            }
            event => {
                if let Some(end) = GoalEnd::of(event) {
                    self.note_line(&format!("({})", wording::goal(&end)))?
                } else if let Some(progress) = GoalProgress::of(event) {
                    self.note_line(&format!("({})", wording::goal_progress(&progress)))?
                }
                if let Some(line) = Stage::all(event).and_then(|stages| self.begun(&stages)) {
                    self.note_line(&line)?
                }
            }
        }
        Ok(())
    }

    /// Prints the tokens and the cost of a run, if the output is verbose.
    pub(super) fn show_usage(&mut self, outcome: &RunOutcome) -> io::Result<()> {
        match self.verbosity {
            Verbosity::Verbose => self.note_line(&usage_line(outcome)),
            _ => Ok(()),
        }
    }

    /// Returns the line for the stage that has begun, if one has.
    fn begun(&mut self, stages: &[Stage]) -> Option<String> {
        let stage = wording::current(stages);
        let visit = stage.map(|stage| (stage.name.clone(), stage.visits));
        let is_new = self.stage != visit;
        self.stage = visit;
        stage.filter(|_| is_new).map(|stage| format!("● {}", wording::stage(stage)))
    }

    fn update(&mut self, update: &Update) -> io::Result<()> {
        match update {
            Update::Text { delta, .. } => {
                self.has_text = true;
                self.answer(delta)
            }
            Update::Thinking { delta, .. } if self.shows_thinking => self.note(delta),
            Update::Withdrawn if self.printed => {
                self.printed = false;
                self.note_line("(The reply broke off. The part shown above no longer counts.)")
            }
            _ => Ok(()),
        }
    }

    /// Prints a line on standard error.
    fn note_line(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        if self.verbosity.notes() {
            line(text, Style::Dim);
        }
        Ok(())
    }

    /// Ends the current line, if it is not empty.
    fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.cursor, Cursor::LineStart) {
            Cursor::LineStart => {}
            Cursor::Answer => write_stdout("\n")?,
            Cursor::Note => write_stderr("\n", Style::Plain),
        }
        Ok(())
    }

    /// Prints a part of the answer.
    fn answer(&mut self, delta: &str) -> io::Result<()> {
        match (self.streams, self.verbosity) {
            (true, _) => {}
            (false, Verbosity::Verbose) => return self.note(delta),
            (false, _) => return Ok(()),
        }
        if delta.is_empty() {
            return Ok(());
        }
        if self.cursor == Cursor::Note {
            self.end_line()?;
        }
        self.printed = true;
        self.cursor = if delta.ends_with('\n') { Cursor::LineStart } else { Cursor::Answer };
        write_stdout(&sanitized(delta))
    }

    /// Prints text that is not the answer.
    fn note(&mut self, delta: &str) -> io::Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        if self.cursor == Cursor::Answer {
            self.end_line()?;
        }
        self.printed = true;
        self.cursor = if delta.ends_with('\n') { Cursor::LineStart } else { Cursor::Note };
        write_stderr(&sanitized(delta), Style::Dim);
        Ok(())
    }
}

fn result_line(name: &str, status: ResultStatus, result: &Message) -> String {
    let text = result.text();
    let first = shortened(text.trim().lines().next().unwrap_or("no text"));
    match (status, text.trim().lines().count()) {
        (ResultStatus::Ok, 0 | 1) => format!("✓ {name}: {first}"),
        (ResultStatus::Ok, lines) => format!("✓ {name} ({lines} lines)"),
        _ => format!("✗ {name}: {first}"),
    }
}

fn whole_result(name: &str, status: ResultStatus, result: &Message) -> String {
    let mark = if status == ResultStatus::Ok { '✓' } else { '✗' };
    format!("{mark} {name}:{}", indented(&result.text()))
}

/// Returns each line of the text on a line of its own, indented.
fn indented(text: &str) -> String {
    text.trim_end().lines().map(|line| format!("\n  {line}")).collect()
}

/// Returns the tokens since the user's last request, and their cost where prices are known.
fn usage_line(outcome: &RunOutcome) -> String {
    let usage = &outcome.usage;
    let mut line = format!("({} tokens in", usage.input + usage.cache_read + usage.cache_write);
    if usage.cache_read > 0 {
        line += &format!(", {} of them cached", usage.cache_read);
    }
    line += &format!("; {} out", usage.output);
    if usage.reasoning > 0 {
        line += &format!(", {} of them thinking", usage.reasoning);
    }
    if outcome.cost > 0.0 {
        line += &format!("; ${:.4}", outcome.cost);
    }
    line + ")"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// C545: A line is printed when a stage begins, and not when only its branches change.
    #[test]
    fn a_stage_that_begins_is_one_line() {
        let mut printer = Printer::new();
        let mut lines = |data: serde_json::Value| {
            let event = AgentEvent::Custom { kind: "stages".into(), data: data.into() };
            Stage::all(&event).and_then(|stages| printer.begun(&stages))
        };
        let read = |done: u32, visits: u32| {
            let branches = json!({ "of": 3, "done": done });
            json!([{ "name": "read", "since": 1, "visits": visits, "branches": branches }])
        };
        assert_eq!(lines(read(0, 1)).unwrap(), "● read · 3 branches");
        assert_eq!(lines(read(1, 1)), None);
        assert_eq!(lines(read(1, 2)).unwrap(), "● read · 3 branches: 1 done");
        assert_eq!(lines(json!([{ "name": "read", "since": 1, "until": 2 }])), None);
        assert_eq!(lines(json!([{ "name": "read", "since": 3 }])).unwrap(), "● read");
    }
}
