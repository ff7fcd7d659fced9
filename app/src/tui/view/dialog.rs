//! The dialog for a pending call, which replaces the prompt.

use std::ops::Range;

use loopwright_core::event::ExternalAction;
use loopwright_core::message::CallId;
use loopwright_core::tool::DecisionKind;
use loopwright_tools::protected_file;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::input::{draw_input, draw_rule};
use super::question::question_lines;
use crate::output::sanitized;
use crate::terms;
use crate::tui::paint::{self, Theme, arguments, wrap};
use crate::tui::state::{Dialog, Mode, Prompt, Scroll, State};
use crate::wording;

/// The layout and the scroll position of the dialog.
#[derive(Debug, Default)]
pub(super) struct DialogView {
    call: Option<CallId>,
    /// The inputs of the layout: the width, the revision, the number of languages, and the lines
    /// about the terms of the action.
    laid_out_for: (u16, u64, usize, Vec<String>),
    lines: Vec<Line<'static>>,
    top: usize,
    /// The largest value of `top`.
    max_top: usize,
    rows: usize,
    /// The lines of the current option, if it must be made visible.
    follow: Option<Range<usize>>,
}

impl DialogView {
    /// Scrolls the arguments.
    pub(super) fn scroll(&mut self, how: Scroll) {
        let by = |top: usize, by: i32| match usize::try_from(by) {
            Ok(down) => top + down,
            Err(_) => top.saturating_sub(by.unsigned_abs() as usize),
        };
        let page = i32::try_from(self.rows.saturating_sub(1).max(1)).unwrap_or(i32::MAX);
        let to = match how {
            Scroll::Lines(lines) => by(self.top, lines),
            Scroll::Pages(pages) => by(self.top, pages.saturating_mul(page)),
            Scroll::Top => 0,
            Scroll::Bottom => self.max_top,
            Scroll::Show(_) => self.top,
        };
        self.top = to.min(self.max_top);
    }

    /// Returns the number of lines for the dialog: at most two thirds of the screen.
    pub(super) fn height(&mut self, state: &State, theme: &Theme, area: Rect) -> u16 {
        let Some(action) = state.dialog.current() else {
            return 0;
        };
        self.lay_out(&state.dialog, action, state.now, area.width - 4, theme);
        let body = self.lines.len();
        // A rule, the title, and an empty line below the title and the body.
        let rest = 4 + Below::new(state, action, area.width - 4, theme).height;
        let max_height = (area.height * 2 / 3).max(rest + 1).min(area.height.saturating_sub(1));
        u16::try_from(body).unwrap_or(u16::MAX).saturating_add(rest).min(max_height)
    }

    fn lay_out(
        &mut self,
        dialog: &Dialog,
        action: &ExternalAction,
        now: u64,
        width: u16,
        theme: &Theme,
    ) {
        // A diff is not highlighted by language.
        let languages = if let Some(Ok(_)) = dialog.preview() { 0 } else { paint::languages() };
        let terms = terms::lines(action, now);
        let laid_out_for = (width, dialog.revision, languages, terms);
        let same = self.call.as_ref() == Some(&action.call);
        if !same || self.laid_out_for != laid_out_for {
            let terms = laid_out_for.3.iter();
            let mut above: Vec<_> =
                terms.flat_map(|line| wrap(&sanitized(line), width, theme.dim)).collect();
            if !above.is_empty() {
                above.push(Line::default());
            }
            let offset = above.len();
            let (lines, option) = match dialog.question() {
                Some(question) => question_lines(question, &dialog.mode, width, theme),
                None => (body(dialog, action, width, theme), None),
            };
            above.extend(lines);
            let lines = above;
            let option = option.map(|lines| lines.start + offset..lines.end + offset);
            // A question is shown from its beginning, until the user moves.
            let (top, follow) = if same { (self.top, option) } else { (0, None) };
            let call = Some(action.call.clone());
            *self = DialogView { call, laid_out_for, lines, top, max_top: 0, rows: 0, follow };
        }
    }

