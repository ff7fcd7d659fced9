//! A tool call: [`tool`] as it is written, runs and ends, and [`arguments()`] for the one who is to
//! allow it.

mod arguments;
mod telling;
mod terminal;
#[cfg(test)]
mod tests;

use std::time::Duration;

use loopwright_core::message::{Content, ResultStatus, ToolResult};
use ratatui::style::Style;
use ratatui::text::Line;
use serde_json::Value;

pub(crate) use self::arguments::arguments;
use self::terminal::without_escapes;
use super::diff::diff;
use super::flow::{Piece, columns, shorten, wrap};
use super::theme::Theme;
use crate::telling::time;

/// How many lines are shown of what a running tool prints.
const TAIL: usize = 5;
/// How many lines are shown of an error whose result is closed.
const ERROR: usize = 10;
/// How many lines are shown of a result that is open.
const MOST: usize = 2_000;
/// So much room, in columns, has the telling argument before counts and times are left out for it.
const ARGUMENT: usize = 12;
/// What of a result is looked at, in bytes.
const BYTES: usize = 1024 * 1024;

/// How far a call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolPhase {
    /// The model writes its arguments.
    Writing,
    /// It waits for its turn, or to be allowed.
    Waiting,
    /// It runs.
    Running,
    /// It has a result.
    Done(ResultStatus),
}

/// What is to be seen of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolLook<'a> {
    /// The tool's name.
    pub(crate) name: &'a str,
    /// Its arguments, once they are whole.
    pub(crate) arguments: Option<&'a Value>,
    /// The arguments' JSON, as far as it is written.
    pub(crate) raw: &'a str,
    /// How far it is.
    pub(crate) phase: ToolPhase,
    /// How long it has been running, or ran.
    pub(crate) elapsed: Option<Duration>,
    /// What it has printed so far: the last lines.
    pub(crate) tail: &'a [String],
    /// Its result, if it is done.
    pub(crate) result: Option<&'a ToolResult>,
    /// Whether the whole result is shown.
    pub(crate) open: bool,
}

/// A line that says what is called and how far it is, and what of the result is to be seen below
/// it, set in by two columns. Errors are always to be seen.
pub(crate) fn tool(look: &ToolLook<'_>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = vec![header(look, width.into(), theme)];
    let inset = if width < 8 { 0 } else { 2 };
    let mut body = body(look, width - inset, theme);
    if inset > 0 {
        let full = body.iter_mut().filter(|line| !line.spans.is_empty());
        full.for_each(|line| line.spans.insert(0, Piece::raw("  ")));
    }
    lines.append(&mut body);
    lines
}

fn header(look: &ToolLook<'_>, width: usize, theme: &Theme) -> Line<'static> {
    let details = details(look);
    let (mark, style) = match look.phase {
        ToolPhase::Writing => ("…", theme.dim),
        ToolPhase::Waiting => ("○", theme.warning),
        ToolPhase::Running => ("●", theme.accent),
        ToolPhase::Done(ResultStatus::Ok) if failed(details) => ("✗", theme.warning),
        ToolPhase::Done(ResultStatus::Ok) => ("✓", theme.ok),
        ToolPhase::Done(ResultStatus::Error) => ("✗", theme.error),
        ToolPhase::Done(ResultStatus::Denied) => ("⊘", theme.warning),
        ToolPhase::Done(ResultStatus::Skipped) => ("–", theme.dim),
        ToolPhase::Done(ResultStatus::Aborted) => ("■", theme.warning),
        ToolPhase::Done(_) => ("?", theme.warning),
    };
    let mut pieces = vec![Piece::styled(shorten(mark, width), style)];
    let mut left = width.saturating_sub(columns(mark));
    let mut add = |text: String, style: Style| {
        let text = if left > 1 { shorten(&text, left) } else { String::new() };
        left -= columns(&text).min(left);
        pieces.push(Piece::styled(text, style));
        left
    };
    let left = add(format!(" {}", look.name), theme.strong);
    let telling = match look.arguments {
        Some(arguments) => telling::argument(look.name, arguments),
        None => telling::written(look.raw),
    };
    let mut after = measures(look, details, theme);
    let taken = |after: &[Piece]| after.iter().map(|piece| columns(&piece.content)).sum::<usize>();
    while !after.is_empty() && left < taken(&after) + columns(&telling).min(ARGUMENT) {
        after.pop();
    }
    let room = left - taken(&after);
    if !telling.is_empty() && room > 4 {
        add(format!(" {}", shorten(&telling, room - 1)), theme.text);
    }
    for piece in after {
        add(piece.content.into_owned(), piece.style);
    }
    pieces.retain(|piece| !piece.content.is_empty());
    Line::from(pieces)
}

/// Counts and times, each with two spaces before it, the ones that matter most first.
fn measures(look: &ToolLook<'_>, details: Option<&Value>, theme: &Theme) -> Vec<Piece> {
    let number = |name: &str| details.and_then(|details| details[name].as_i64());
    let mut measures = Vec::new();
    if let (Some(added), Some(removed)) = (number("added"), number("removed")) {
        measures.push(Piece::styled(format!("  +{added}"), theme.added));
        measures.push(Piece::styled(format!(" −{removed}"), theme.removed));
    }
    match (number("exit_code"), number("signal")) {
        (Some(code), _) if code != 0 => {
            measures.push(Piece::styled(format!("  exit {code}"), theme.warning))
        }
        (_, Some(signal)) => {
            measures.push(Piece::styled(format!("  signal {signal}"), theme.warning))
        }
        _ => {}
    }
    if look.phase == ToolPhase::Writing && look.raw.len() >= 1_000 {
        measures.push(Piece::styled(format!("  {} KB", look.raw.len() / 1_000), theme.dim));
    }
    if let Some(elapsed) = look.elapsed.filter(|elapsed| elapsed.as_secs() > 0) {
        measures.push(Piece::styled(format!("  {}", time(elapsed.as_secs())), theme.dim));
    }
    measures
}

/// Whether a command that could be run says that it failed.
fn failed(details: Option<&Value>) -> bool {
    details.is_some_and(|details| {
        details["exit_code"].as_i64().is_some_and(|code| code != 0) || details["signal"].is_number()
    })
}

fn details<'a>(look: &ToolLook<'a>) -> Option<&'a Value> {
    look.result.and_then(|result| result.details.as_deref())
}

