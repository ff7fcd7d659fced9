//! Events as lines: what the model says on standard output, what it does on standard error.

use std::borrow::Cow;
use std::io::{self, IsTerminal};

use loopwright_core::event::{RunOutcome, Update};
use loopwright_core::message::ResultStatus;
use loopwright_core::{AgentEvent, Message};

use super::{Style, Volume, harmless, json, line, say, short, tell_failure, whisper};
use crate::telling;

/// Shows a conversation as it goes on.
pub(crate) struct Printer {
    /// Standard output is a terminal, where control characters could do harm.
    terminal: bool,
    volume: Volume,
    /// Text goes to standard output as it comes. Otherwise whoever asked prints the answer when
    /// there is one.
    streams: bool,
    /// What the model thinks is shown.
    thinks: bool,
    cursor: Cursor,
    /// Something of the message that streams has been shown.
    shown: bool,
}

/// What stands on the line that is not finished.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cursor {
    Nothing,
    Text,
    Detached,
}

impl Printer {
    /// At the start of a line. What the model thinks is for people who watch.
    pub(crate) fn new() -> Self {
        Self::of(Volume::Normal, true)
    }

    /// One that tells so much, and streams text or leaves the answer to whoever asked.
    pub(crate) fn of(volume: Volume, streams: bool) -> Self {
        let thinks = match volume {
            Volume::Quiet => false,
            Volume::Normal => io::stderr().is_terminal(),
            Volume::Verbose => true,
        };
        let terminal = io::stdout().is_terminal();
        Printer { terminal, volume, streams, thinks, cursor: Cursor::Nothing, shown: false }
    }

    /// Shows what is to be seen of an event. Fails if standard output does.
    pub(crate) fn show(&mut self, event: &AgentEvent) -> io::Result<()> {
        match event {
            AgentEvent::MessageStart { .. } => self.shown = false,
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                self.text(delta)?
            }
            AgentEvent::MessageUpdate { update: Update::Thinking { delta, .. }, .. }
                if self.thinks =>
            {
                self.detached(delta)?;
            }
            AgentEvent::MessageUpdate { update: Update::Withdrawn, .. } if self.shown => {
                self.shown = false;
                self.tell("(The reply broke off; what was shown of it no longer counts.)")?;
            }
            AgentEvent::MessageEnd { .. } => self.end_line()?,
            AgentEvent::ToolExecutionStart { name, arguments, .. } => {
                let arguments = json(arguments);
                let verbose = self.volume == Volume::Verbose;
                let arguments = if verbose { Cow::from(&arguments) } else { short(&arguments) };
                self.tell(&format!("→ {name} {arguments}"))?;
            }
            AgentEvent::ToolExecutionEnd { name, status, result, .. }
                if self.volume == Volume::Verbose =>
            {
                self.tell(&whole_result(name, *status, result))?;
            }
            AgentEvent::ToolExecutionEnd { name, status, result, .. } => {
                self.tell(&result_line(name, *status, result))?;
            }
            AgentEvent::Compaction(done) => {
                self.tell(&format!("({})", telling::compaction(done)))?
            }
            AgentEvent::AgentEnd(outcome) => {
                self.end_line()?;
                tell_failure(outcome, self.volume);
                if self.volume == Volume::Verbose {
                    self.tell(&spent_line(outcome))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A line about what goes on.
    fn tell(&mut self, text: &str) -> io::Result<()> {
        self.end_line()?;
        if self.volume != Volume::Quiet {
            line(text, Style::Dim);
        }
        Ok(())
    }

    /// Ends the line that is not finished, so that something else can be told.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.cursor, Cursor::Nothing) {
            Cursor::Nothing => {}
            Cursor::Text => say("\n")?,
            Cursor::Detached => whisper("\n", Style::Plain),
        }
        Ok(())
    }

    fn text(&mut self, delta: &str) -> io::Result<()> {
        match (self.streams, self.volume) {
            (true, _) => {}
            (false, Volume::Verbose) => return self.detached(delta),
            (false, _) => return Ok(()),
        }
        if delta.is_empty() {
            return Ok(());
        }
        if self.cursor == Cursor::Detached {
            self.end_line()?;
        }
        self.shown = true;
        self.cursor = if delta.ends_with('\n') { Cursor::Nothing } else { Cursor::Text };
        if self.terminal { say(&harmless(delta)) } else { say(delta) }
    }

    /// Text that is not the answer.
    fn detached(&mut self, delta: &str) -> io::Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        if self.cursor == Cursor::Text {
            self.end_line()?;
        }
        self.shown = true;
        self.cursor = if delta.ends_with('\n') { Cursor::Nothing } else { Cursor::Detached };
        whisper(&harmless(delta), Style::Dim);
        Ok(())
    }
}

fn result_line(name: &str, status: ResultStatus, result: &Message) -> String {
    let text = result.text();
    let first = short(text.trim().lines().next().unwrap_or("no text"));
    match (status, text.trim().lines().count()) {
        (ResultStatus::Ok, 0 | 1) => format!("✓ {name}: {first}"),
        (ResultStatus::Ok, lines) => format!("✓ {name} ({lines} lines)"),
        _ => format!("✗ {name}: {first}"),
    }
}

fn whole_result(name: &str, status: ResultStatus, result: &Message) -> String {
    let mark = if status == ResultStatus::Ok { '✓' } else { '✗' };
    let text = result.text();
    let lines = text.trim_end().lines().map(|line| format!("\n  {line}"));
    format!("{mark} {name}:{}", lines.collect::<String>())
}

/// What was used since the last request of the user; what it cost as far as prices are known.
fn spent_line(outcome: &RunOutcome) -> String {
    let usage = &outcome.usage;
    let mut spent = format!("({} tokens in", usage.input + usage.cache_read + usage.cache_write);
    if usage.cache_read > 0 {
        spent += &format!(", {} of them cached", usage.cache_read);
    }
    spent += &format!("; {} out", usage.output);
    if usage.reasoning > 0 {
        spent += &format!(", {} of them thoughts", usage.reasoning);
    }
    if outcome.cost > 0.0 {
        spent += &format!("; ${:.4}", outcome.cost);
    }
    spent + ")"
}
