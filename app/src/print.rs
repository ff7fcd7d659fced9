//! Events as lines on a terminal: what the model says on standard output, all else on standard error.

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use loopwright::{
    AgentEvent, Ambient, Compaction, EndKind, ExternalAction, Limit, Message, ResultStatus, RunOutcome, SystemAmbient,
    Update,
};
use serde::Serialize;
use serde_json::Value;

use crate::agent::StartError;

/// Characters of a call's arguments, or of a result, that a line shows.
const WIDTH: usize = 160;

/// Shows a conversation as it goes on.
pub(crate) struct Printer {
    /// Standard output is a terminal, where control characters could do harm.
    terminal: bool,
    /// Thinking is for people who watch.
    watched: bool,
    cursor: Cursor,
    /// Something of the message that streams has been shown.
    shown: bool,
}

/// What stands on the line that is not finished.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cursor {
    Nothing,
    Text,
    Thinking,
}

/// How a line on standard error looks, if it is a terminal.
#[derive(Clone, Copy)]
enum Style {
    Plain,
    Dim,
    Red,
}

impl Printer {
    /// At the start of a line.
    pub(crate) fn new() -> Self {
        let (terminal, watched) = (io::stdout().is_terminal(), io::stderr().is_terminal());
        Printer { terminal, watched, cursor: Cursor::Nothing, shown: false }
    }

    /// Shows what is to be seen of an event. Fails if standard output does.
    pub(crate) fn show(&mut self, event: &AgentEvent) -> io::Result<()> {
        match event {
            AgentEvent::MessageStart { .. } => self.shown = false,
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => self.text(delta)?,
            AgentEvent::MessageUpdate { update: Update::Thinking { delta, .. }, .. } => self.thinking(delta)?,
            AgentEvent::MessageUpdate { update: Update::Withdrawn, .. } if self.shown => {
                self.end_line()?;
                self.shown = false;
                line("(The reply broke off; what was shown of it no longer counts.)", Style::Dim);
            }
            AgentEvent::MessageEnd { .. } => self.end_line()?,
            AgentEvent::ToolExecutionStart { name, arguments, .. } => {
                self.end_line()?;
                line(&format!("→ {name} {}", short(&json(arguments))), Style::Dim);
            }
            AgentEvent::ToolExecutionEnd { name, status, result, .. } => {
                self.end_line()?;
                line(&result_line(name, *status, result), Style::Dim);
            }
            AgentEvent::Compaction(done) => {
                self.end_line()?;
                line(&compaction_line(done), Style::Dim);
            }
            AgentEvent::AgentEnd(outcome) => {
                self.end_line()?;
                tell_failure(outcome);
            }
            _ => {}
        }
        Ok(())
    }

    /// Ends the line that is not finished, so that something else can be told.
    pub(crate) fn end_line(&mut self) -> io::Result<()> {
        match std::mem::replace(&mut self.cursor, Cursor::Nothing) {
            Cursor::Nothing => {}
            Cursor::Text => say("\n")?,
            Cursor::Thinking => whisper("\n", Style::Plain),
        }
        Ok(())
    }

    fn text(&mut self, delta: &str) -> io::Result<()> {
        if delta.is_empty() {
            return Ok(());
        }
        if self.cursor == Cursor::Thinking {
            self.end_line()?;
        }
        self.shown = true;
        self.cursor = if delta.ends_with('\n') { Cursor::Nothing } else { Cursor::Text };
        if self.terminal { say(&harmless(delta)) } else { say(delta) }
    }

    fn thinking(&mut self, delta: &str) -> io::Result<()> {
        if !self.watched || delta.is_empty() {
            return Ok(());
        }
        if self.cursor == Cursor::Text {
            self.end_line()?;
        }
        self.shown = true;
        self.cursor = if delta.ends_with('\n') { Cursor::Nothing } else { Cursor::Thinking };
        whisper(&harmless(delta), Style::Dim);
        Ok(())
    }
}

/// A line for the user, who need not act on it.
pub(crate) fn tell(text: &str) {
    line(text, Style::Dim);
}

/// A line that the user should read with care.
pub(crate) fn show(text: &str) {
    line(text, Style::Plain);
}

/// A line that the user is to answer; what is typed stands on the same line.
pub(crate) fn ask(text: &str) {
    let end = if io::stdin().is_terminal() { ' ' } else { '\n' };
    whisper(&format!("{}{end}", harmless(text)), Style::Plain);
}

/// A line about what went wrong.
pub(crate) fn complain(what: &(impl Display + ?Sized)) {
    line(&format!("loopwright: {what}"), Style::Red);
}

