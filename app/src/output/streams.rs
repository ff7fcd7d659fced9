//! Writers of standard output and standard error.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

use super::sanitize::sanitized;
use crate::environment::started_as;
use crate::error::StartError;
use crate::wording::no_colour;

/// The style of text on standard error if it is a terminal.
#[derive(Clone, Copy)]
pub(super) enum Style {
    Plain,
    Dim,
    Red,
}

/// Writes a line to standard error that needs no action from the user.
pub(crate) fn info(text: &str) {
    line(text, Style::Dim);
}

/// Writes a line to standard error that the user should read carefully.
pub(crate) fn notice(text: &str) {
    line(text, Style::Plain);
}

/// Writes a question to standard error; on a terminal the answer is typed on the same line.
pub(crate) fn question(text: &str) {
    let end = if io::stdin().is_terminal() { ' ' } else { '\n' };
    write_stderr(&format!("{}{end}", sanitized(text)), Style::Plain);
}

/// Returns the prefix of lines with errors.
pub(crate) fn error_prefix() -> String {
    format!("{}: ", started_as())
}

/// Writes an error to standard error.
pub(crate) fn error(what: &(impl Display + ?Sized)) {
    line(&format!("{}{what}", error_prefix()), Style::Red);
}

/// Writes text to standard output without control characters, and ends its last line. A pipe gets
/// the same as a terminal, since it can end at one: `loopwright actions | less -R`.
pub(crate) fn text(text: &str) -> io::Result<()> {
    let end = if text.is_empty() || text.ends_with('\n') { "" } else { "\n" };
    write_stdout(&format!("{}{end}", sanitized(text)))
}

/// Writes text that another program reads to standard output: unchanged, unless it is a terminal.
pub(crate) fn data(data: &str) -> io::Result<()> {
    if io::stdout().is_terminal() { text(data) } else { write_stdout(data) }
}

/// Returns the exit code of a command after its last write to standard output.
///
/// A closed pipe counts as success: the reader has seen enough.
pub(crate) fn after_write(written: io::Result<()>) -> Result<u8, StartError> {
    match written {
        Err(why) if why.kind() != ErrorKind::BrokenPipe => {
            Err(StartError(format!("Standard output cannot be written: {why}.")))
        }
        _ => Ok(0),
    }
}

/// Writes a line to standard error.
pub(super) fn line(text: &str, style: Style) {
    write_stderr(&format!("{}\n", sanitized(text)), style);
}

/// Writes to standard output and flushes it.
pub(super) fn write_stdout(text: &str) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

/// Writes to standard error. Ignores a failure, since no other stream could report it.
pub(super) fn write_stderr(text: &str, style: Style) {
    let mut err = io::stderr().lock();
    let colour = match style {
        Style::Plain => "",
        Style::Dim => "\x1b[2m",
        Style::Red => "\x1b[31m",
    };
    if colour.is_empty() || no_colour() || !err.is_terminal() {
        let _ = err.write_all(text.as_bytes());
    } else {
        let (shown, end) = text.split_at(text.trim_end_matches('\n').len());
        let _ = write!(err, "{colour}{shown}\x1b[0m{end}");
    }
}