    /// Draws the title, as many lines of the arguments as fit, and the answers.
    pub(super) fn draw(&mut self, state: &State, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
        let dialog = &state.dialog;
        let mark = Line::from(Span::styled("›", theme.accent));
        let Some(action) = dialog.current() else {
            return;
        };
        draw_rule(frame, area, theme.accent);
        let inner =
            Rect::new(area.x + 2, area.y + 1, area.width - 4, area.height.saturating_sub(1));
        let mut y = inner.y;
        frame.buffer_mut().set_line(inner.x, y, &title(dialog, action, theme), inner.width);
        y += 2;
        let Below { problem, text, answers, height } =
            Below::new(state, action, inner.width, theme);
        let below = height + u16::from(area.height > 6);
        let rows = usize::from(inner.bottom().saturating_sub(y + below));
        let lines = &self.lines;
        let hides = lines.len() > rows;
        let visible = if hides { rows.saturating_sub(1) } else { rows };
        self.max_top = lines.len().saturating_sub(visible);
        self.rows = visible;
        if let Some(option) = self.follow.take() {
            let lowest = option.end.saturating_sub(visible);
            self.top = self.top.max(lowest).min(option.start);
        }
        self.top = self.top.min(self.max_top);
        let hidden = lines.len().saturating_sub(self.top + visible);
        for line in lines.iter().skip(self.top).take(visible) {
            frame.buffer_mut().set_line(inner.x, y, line, inner.width);
            y += 1;
        }
        if hides {
            let text = if hidden > 0 {
                format!("↓ {hidden} more lines")
            } else {
                "↑ Up scrolls back".to_owned()
            };
            frame.buffer_mut().set_line(
                inner.x,
                y,
                &Line::from(Span::styled(text, theme.accent)),
                inner.width,
            );
            y += 1;
        }
        y = y.max(inner.bottom().saturating_sub(below)) + u16::from(area.height > 6);
        for (line, at) in problem.iter().zip(y..inner.bottom()) {
            frame.buffer_mut().set_line(inner.x, at, line, inner.width);
            y = at + 1;
        }
        if let Some((text, height)) = text {
            let height = height.min(inner.bottom().saturating_sub(y));
            frame.buffer_mut().set_line(area.x, y, &mark, 1);
            draw_input(text, frame, Rect::new(inner.x, y, inner.width, height));
            y += height;
        }
        if takes_a_letter(dialog, state.now) && y < area.bottom() {
            frame.buffer_mut().set_line(area.x, y, &mark, 1);
        }
        for (line, y) in answers.iter().zip(y..area.bottom()) {
            frame.buffer_mut().set_line(inner.x, y, line, inner.width);
        }
    }
}

/// The part of the dialog below the arguments.
struct Below<'a> {
    problem: Vec<Line<'static>>,
    /// The text input and its height.
    text: Option<(&'a Prompt, u16)>,
    answers: Vec<Line<'static>>,
    height: u16,
}

impl<'a> Below<'a> {
    fn new(state: &'a State, action: &ExternalAction, width: u16, theme: &Theme) -> Self {
        let dialog = &state.dialog;
        let mut problem =
            dialog.problem.as_ref().map(|why| wrap(why, width, theme.error)).unwrap_or_default();
        problem.truncate(usize::from(state.size.1 / 3).max(1));
        let text = writing(dialog).map(|text| (text, text.height(width).clamp(1, 8)));
        let answers = answers(dialog, action, state.now, theme, width);
        let lines = u16::try_from(problem.len() + answers.len()).unwrap_or(u16::MAX);
        Below { problem, height: lines + text.map_or(0, |(_, height)| height), text, answers }
    }
}

/// Returns whether a single letter is an answer.
fn takes_a_letter(dialog: &Dialog, now: u64) -> bool {
    matches!(dialog.mode, Mode::Choose) && !dialog.sent && !dialog.ignores_keys(now)
}

fn writing(dialog: &Dialog) -> Option<&Prompt> {
    match &dialog.mode {
        Mode::Choose | Mode::Options(_) => None,
        Mode::Reason(text) | Mode::Edit(text) | Mode::Answer(text) => Some(text),
    }
}

fn title(dialog: &Dialog, action: &ExternalAction, theme: &Theme) -> Line<'static> {
    let agent = sanitized(&wording::agent(action)).into_owned();
    let what = match &action.request {
        Some(_) if dialog.question().is_some() && agent.is_empty() => "The agent asks".to_owned(),
        Some(_) if dialog.question().is_some() => format!("{agent} asks"),
        None if dialog.is_changed(&action.call) => {
            format!("Run {} with your changes?", action.name)
        }
        None => format!("Run {}?", action.name),
        Some(need) => format!("{} needs: {}", action.name, need.kind),
    };
    let what = match agent.is_empty() || dialog.question().is_some() {
        true => what,
        false => format!("{agent}: {what}"),
    };
    let mut spans = vec![Span::styled(what, theme.accent.add_modifier(Modifier::BOLD))];
    let (this, all) = dialog.position();
    if all > 1 {
        spans.push(Span::styled(format!("  {this} of {all}"), theme.dim));
    }
    Line::from(spans)
}

