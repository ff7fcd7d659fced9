//! The view: a function of the state, except for cached layouts and scroll positions.

mod activity;
mod dialog;
mod input;
mod layouts;
mod popup;
mod question;
mod status;
mod transcript;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::text::{Line, Span};

use self::dialog::DialogView;
use self::input::{draw_input, draw_rule};
use self::transcript::TranscriptView;
use super::paint::Theme;
use super::state::{Scroll, State};

/// Minimum size of the screen, in columns and lines.
const MIN_SIZE: (u16, u16) = (20, 6);

/// The texts for smaller screens, of which the first that fits is shown.
const TOO_SMALL: [&str; 3] = ["Too small: enlarge it.", "Too small", "…"];

/// The view, with the layouts and positions that the next frame reuses.
pub(crate) struct View {
    theme: Theme,
    transcript: TranscriptView,
    dialog: DialogView,
}

impl View {
    /// Creates a view that shows the end of the transcript.
    pub(crate) fn new(theme: Theme) -> Self {
        View { theme, transcript: TranscriptView::default(), dialog: DialogView::default() }
    }

    /// Scrolls the dialog while it is open, otherwise the transcript.
    pub(crate) fn scroll(&mut self, state: &State, how: Scroll) {
        if state.dialog.is_open() && !matches!(how, Scroll::Show(_)) {
            self.dialog.scroll(how);
        } else {
            self.transcript.scroll(state, &self.theme, how);
        }
    }

    /// Draws the whole screen.
    pub(crate) fn draw(&mut self, state: &State, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.is_empty() {
            return;
        }
        if area.width < MIN_SIZE.0 || area.height < MIN_SIZE.1 {
            let fits = |text: &&str| text.chars().count() <= area.width.into();
            let text = TOO_SMALL.into_iter().find(fits).unwrap_or_default();
            frame.buffer_mut().set_line(area.x, area.y, &Line::raw(text), area.width);
            return;
        }
        let bottom = if state.dialog.is_open() {
            self.dialog.height(state, &self.theme, area)
        } else {
            prompt_height(state, area)
        };
        let popup = popup::height(state, area.height.saturating_sub(bottom + 3));
        let activity = activity::lines(state, &self.theme, area.width);
        let room = area.height.saturating_sub(bottom + popup + 1 + 3);
        let activity_height = u16::try_from(activity.len()).unwrap_or(u16::MAX).min(room);
        let layout = Layout::vertical([
            Constraint::Fill(1),
            Constraint::Length(activity_height),
            Constraint::Length(popup),
            Constraint::Length(bottom),
            Constraint::Length(1),
        ]);
        let [transcript, above, list, input, last] = layout.areas(area);
        self.transcript.draw(state, &self.theme, frame.buffer_mut(), transcript);
        for (line, y) in activity.iter().zip(above.y..above.bottom()) {
            frame.buffer_mut().set_line(above.x, y, line, above.width);
        }
        popup::draw(state, &self.theme, frame.buffer_mut(), list);
        if state.dialog.is_open() {
            self.dialog.draw(state, &self.theme, frame, input);
        } else {
            draw_prompt(state, &self.theme, frame, input);
        }
        let line = status::line(state, &self.theme, last.width);
        frame.buffer_mut().set_line(last.x, last.y, &line, last.width);
    }
}

/// Returns the number of lines for the prompt and the rule above it: at most a third of the screen.
fn prompt_height(state: &State, area: Rect) -> u16 {
    let max_height = (area.height / 3).max(1);
    state.prompt.height(area.width.saturating_sub(4)).clamp(1, max_height) + 1
}

/// Draws a rule and the prompt below it.
fn draw_prompt(state: &State, theme: &Theme, frame: &mut Frame<'_>, area: Rect) {
    draw_rule(frame, area, theme.dim);
    let inner = Rect::new(area.x + 2, area.y + 1, area.width.saturating_sub(4), area.height - 1);
    let mark = Line::from(Span::styled("›", theme.accent));
    frame.buffer_mut().set_line(area.x, inner.y, &mark, 1);
    if state.prompt.is_empty() {
        let hint = if state.dialog.waiting() > 0 {
            "Give other instructions instead"
        } else if state.is_working() {
            "Steer it, or Alt+Enter for later"
        } else {
            "Type what you want done"
        };
        let hint = Line::from(Span::styled(hint, theme.dim));
        frame.buffer_mut().set_line(inner.x, inner.y, &hint, inner.width);
        frame.set_cursor_position((inner.x, inner.y));
        return;
    }
    draw_input(&state.prompt, frame, inner);
}

#[cfg(test)]
impl View {
    /// Returns the number of blocks laid out so far.
    pub(super) fn layout_count(&self) -> u64 {
        self.transcript.layout_count()
    }

    /// Returns the number of cached lines of blocks.
    pub(super) fn cached_lines(&self) -> usize {
        self.transcript.cached_lines()
    }
}
