//! Draws the state: a pure function of it, but for what was laid out before and where one has
//! scrolled to.

mod activity;
mod dialog;
mod layouts;
mod popup;
mod status;
mod transcript;

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

use self::layouts::Layouts;
use self::transcript::Position;
use super::paint::Theme;
use super::state::{Scroll, State};

/// The smallest screen on which something can be shown.
const LEAST: (u16, u16) = (20, 6);

/// What is said then: the first that fits.
const TOO_SMALL: [&str; 3] = ["Too small: enlarge it.", "Too small", "…"];

/// What is kept from one frame to the next.
pub(crate) struct View {
    theme: Theme,
    layouts: Layouts,
    position: Position,
    /// The first line of the dialog that is seen, and whose dialog it is.
    dialog: dialog::Place,
    /// The transcript's place on the screen, as it was drawn last.
    area: Rect,
}

impl View {
    /// At the end of the transcript.
    pub(crate) fn new(theme: Theme) -> Self {
        View {
            theme,
            layouts: Layouts::default(),
            position: Position::Bottom,
            dialog: dialog::Place::default(),
            area: Rect::default(),
        }
    }

    /// Moves what is shown: of the dialog while it is open, else of the transcript.
    pub(crate) fn scroll(&mut self, state: &State, how: Scroll) {
        if state.dialog.is_open() && !matches!(how, Scroll::Show(_)) {
            self.dialog.scroll(how);
        } else {
            self.scroll_transcript(state, how);
        }
    }

    /// Draws all of it.
    pub(crate) fn draw(&mut self, state: &State, frame: &mut Frame<'_>) {
        let area = frame.area();
        if area.is_empty() {
            return;
        }
        if area.width < LEAST.0 || area.height < LEAST.1 {
            let fits = |text: &&str| text.chars().count() <= area.width.into();
            let text = TOO_SMALL.into_iter().find(fits).unwrap_or_default();
            frame.buffer_mut().set_line(area.x, area.y, &Line::raw(text), area.width);
            return;
        }
        let bottom = if state.dialog.is_open() {
            self.dialog_lines(state, area)
        } else {
            self.prompt_height(state, area)
        };
        let popup = popup::height(state, area.height.saturating_sub(bottom + 3));
        let activity = activity::lines(state, &self.theme, area.width);
        let room = area.height.saturating_sub(bottom + popup + 1 + 3);
        let activity_height = u16::try_from(activity.len()).unwrap_or(u16::MAX).min(room);
        let places = Layout::vertical([
            Constraint::Fill(1),
            Constraint::Length(activity_height),
            Constraint::Length(popup),
            Constraint::Length(bottom),
            Constraint::Length(1),
        ]);
        let [transcript, above, list, writing, last] = places.areas(area);
        self.area = transcript;
        self.draw_transcript(state, frame.buffer_mut(), transcript);
        for (line, y) in activity.iter().zip(above.y..above.bottom()) {
            frame.buffer_mut().set_line(above.x, y, line, above.width);
        }
        popup::draw(state, &self.theme, frame.buffer_mut(), list);
        if state.dialog.is_open() {
            self.draw_dialog(state, frame, writing);
        } else {
            self.draw_prompt(state, frame, writing);
        }
        let line = status::line(state, &self.theme, last.width);
        frame.buffer_mut().set_line(last.x, last.y, &line, last.width);
    }

    fn prompt_height(&self, state: &State, area: Rect) -> u16 {
        let most = (area.height / 3).max(1);
        state.prompt.height(area.width.saturating_sub(4)).clamp(1, most) + 1
    }

    /// A rule, and below it what is being written.
    fn draw_prompt(&self, state: &State, frame: &mut Frame<'_>, area: Rect) {
        rule(frame, area, self.theme.dim);
        let place =
            Rect::new(area.x + 2, area.y + 1, area.width.saturating_sub(4), area.height - 1);
        let mark = Line::from(Span::styled("›", self.theme.accent));
        frame.buffer_mut().set_line(area.x, place.y, &mark, 1);
        if state.prompt.is_empty() {
            let hint = match () {
                () if state.dialog.waiting() > 0 => "Tell it something else instead",
                () if state.is_working() => "Steer it, or Alt+Enter for later",
                () => "Type what you want done",
            };
            let hint = Line::from(Span::styled(hint, self.theme.dim));
            frame.buffer_mut().set_line(place.x, place.y, &hint, place.width);
            frame.set_cursor_position((place.x, place.y));
            return;
        }
        draw_writing(&state.prompt, frame, place);
    }
}

/// A text that is being written, with the cursor in it.
pub(super) fn draw_writing(prompt: &super::state::Prompt, frame: &mut Frame<'_>, place: Rect) {
    let area = prompt.area();
    frame.render_widget(area, place);
    let (cursor, (top, _)) = (area.screen_cursor(), area.scroll_offset());
    let row = u16::try_from(cursor.row).unwrap_or(u16::MAX).saturating_sub(top);
    let column = u16::try_from(cursor.col).unwrap_or(u16::MAX);
    let x = place.x.saturating_add(column).min(place.right());
    frame.set_cursor_position((
        x,
        place.y.saturating_add(row).min(place.bottom().saturating_sub(1)),
    ));
}

/// A quiet line from one side to the other.
pub(super) fn rule(frame: &mut Frame<'_>, area: Rect, style: Style) {
    let line = Line::from(Span::styled("─".repeat(area.width.into()), style));
    frame.buffer_mut().set_line(area.x, area.y, &line, area.width);
}

#[cfg(test)]
impl View {
    /// How many blocks were laid out so far.
    pub(super) fn laid_out(&self) -> u64 {
        self.layouts.made
    }

    /// How many lines of blocks are kept.
    pub(super) fn lines_kept(&self) -> usize {
        self.layouts.lines_kept()
    }
}
