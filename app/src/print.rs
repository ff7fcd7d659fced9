//! Lines on a terminal or in a pipe: what was asked for on standard output, all else on standard
//! error.

mod printer;

use std::borrow::Cow;
use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use loopwright_core::agent::{Environment, SystemEnvironment};
use loopwright_core::event::{ExternalAction, RunOutcome};
use serde::Serialize;
use serde_json::Value;

pub(crate) use self::printer::Printer;
use crate::agent::StartError;
use crate::telling::{self, Failure};

/// Characters of a call's arguments, or of a result, that a line shows.
const WIDTH: usize = 160;

/// How much is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Volume {
    /// The answer, and errors.
    Quiet,
    /// What is done, in a line each; to people who watch also what the model thinks.
    #[default]
    Normal,
    /// All of it.
    Verbose,
}

/// How a line on standard error looks, if it is a terminal.
#[derive(Clone, Copy)]
enum Style {
    Plain,
    Dim,
    Red,
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
pub(crate) fn tell_failure(outcome: &RunOutcome, volume: Volume) {
    let tell = |text: &str| {
        if volume != Volume::Quiet {
            tell(text)
        }
    };
    match telling::failure(outcome) {
        None => {}
        Some(Failure::Aborted) => tell("Aborted."),
        Some(Failure::Turns) => {
            complain(
                "the limit of turns is reached. What was done is kept; allow more with --max-turns N.",
            );
        }
        Some(Failure::Limit(why) | Failure::Error(why)) => complain(&why),
    }
    for text in &outcome.handed_back {
        tell(&format!("Not delivered: {}", short(text)));
    }
}

/// An event, or anything else, as a line of JSON on standard output. On a terminal all that it
/// would obey is escaped: JSON itself asks that only of some.
pub(crate) fn json_line(event: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_string(event)?;
    if io::stdout().is_terminal() && line.contains(harms) {
        line = escaped(&line);
    }
    line.push('\n');
    say(&line)
}

/// JSON that means the same, without what a terminal would obey: it stands in strings only, and is
/// of one UTF-16 unit.
fn escaped(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + 16);
    for c in json.chars() {
        match harms(c) {
            true => out.push_str(&format!("\\u{:04x}", u32::from(c))),
            false => out.push(c),
        }
    }
    out
}

/// Text on standard output, with the end of its last line.
pub(crate) fn text(text: &str) -> io::Result<()> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    let text = if io::stdout().is_terminal() { harmless(text) } else { text.into() };
    say(&format!("{text}{end}"))
}

/// How long ago a time in milliseconds since 1970 was.
pub(crate) fn age(time: u64) -> String {
    let seconds = SystemEnvironment.now().saturating_sub(time) / 1000;
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

/// Whether a terminal would obey it instead of showing it: a part of an escape sequence, or a mark
/// that turns the order of letters round.
fn harms(c: char) -> bool {
    c.is_control() && c != '\n' && c != '\t'
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Without what a terminal would obey instead of show.
pub(crate) fn harmless(text: &str) -> Cow<'_, str> {
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
    let _ = match colour {
        "" => err.write_all(text.as_bytes()),
        _ if telling::no_colour() || !err.is_terminal() => err.write_all(text.as_bytes()),
        colour => {
            write!(
                err,
                "{colour}{}\x1b[0m{}",
                text.trim_end_matches('\n'),
                &text[text.trim_end_matches('\n').len()..]
            )
        }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_shown_nothing_that_it_obeys() {
        assert_eq!(
            harmless("a\x1b[2Jb\u{9b}c\u{202e}d\n\té"),
            "a\u{fffd}[2Jb\u{fffd}c\u{fffd}d\n\té"
        );
        assert!(matches!(harmless("plain"), Cow::Borrowed(_)));
        for mark in ["\u{61c}", "\u{200f}", "\u{2067}", "\u{7f}", "\u{80}", "\u{9f}"] {
            assert_eq!(harmless(mark), "\u{fffd}", "{mark:?}");
        }
    }

    #[test]
    fn json_for_a_terminal_means_what_it_meant() {
        let value = serde_json::json!({ "a\u{9b}": "\u{61c}é😀\u{202e}\u{7f}\n\u{1b}" });
        let shown = escaped(&value.to_string());
        assert_eq!(shown, r#"{"a\u009b":"\u061cé😀\u202e\u007f\n\u001b"}"#);
        assert_eq!(serde_json::from_str::<Value>(&shown).unwrap(), value);
    }

    #[test]
    fn what_is_told_of_a_call_is_short() {
        assert_eq!(short(&"é".repeat(200)).chars().count(), WIDTH + 1);
    }
}
