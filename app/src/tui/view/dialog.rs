//! A call that waits for the user's answer, in the place of the prompt.

use loopwright::{CallId, ExternalAction};
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use serde_json::Value;

use super::{View, draw_writing, rule};
use crate::tui::paint::{self, Theme, arguments, wrap};
use crate::tui::state::{Dialog, Mode, Prompt, Scroll, State};

/// How far the dialog is scrolled, and what is in it.
#[derive(Debug, Default)]
pub(super) struct Place {
    call: Option<CallId>,
    /// What was laid out: for this width, which revision, with how many languages.
    laid: (u16, u64, usize),
    lines: Vec<Line<'static>>,
    top: usize,
    /// The last line that can be the first one.
    most: usize,
    rows: usize,
}

impl Place {
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
            Scroll::Bottom => self.most,
            Scroll::Show(_) => self.top,
        };
        self.top = to.min(self.most);
    }
}

impl View {
    /// The lines that it takes: at most two thirds of the screen.
    pub(super) fn dialog_lines(&mut self, state: &State, area: Rect) -> u16 {
        let Some(action) = state.dialog.current() else { return 0 };
        self.lay_out(&state.dialog, action, area.width - 4);
        let body = self.dialog.lines.len();
        let writing = writing(&state.dialog).map_or(0, |text| text.height(area.width - 4).clamp(1, 8));
        let rest = 5 + writing + u16::from(state.dialog.problem.is_some());
        let most = (area.height * 2 / 3).max(rest + 1).min(area.height.saturating_sub(1));
        u16::try_from(body).unwrap_or(u16::MAX).saturating_add(rest).min(most)
    }

    fn lay_out(&mut self, dialog: &Dialog, action: &ExternalAction, width: u16) {
        // A diff is in no language.
        let languages = if let Some(Ok(_)) = dialog.preview(&action.call) { 0 } else { paint::languages() };
        let laid = (width, dialog.revision, languages);
        let same = self.dialog.call.as_ref() == Some(&action.call);
        if !same || self.dialog.laid != laid {
            let lines = body(dialog, action, width, &self.theme);
            let top = if same { self.dialog.top } else { 0 };
            self.dialog = Place { call: Some(action.call.clone()), laid, lines, top, most: 0, rows: 0 };
        }
    }

    /// Draws it: what is asked, the arguments as far as they fit, the answers.
    pub(super) fn draw_dialog(&mut self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        let (dialog, theme) = (&state.dialog, &self.theme);
        let Some(action) = dialog.current() else { return };
        rule(frame, area, theme.accent);
        let inner = Rect::new(area.x + 2, area.y + 1, area.width - 4, area.height.saturating_sub(1));
        let mut y = inner.y;
        frame.buffer_mut().set_line(inner.x, y, &title(dialog, action, theme), inner.width);
        y += 2;
        let text = writing(dialog);
        let below = 1
            + u16::from(dialog.problem.is_some())
            + text.map_or(0, |text| text.height(inner.width).clamp(1, 8))
            + u16::from(area.height > 6);
        let rows = usize::from(inner.bottom().saturating_sub(y + below));
        let lines = &self.dialog.lines;
        let hides = lines.len() > rows;
        let shown = if hides { rows.saturating_sub(1) } else { rows };
        (self.dialog.most, self.dialog.rows) = (lines.len().saturating_sub(shown), shown);
        self.dialog.top = self.dialog.top.min(self.dialog.most);
        let hidden = lines.len().saturating_sub(self.dialog.top + shown);
        for line in lines.iter().skip(self.dialog.top).take(shown) {
            frame.buffer_mut().set_line(inner.x, y, line, inner.width);
            y += 1;
        }
        if hides {
            let text = if hidden > 0 { format!("↓ {hidden} more lines") } else { "↑ Up goes back".to_owned() };
            frame.buffer_mut().set_line(inner.x, y, &Line::from(Span::styled(text, theme.accent)), inner.width);
            y += 1;
        }
        y = y.max(inner.bottom().saturating_sub(below)) + u16::from(area.height > 6);
        if let Some(problem) = &dialog.problem {
            frame.buffer_mut().set_line(
                inner.x,
                y,
                &Line::from(Span::styled(problem.clone(), theme.error)),
                inner.width,
            );
            y += 1;
        }
        if let Some(text) = text {
            let height = text.height(inner.width).clamp(1, 8).min(inner.bottom().saturating_sub(y));
            frame.buffer_mut().set_line(area.x, y, &Line::from(Span::styled("›", theme.accent)), 1);
            draw_writing(text, frame, Rect::new(inner.x, y, inner.width, height));
            y += height;
        }
        if y < area.bottom() {
            frame.buffer_mut().set_line(inner.x, y, &answers(dialog, theme, inner.width), inner.width);
        }
    }
}

