//! [`CheckError`]: a failed check of a session under test.

use std::error::Error;
use std::fmt;

use super::log_text::lines;
use crate::event::outcome::RunStatus;
use crate::log::entry::LogEntry;
use crate::message::MessageId;

/// A failed check of a session: what happened, in one sentence, and the part of the log that shows
/// it.
///
/// `Display` writes the sentence, then notes with data, then the log. `Debug` writes the same, so
/// that a test which unwraps or returns the error is readable.
#[derive(Clone, PartialEq, Eq)]
pub struct CheckError {
    sentence: String,
    notes: Vec<String>,
    log: String,
}

impl CheckError {
    /// Creates an error with this sentence. It begins with a small letter and has no full stop.
    pub fn new(sentence: impl Into<String>) -> Self {
        CheckError { sentence: sentence.into(), notes: Vec::new(), log: String::new() }
    }

    /// Creates the error of a difference at this position of a list: of `kind`, "message" say. A
    /// value is `None` after the end of its list.
    pub fn difference(
        kind: &str,
        at: usize,
        observed: Option<&str>,
        expected: Option<&str>,
    ) -> Self {
        let number = at + 1;
        match (observed, expected) {
            (None, Some(expected)) => Self::new(format!("{kind} {number} is missing"))
                .note(format!("Expected: `{expected}`")),
            (Some(observed), None) => Self::new(format!("{kind} {number} is one too many"))
                .note(format!("Observed: `{observed}`")),
            (observed, expected) => {
                let text = |value: Option<&str>| value.unwrap_or_default().to_owned();
                Self::new(format!("{kind} {number} differs"))
                    .note(format!("Observed: `{}`", text(observed)))
                    .note(format!("Expected: `{}`", text(expected)))
            }
        }
    }

    /// Prepends the circumstances to the sentence, such as "after a crash".
    pub fn when(mut self, circumstances: impl fmt::Display) -> Self {
        self.sentence = format!("{circumstances}, {}", self.sentence);
        self
    }

    /// Adds data or advice on lines of their own.
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// Adds the log that shows the error, unless there is one. The last entry is the entry in
    /// question. Runs that were done before are left out.
    pub fn log(mut self, log: &[LogEntry]) -> Self {
        if self.log.is_empty() && !log.is_empty() {
            let from = first_shown(log);
            let before = match from {
                0 => String::new(),
                _ => format!("      … {from} entries of runs that were done\n"),
            };
            self.log = format!("{before}{}", lines(log, from));
        }
        self
    }

    /// Adds the log up to the entry that adds this message to the conversation.
    pub fn log_until(self, log: &[LogEntry], message: MessageId) -> Self {
        let is_it = |entry: &LogEntry| entry.message().is_some_and(|added| added.id == message);
        let added = log.iter().position(is_it).map(|at| match &log[at] {
            LogEntry::Queued { input, .. } => {
                let is_delivery = |entry: &LogEntry| {
                    matches!(entry, LogEntry::Delivered { input: delivered } if delivered == input)
                };
                log.iter().position(is_delivery).unwrap_or(at)
            }
            _ => at,
        });
        self.log(&log[..added.map_or(log.len(), |at| at + 1)])
    }

    /// Adds the log up to the entry with this position among those for which `is` returns `true`.
    pub fn log_until_nth(
        self,
        log: &[LogEntry],
        position: usize,
        is: impl Fn(&LogEntry) -> bool,
    ) -> Self {
        let found = log.iter().enumerate().filter(|(_, entry)| is(entry)).nth(position);
        self.log(&log[..found.map_or(log.len(), |(at, _)| at + 1)])
    }

    /// Returns the sentence.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }
}

/// Returns the position after the last run that was done before the last entry.
fn first_shown(log: &[LogEntry]) -> usize {
    let ends = |entry: &LogEntry| matches!(entry, LogEntry::RunEnded { end: RunStatus::Done, .. });
    let before = &log[..log.len().saturating_sub(1)];
    before.iter().rposition(ends).map_or(0, |at| at + 1)
}

impl From<String> for CheckError {
    fn from(sentence: String) -> Self {
        Self::new(sentence)
    }
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.", self.sentence)?;
        self.notes.iter().try_for_each(|note| write!(f, "\n{note}"))?;
        if !self.log.is_empty() {
            write!(f, "\n\nThe log, up to there:\n{}", self.log.trim_end())?;
        }
        Ok(())
    }
}

impl fmt::Debug for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Error for CheckError {}
