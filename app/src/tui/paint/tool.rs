//! A tool call: [`tool`] lays out its progress and result, [`arguments()`] its complete arguments
//! for the user who decides.

mod arguments;
mod headline;
mod terminal;
#[cfg(test)]
mod tests;

use std::time::Duration;

use loopwright_core::message::{Content, ResultStatus, ToolResult};
use loopwright_core::tool::TodoList;
use ratatui::style::Style;
use ratatui::text::Line;
use serde::Deserialize;
use serde_json::Value;

pub(crate) use self::arguments::arguments;
use self::terminal::without_escapes;
use super::diff::diff;
use super::flow::{Fragment, columns, shorten, wrap};
use super::theme::Theme;
use super::todos::todos;
use crate::wording::time;

/// Maximum number of lines of a running tool's output.
const MAX_TAIL_LINES: usize = 5;
/// Maximum number of lines of a folded call's error.
const MAX_ERROR_LINES: usize = 10;
/// Maximum number of lines of an open result.
const MAX_RESULT_LINES: usize = 2_000;
/// Minimum width of the main argument, in columns. Counts and times are left out to make room for
/// it.
const MIN_ARGUMENT_COLUMNS: usize = 12;
/// Maximum number of bytes of a result that are laid out.
const MAX_RESULT_BYTES: usize = 1024 * 1024;

/// The phase of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ToolPhase {
    /// The model is writing the arguments.
    Writing,
    /// Waiting for its turn or for approval.
    Waiting,
    Running,
    /// Ended with a result.
    Done(ResultStatus),
}

/// The displayed state of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ToolView<'a> {
    /// The name of the tool.
    pub(crate) name: &'a str,
    /// The arguments, once they are complete.
    pub(crate) arguments: Option<&'a Value>,
    /// The JSON of the arguments as far as it is written.
    pub(crate) raw: &'a str,
    /// The phase of the call.
    pub(crate) phase: ToolPhase,
    /// The time for which it has been running, or ran.
    pub(crate) elapsed: Option<Duration>,
    /// The last lines of its output.
    pub(crate) tail: &'a [String],
    /// The result, if it is done.
    pub(crate) result: Option<&'a ToolResult>,
    /// `true` if the whole result is shown.
    pub(crate) open: bool,
}

/// Lays out a header line with the name and the progress of the call, and the result below it,
/// indented by two columns. Errors are always shown.
pub(crate) fn tool(call: &ToolView<'_>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = vec![header(call, width.into(), theme)];
    let inset = if width < 8 { 0 } else { 2 };
    let mut body = body(call, width - inset, theme);
    if inset > 0 {
        let full = body.iter_mut().filter(|line| !line.spans.is_empty());
        full.for_each(|line| line.spans.insert(0, Fragment::raw("  ")));
    }
    lines.append(&mut body);
    lines
}

fn header(call: &ToolView<'_>, width: usize, theme: &Theme) -> Line<'static> {
    let details = details(call);
    let (mark, style) = match call.phase {
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
    let mut fragments = vec![Fragment::styled(shorten(mark, width), style)];
    let mut left = width.saturating_sub(columns(mark));
    let mut add = |text: String, style: Style| {
        let text = if left > 1 { shorten(&text, left) } else { String::new() };
        left -= columns(&text).min(left);
        fragments.push(Fragment::styled(text, style));
        left
    };
    let left = add(format!(" {}", call.name), theme.strong);
    let headline = match call.arguments {
        Some(arguments) => headline::complete(call.name, arguments),
        None => headline::partial(call.raw),
    };
    let mut after = measures(call, details, theme);
    let taken =
        |after: &[Fragment]| after.iter().map(|fragment| columns(&fragment.content)).sum::<usize>();
    while !after.is_empty() && left < taken(&after) + columns(&headline).min(MIN_ARGUMENT_COLUMNS) {
        after.pop();
    }
    let room = left - taken(&after);
    if !headline.is_empty() && room > 4 {
        add(format!(" {}", shorten(&headline, room - 1)), theme.text);
    }
    for fragment in after {
        add(fragment.content.into_owned(), fragment.style);
    }
    fragments.retain(|fragment| !fragment.content.is_empty());
    Line::from(fragments)
}

/// Returns counts and times, each with leading spaces, most important first.
fn measures(call: &ToolView<'_>, details: Option<&Value>, theme: &Theme) -> Vec<Fragment> {
    let number = |name: &str| details.and_then(|details| details[name].as_i64());
    let mut measures = Vec::new();
    if let (Some(added), Some(removed)) = (number("added"), number("removed")) {
        measures.push(Fragment::styled(format!("  +{added}"), theme.added));
        measures.push(Fragment::styled(format!(" −{removed}"), theme.removed));
    }
    match (number("exit_code"), number("signal")) {
        (Some(code), _) if code != 0 => {
            measures.push(Fragment::styled(format!("  exit {code}"), theme.warning))
        }
        (_, Some(signal)) => {
            measures.push(Fragment::styled(format!("  signal {signal}"), theme.warning))
        }
        _ => {}
    }
    if call.phase == ToolPhase::Writing && call.raw.len() >= 1_000 {
        measures.push(Fragment::styled(format!("  {} KB", call.raw.len() / 1_000), theme.dim));
    }
    if let Some(elapsed) = call.elapsed.filter(|elapsed| elapsed.as_secs() > 0) {
        measures.push(Fragment::styled(format!("  {}", time(elapsed.as_secs())), theme.dim));
    }
    measures
}

/// Returns whether a command has failed, by its exit code or signal.
fn failed(details: Option<&Value>) -> bool {
    details.is_some_and(|details| {
        details["exit_code"].as_i64().is_some_and(|code| code != 0) || details["signal"].is_number()
    })
}

fn details<'a>(call: &ToolView<'a>) -> Option<&'a Value> {
    call.result.and_then(|result| result.details.as_deref())
}