fn body(look: &ToolLook<'_>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let ToolPhase::Done(status) = look.phase else {
        let tail = &look.tail[look.tail.len().saturating_sub(TAIL)..];
        let line =
            |line: &String| Line::styled(shorten(&without_escapes(line), width.into()), theme.dim);
        return tail.iter().map(line).collect();
    };
    let Some(result) = look.result else {
        return Vec::new();
    };
    let text = text(result);
    let bad = match status {
        ResultStatus::Ok => None,
        ResultStatus::Error => Some(theme.error),
        _ => Some(theme.warning),
    };
    match bad {
        Some(style) => {
            bounded(text.trim_end(), if look.open { MOST } else { ERROR }, width, style, theme)
        }
        None if look.open => opened(look, &text, width, theme),
        None => vec![Line::styled(shorten(&summary(look, &text), width.into()), theme.dim)],
    }
}

/// A result in a few words.
fn summary(look: &ToolLook<'_>, text: &str) -> String {
    // The exit code is in the line above.
    let is_command = details(look).is_some_and(|details| !details["exit_code"].is_null());
    let text = match text.split_once('\n') {
        Some((first, rest)) if is_command && first.starts_with("Exit code") => rest,
        _ => text,
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    match (lines.next(), lines.next()) {
        (None, _) => "no text".into(),
        (Some(only), None) => only.trim().into(),
        _ => format!("{} lines", text.trim_end().lines().count()),
    }
}

/// The whole of a result.
fn opened(look: &ToolLook<'_>, text: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let details = details(look);
    if let Some(unified) =
        details.and_then(|details| details["diff"].as_str()).filter(|diff| !diff.is_empty())
    {
        // The names of the files are in the line above.
        let hunks = unified.find("@@ ").map_or(unified, |at| &unified[at..]);
        let mut lines = cut(diff(hunks, width, theme), width, theme);
        if details.is_some_and(|details| details["cut"] == true) {
            lines.extend(wrap("… the diff is longer", width, theme.dim));
        }
        return lines;
    }
    let mut lines = bounded(text.trim_end(), MOST, width, theme.text, theme);
    if let (true, Some(content)) = (look.name == "write_file", look.arguments) {
        lines.extend(cut(arguments::content(content, width, theme), width, theme));
    }
    lines
}

/// Text in at most so many lines, with a note of how many are left out.
fn bounded(text: &str, most: usize, width: u16, style: Style, theme: &Theme) -> Vec<Line<'static>> {
    let (mut lines, mut rest) = (Vec::new(), text.lines());
    while lines.len() < most
        && let Some(line) = rest.next()
    {
        lines.append(&mut match line {
            "" => vec![Line::default()],
            line => wrap(line, width, style),
        });
    }
    let left = lines.len().saturating_sub(most) + rest.count();
    lines.truncate(most);
    note(left, &mut lines, width, theme);
    lines
}

fn cut(mut lines: Vec<Line<'static>>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let left = lines.len().saturating_sub(MOST);
    lines.truncate(MOST);
    note(left, &mut lines, width, theme);
    lines
}

fn note(left: usize, lines: &mut Vec<Line<'static>>, width: u16, theme: &Theme) {
    if left > 0 {
        let s = if left == 1 { "" } else { "s" };
        lines.extend(wrap(&format!("… {left} more line{s}"), width, theme.dim));
    }
}

/// What a result says, as a terminal shows it; of images, that they are there.
fn text(result: &ToolResult) -> String {
    let mut text = String::new();
    for content in &result.content {
        match content {
            Content::Text { text: more } => {
                text.push_str(&without_escapes(&more[..more.floor_char_boundary(BYTES)]))
            }
            Content::Image { media_type, .. } => text.push_str(&format!("[image: {media_type}]\n")),
            _ => text.push_str("[something that is no text]\n"),
        }
    }
    text
}