/// Why a run did not end well, if it did not, and what was not delivered.
pub(crate) fn tell_failure(outcome: &RunOutcome) {
    let why = outcome.error.as_deref();
    match outcome.end {
        EndKind::Done | EndKind::AwaitingAction => {}
        EndKind::Aborted => tell("Aborted."),
        EndKind::Limit if outcome.limit == Some(Limit::Turns) => {
            complain("the limit of turns is reached. What was done is kept; allow more with --max-turns N.");
        }
        EndKind::Limit => complain(&why.map_or("a limit is reached.".into(), sentence)),
        _ => complain(&why.map_or("the run failed.".into(), sentence)),
    }
    for text in &outcome.handed_back {
        tell(&format!("Not delivered: {}", short(text)));
    }
}

/// An event, or anything else, as a line of JSON on standard output.
pub(crate) fn json_line(event: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(event)?;
    line.push(b'\n');
    let mut out = io::stdout().lock();
    out.write_all(&line)?;
    out.flush()
}

/// Text on standard output, with the end of its last line.
pub(crate) fn text(text: &str) -> io::Result<()> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let text = if io::stdout().is_terminal() { harmless(text) } else { text.into() };
    say(&format!("{text}{end}"))
}

/// How long ago a time in milliseconds since 1970 was.
pub(crate) fn age(time: u64) -> String {
    let seconds = SystemAmbient.now().saturating_sub(time) / 1000;
    match seconds {
        _ if time == 0 => "-".into(),
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// The exit code where standard output took the text, or whoever read it has seen enough.
pub(crate) fn printed(done: io::Result<()>) -> Result<u8, StartError> {
    match done {
        Err(why) if why.kind() != io::ErrorKind::BrokenPipe => {
            Err(StartError(format!("Standard output takes no more text: {why}.")))
        }
        _ => Ok(0),
    }
}

/// A call that waits, with all of its arguments: nobody should approve what they were not shown.
pub(crate) fn call(action: &ExternalAction) -> String {
    format!("{} {}", action.name, json(&action.arguments))
}

/// The beginning of an action's digest, enough to name it.
pub(crate) fn digest(action: &ExternalAction) -> &str {
    action.digest.get(..12).unwrap_or(&action.digest)
}

/// A word as a shell takes it.
pub(crate) fn quoted(word: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/:".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.into()
    } else {
        format!("'{}'", word.replace('\'', "'\\''")).into()
    }
}

fn compaction_line(done: &Compaction) -> String {
    let Compaction { messages, tokens_before, tokens_after, .. } = done;
    let how = match (&done.error, done.summarised) {
        (_, true) => "are summarised for the model".to_owned(),
        (Some(why), false) => format!("are no longer shown to the model, since no summary could be had ({why})"),
        (None, false) => "are no longer shown to the model".to_owned(),
    };
    format!("({messages} older messages {how}: about {tokens_before} tokens before, {tokens_after} now.)")
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

fn json(value: &Value) -> String {
    value.to_string()
}

/// On one line, and not too long.
fn short(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]).into(),
        None => text.into(),
    }
}

/// With a full stop.
pub(crate) fn sentence(text: &str) -> String {
    let end = if text.ends_with(['.', '!', '?']) { "" } else { "." };
    format!("{text}{end}")
}

/// Without what a terminal would obey instead of show: escape sequences, and marks that turn the
/// order of letters round.
fn harmless(text: &str) -> Cow<'_, str> {
    let harms = |c: char| {
        c.is_control() && c != '\n' && c != '\t'
            || matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if text.contains(harms) { text.replace(harms, "\u{fffd}").into() } else { text.into() }
}

fn line(text: &str, style: Style) {
    whisper(&format!("{}\n", harmless(text)), style);
}

fn say(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// To standard error. If it is closed there is nobody to tell.
fn whisper(text: &str, style: Style) {
    let mut err = io::stderr().lock();
    let colour = match style {
        Style::Plain => "",
        Style::Dim => "\x1b[2m",
        Style::Red => "\x1b[31m",
    };
    let no_colour = std::env::var_os("NO_COLOR").is_some_and(|set| !set.is_empty());
    let _ = match colour {
        "" => err.write_all(text.as_bytes()),
        _ if no_colour || !err.is_terminal() => err.write_all(text.as_bytes()),
        colour => {
            write!(err, "{colour}{}\x1b[0m{}", text.trim_end_matches('\n'), &text[text.trim_end_matches('\n').len()..])
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_nothing_that_it_obeys() {
        assert_eq!(harmless("a\x1b[2Jb\u{9b}c\u{202e}d\n\té"), "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\n\té");
        assert!(matches!(harmless("plain"), Cow::Borrowed(_)));
    }

    #[test]
    fn errors_are_sentences() {
        assert_eq!(sentence("the limit of turns is reached"), "the limit of turns is reached.");
        assert_eq!(sentence("Done!"), "Done!");
        assert_eq!(short(&"é".repeat(200)).chars().count(), WIDTH + 1);
    }
}