fn writing(dialog: &Dialog) -> Option<&Prompt> {
    match &dialog.mode {
        Mode::Choose => None,
        Mode::Reason(text) | Mode::Edit(text) | Mode::Answer(text) => Some(text),
    }
}

fn title(dialog: &Dialog, action: &ExternalAction, theme: &Theme) -> Line<'static> {
    let what = match &action.need {
        None if dialog.is_changed(&action.call) => format!("Run {} with your changes?", action.name),
        None => format!("Run {}?", action.name),
        Some(need) => format!("{} needs: {}", action.name, need.kind),
    };
    let mut spans = vec![Span::styled(what, theme.accent.add_modifier(ratatui::style::Modifier::BOLD))];
    let (this, all) = dialog.place();
    if all > 1 {
        spans.push(Span::styled(format!("  {this} of {all}"), theme.dim));
    }
    Line::from(spans)
}

/// What is asked about: the diff of an edit, otherwise the arguments by name, texts as they are.
fn body(dialog: &Dialog, action: &ExternalAction, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    let mut lines = Vec::new();
    if let Some(need) = &action.need {
        lines.extend(value(&need.data, width, theme));
        return lines;
    }
    match dialog.preview(&action.call) {
        Some(Ok(diff)) => {
            if let Some(path) = action.arguments.get("path").and_then(Value::as_str) {
                lines.extend(wrap(path, width, theme.text));
            }
            lines.extend(paint::diff(diff, width, theme));
        }
        Some(Err(why)) => {
            lines.extend(wrap(why, width, theme.warning));
            lines.extend(arguments(&action.name, &action.arguments, width, theme));
        }
        None => lines.extend(arguments(&action.name, &action.arguments, width, theme)),
    }
    lines
}

/// What a tool needs, as it tells it.
fn value(value: &Value, width: u16, theme: &Theme) -> Vec<Line<'static>> {
    match value {
        Value::Null => Vec::new(),
        Value::String(text) => wrap(text, width, theme.text),
        other => arguments("", other, width, theme),
    }
}

fn answers(dialog: &Dialog, theme: &Theme, width: u16) -> Line<'static> {
    let keys: &[(&str, &str)] = match &dialog.mode {
        _ if dialog.sent => &[("…", "")],
        Mode::Choose if width < 50 => &[("y", "yes"), ("n", "no"), ("e", "edit"), ("a", "always")],
        Mode::Choose => &[("y", "yes"), ("n", "no"), ("e", "edit"), ("a", "always"), ("Esc", "later")],
        Mode::Reason(_) => &[("Enter", "no, for this reason"), ("Esc", "back")],
        Mode::Edit(_) => &[("Ctrl+S", "done"), ("Esc", "back")],
        Mode::Answer(_) => &[("Enter", "answer"), ("Ctrl+X", "refuse"), ("Esc", "later")],
    };
    let mut spans = Vec::new();
    for (key, what) in keys {
        spans.push(Span::styled((*key).to_owned(), theme.accent));
        spans.push(Span::styled(format!(" {what}   "), theme.dim));
    }
    Line::from(spans)
}