/// Lays out the diff of an edit, else the arguments by name.
fn body(dialog: &Dialog, action: &ExternalAction, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(need) = &action.request {
        lines.extend(value(&need.data, width, theme));
        let all = arguments(&action.name, &action.arguments, width, theme);
        if !lines.is_empty() && !all.is_empty() {
            lines.push(Line::default());
        }
        lines.extend(all);
        return lines;
    }
    if let Some(note) = protected_file(&action.name, &action.arguments) {
        lines.extend(wrap(&note, width, theme.warning));
    }
    match dialog.preview() {
        Some(Ok(diff)) if diff.is_empty() => {
            lines.extend(wrap(
                "No change: the file already has this content.",
                width,
                theme.warning,
            ));
            lines.extend(arguments(&action.name, &action.arguments, width, theme));
        }
        Some(Ok(diff)) => {
            if let Some(path) = action.arguments.get("path").and_then(Value::as_str) {
                lines.extend(wrap(path, width, theme.text));
            }
            // The name of the file is already shown above.
            let hunks = &diff[diff.find("@@").unwrap_or(0)..];
            lines.extend(paint::diff(hunks, width, theme));
            lines.extend(arguments("", &beside_the_diff(action), width, theme));
        }
        Some(Err(why)) => {
            lines.extend(wrap(why, width, theme.warning));
            lines.extend(arguments(&action.name, &action.arguments, width, theme));
        }
        None => lines.extend(arguments(&action.name, &action.arguments, width, theme)),
    }
    lines
}

/// Returns the arguments that a diff does not show.
fn beside_the_diff(action: &ExternalAction) -> Value {
    let visible: &[&str] = match &*action.name {
        "edit_file" => &["path", "old_string", "new_string"],
        _ => &["path", "content"],
    };
    let named = action.arguments.as_object().into_iter().flatten();
    let rest = named.filter(|(name, _)| !visible.contains(&name.as_str()));
    Value::Object(rest.map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// Lays out what a suspended tool asks for.
fn value(value: &Value, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => wrap(text, width, theme.text),
        other => arguments("", other, width, theme),
    }
}

/// Lays out the keys that answer, dimmed while keys are ignored.
fn answers(
    dialog: &Dialog,
    action: &ExternalAction,
    now: u64,
    theme: &Theme,
    width: u16,
) -> Vec<Line<'static>> {
    let always = format!("always {}", action.name);
    let keys: &[(&str, &str)] = match &dialog.mode {
        _ if dialog.sent => &[("…", "")],
        Mode::Choose => {
            &[("y", "yes"), ("n", "no"), ("e", "edit"), ("a", &always), ("Esc", "later")]
        }
        Mode::Options(options) if options.is_several() => &[
            ("↑↓", "move"),
            ("Space", "choose"),
            ("Enter", "answer"),
            ("n", "decline"),
            ("Esc", "later"),
        ],
        Mode::Options(_) => {
            &[("↑↓", "choose"), ("Enter", "answer"), ("n", "decline"), ("Esc", "later")]
        }
        Mode::Reason(_) if dialog.question().is_some() => {
            &[("Enter", "decline, for this reason"), ("Esc", "back")]
        }
        Mode::Reason(_) => &[("Enter", "no, for this reason"), ("Esc", "back")],
        Mode::Edit(_) => &[("Ctrl+S", "done"), ("Esc", "back")],
        Mode::Answer(_) if dialog.question().is_some() => {
            &[("Enter", "answer"), ("Ctrl+X", "decline"), ("Esc", "later")]
        }
        Mode::Answer(_) => &[("Enter", "answer"), ("Ctrl+X", "refuse"), ("Esc", "later")],
    };
    let ignores_keys =
        !matches!(dialog.mode, Mode::Reason(_) | Mode::Edit(_)) && dialog.ignores_keys(now);
    let mut lines = vec![Line::default()];
    let mut room = usize::from(width);
    let is_offered = |key: &str| match (&dialog.mode, key) {
        (Mode::Choose, "y") => dialog.allows(DecisionKind::Approve),
        (Mode::Choose, "e") => dialog.allows(DecisionKind::ApproveWith),
        (Mode::Choose, "a") => action.path.is_empty() && dialog.allows(DecisionKind::Approve),
        _ => true,
    };
    for (key, what) in keys.iter().filter(|(key, _)| is_offered(key)) {
        let is_quiet = ignores_keys && *key != "Esc";
        let spans = [
            Span::styled((*key).to_owned(), if is_quiet { theme.dim } else { theme.accent }),
            Span::styled(format!(" {}   ", sanitized(what)), theme.dim),
        ];
        let wide: usize = spans.iter().map(Span::width).sum();
        if wide.saturating_sub(3) > room && room < width.into() {
            lines.push(Line::default());
            room = width.into();
        }
        room = room.saturating_sub(wide);
        if let Some(line) = lines.last_mut() {
            line.spans.extend(spans);
        }
    }
    lines
}