/// Returns the todo list that the call wrote.
fn written(call: &ToolView<'_>) -> Option<TodoList> {
    TodoList::deserialize(details(call)?.get("todos")?).ok()
}

fn body(call: &ToolView<'_>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let ToolPhase::Done(status) = call.phase else {
        let tail = &call.tail[call.tail.len().saturating_sub(MAX_TAIL_LINES)..];
        let line =
            |line: &String| Line::styled(shorten(&without_escapes(line), width.into()), theme.dim);
        return tail.iter().map(line).collect();
    };
    let Some(result) = call.result else {
        return Vec::new();
    };
    if let Some(list) = written(call) {
        // The header says how many are done.
        return if call.open { todos(&list, usize::MAX, width, theme) } else { Vec::new() };
    }
    let text = text(result);
    let bad = match status {
        ResultStatus::Ok => None,
        ResultStatus::Error => Some(theme.error),
        _ => Some(theme.warning),
    };
    match bad {
        Some(style) => bounded(
            text.trim_end(),
            if call.open { MAX_RESULT_LINES } else { MAX_ERROR_LINES },
            width,
            style,
            theme,
        ),
        None if call.open => opened(call, &text, width, theme),
        None => vec![Line::styled(shorten(&summary(call, &text), width.into()), theme.dim)],
    }
}

/// Summarises a result in a few words.
fn summary(call: &ToolView<'_>, text: &str) -> String {
    // The exit code is in the header.
    let is_command = details(call).is_some_and(|details| !details["exit_code"].is_null());
    let text = match text.split_once('\n') {
        Some((first, rest)) if is_command && first.starts_with("Exit code") => rest,
        _ => text,
    };
    let mut lines = text.lines().filter(|line| !line.trim().is_empty());
    match (lines.next(), lines.next()) {
        (None, _) => "no output".into(),
        (Some(only), None) => only.trim().into(),
        _ => format!("{} lines", text.trim_end().lines().count()),
    }
}

/// Lays out the whole result, and for a sub-agent also its whole task and its session.
fn opened(call: &ToolView<'_>, text: &str, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let details = details(call);
    if let Some(unified) =
        details.and_then(|details| details["diff"].as_str()).filter(|diff| !diff.is_empty())
    {
        // The names of the files are in the header.
        let hunks = unified.find("@@ ").map_or(unified, |at| &unified[at..]);
        let mut lines = cut(diff(hunks, width, theme), width, theme);
        if details.is_some_and(|details| details["cut"] == true) {
            lines.extend(wrap("… the diff is longer", width, theme.dim));
        }
        return lines;
    }
    let session = details.filter(|details| !details["end"].is_null());
    let session = session.and_then(|details| details["session"].as_str());
    let mut lines = Vec::new();
    if let (Some(_), Some(arguments)) = (session, call.arguments) {
        lines.extend(wrap(arguments["task"].as_str().unwrap_or_default(), width, theme.dim));
    }
    lines.extend(bounded(text.trim_end(), MAX_RESULT_LINES, width, theme.text, theme));
    if let Some(session) = session {
        lines.extend(wrap(&format!("The sub-agent's session is {session}."), width, theme.dim));
    }
    if let (true, Some(content)) = (call.name == "write_file", call.arguments) {
        lines.extend(cut(arguments::content(content, width, theme), width, theme));
    }
    lines
}

/// Lays out at most `max` lines of text, and notes how many are left out.
fn bounded(text: &str, max: usize, width: u16, style: Style, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    let mut rest = text.lines();
    while lines.len() < max
        && let Some(line) = rest.next()
    {
        lines.append(&mut match line {
            "" => vec![Line::default()],
            line => wrap(line, width, style),
        });
    }
    let left = lines.len().saturating_sub(max) + rest.count();
    lines.truncate(max);
    note(left, &mut lines, width, theme);
    lines
}

fn cut(mut lines: Vec<Line<'static>>, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let left = lines.len().saturating_sub(MAX_RESULT_LINES);
    lines.truncate(MAX_RESULT_LINES);
    note(left, &mut lines, width, theme);
    lines
}

fn note(left: usize, lines: &mut Vec<Line<'static>>, width: u16, theme: &Theme) {
    if left > 0 {
        let s = if left == 1 { "" } else { "s" };
        lines.extend(wrap(&format!("… {left} more line{s}"), width, theme.dim));
    }
}

/// Returns the text of a result as a terminal shows it, with images as placeholders.
fn text(result: &ToolResult) -> String {
    let mut text = String::new();
    for content in &result.content {
        match content {
            Content::Text { text: more } => {
                text.push_str(&without_escapes(&more[..more.floor_char_boundary(MAX_RESULT_BYTES)]))
            }
            Content::Image { media_type, .. } => text.push_str(&format!("[image: {media_type}]\n")),
            _ => text.push_str("[content that is not text]\n"),
        }
    }
    text
}
