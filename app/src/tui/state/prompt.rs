//! Where the user writes: a text of many lines, with what was sent before.

use std::cell::RefCell;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;
use ratatui_textarea::{CursorMove, TextArea, WrapMode};

/// A text that is being written.
#[derive(Debug)]
pub(crate) struct Prompt {
    area: TextArea<'static>,
    /// What was sent, oldest first.
    sent: Vec<String>,
    /// Which of it is shown, and what was being written before.
    recalled: Option<(usize, String)>,
    measured: RefCell<Measured>,
}

/// What was measured last: the text, for which width, and how many lines it takes.
#[derive(Debug, Default)]
struct Measured {
    lines: Vec<String>,
    width: u16,
    height: u16,
}

impl Default for Prompt {
    fn default() -> Self {
        Prompt::new("")
    }
}

impl Prompt {
    /// With this text, the cursor at its end.
    pub(crate) fn new(text: &str) -> Self {
        Prompt { area: area(text), sent: Vec::new(), recalled: None, measured: RefCell::default() }
    }

    pub(crate) fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// To be drawn.
    pub(crate) fn area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// The text before the cursor on its line.
    pub(crate) fn before_cursor(&self) -> &str {
        let cursor = self.area.cursor();
        let line = self.area.lines().get(cursor.0).map_or("", String::as_str);
        let end = line.char_indices().nth(cursor.1).map_or(line.len(), |(at, _)| at);
        &line[..end]
    }

    /// Puts `text` in the place of this many characters before the cursor.
    pub(crate) fn replace_before(&mut self, characters: usize, text: &str) {
        for _ in 0..characters {
            self.area.delete_char();
        }
        self.area.insert_str(text);
    }

    /// Another text, the cursor at its end.
    pub(crate) fn set(&mut self, text: &str) {
        self.area = area(text);
    }

    /// Takes the text out.
    pub(crate) fn take(&mut self) -> String {
        let text = self.text();
        self.set("");
        self.recalled = None;
        text
    }

    /// A text that was sent, for the keys that go back.
    pub(crate) fn remember(&mut self, text: String) {
        if !text.trim().is_empty() && self.sent.last() != Some(&text) {
            self.sent.push(text);
        }
        self.recalled = None;
    }

    /// Forgets what was sent: another conversation.
    pub(crate) fn forget(&mut self) {
        (self.sent, self.recalled) = (Vec::new(), None);
    }

    pub(crate) fn insert(&mut self, text: &str) {
        self.area.insert_str(text.replace("\r\n", "\n").replace('\r', "\n"));
    }

    /// A new line.
    pub(crate) fn new_line(&mut self) {
        self.area.insert_newline();
    }

    /// Whether the cursor stands behind a `\`, which is then removed.
    pub(crate) fn take_backslash(&mut self) -> bool {
        let escaped = self.before_cursor().ends_with('\\');
        if escaped {
            self.area.delete_char();
        }
        escaped
    }

    /// Any other key.
    pub(crate) fn key(&mut self, key: KeyEvent) {
        match key.code {
            // As in a shell; the area would undo.
            KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => {
                self.area.delete_line_by_head();
            }
            _ => {
                self.area.input(key);
            }
        }
    }

    /// A line up, or what was sent before.
    pub(crate) fn up(&mut self, width: u16) {
        if self.moves(width, CursorMove::Up) {
            return;
        }
        let at = self.recalled.as_ref().map_or(self.sent.len(), |(at, _)| *at);
        if let Some(at) = at.checked_sub(1)
            && let Some(text) = self.sent.get(at).cloned()
        {
            let written = self.recalled.take().map_or_else(|| self.text(), |(_, written)| written);
            self.set(&text);
            self.recalled = Some((at, written));
        }
    }

    /// A line down, or what was sent after.
    pub(crate) fn down(&mut self, width: u16) {
        if self.moves(width, CursorMove::Down) {
            return;
        }
        let Some((at, written)) = self.recalled.take() else {
            return;
        };
        match self.sent.get(at + 1).cloned() {
            Some(text) => {
                self.set(&text);
                self.recalled = Some((at + 1, written));
            }
            None => self.set(&written),
        }
    }

    fn moves(&mut self, width: u16, how: CursorMove) -> bool {
        // Lines are those of the screen, and the area knows them once it is drawn.
        let place = Rect::new(0, 0, width.max(1), 1);
        (&self.area).render(place, &mut Buffer::empty(place));
        let before = self.area.cursor();
        self.area.move_cursor(how);
        self.area.cursor() != before
    }

    /// How many lines it has on a screen of this width.
    pub(crate) fn height(&self, width: u16) -> u16 {
        let (lines, mut last) = (self.area.lines(), self.measured.borrow_mut());
        if last.height == 0 || last.width != width || last.lines != lines {
            *last = Measured { lines: lines.to_vec(), width, height: measure(lines, width) };
        }
        last.height
    }
}

fn measure(lines: &[String], width: u16) -> u16 {
    let area = area_of(lines.to_vec());
    let place = Rect::new(0, 0, width.max(1), 1);
    (&area).render(place, &mut Buffer::empty(place));
    u16::try_from(area.screen_cursor().row + 1).unwrap_or(u16::MAX)
}

fn area(text: &str) -> TextArea<'static> {
    area_of(text.split('\n').map(|line| line.trim_end_matches('\r').to_owned()).collect())
}

/// With the cursor at its end.
fn area_of(lines: Vec<String>) -> TextArea<'static> {
    let mut area = TextArea::new(lines);
    area.set_wrap_mode(WrapMode::WordOrGlyph);
    area.set_cursor_line_style(Style::default());
    area.set_cursor_style(Style::default()); // the terminal's own cursor is shown
    area.set_max_histories(200);
    area.move_cursor(CursorMove::Bottom);
    area.move_cursor(CursorMove::End);
    area
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that the area itself takes for its text.
    fn told_by_the_area(prompt: &Prompt, width: u16) -> u16 {
        let mut area = prompt.area.clone();
        let place = Rect::new(0, 0, width, 1);
        area.move_cursor(CursorMove::Bottom);
        area.move_cursor(CursorMove::End);
        (&area).render(place, &mut Buffer::empty(place));
        u16::try_from(area.screen_cursor().row + 1).unwrap()
    }

    /// Whatever is done to texts of wide, joined and plain letters.
    #[test]
    fn the_height_is_that_of_the_area() {
        let letters = ["a", "word ", "ß", "世界", "👩\u{200d}👧", "\t", "\n", " ", "e\u{301}"];
        let mut seed = 7_u64;
        let mut any = move |below: usize| {
            seed = seed
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            (seed >> 33) as usize % below
        };
        for _ in 0..100 {
            let mut prompt = Prompt::default();
            for _ in 0..30 {
                let text: String = (0..any(12)).map(|_| letters[any(letters.len())]).collect();
                let width = 1 + any(30) as u16;
                match any(6) {
                    0 => prompt.set(&text),
                    1 => prompt.new_line(),
                    2 => prompt.key(KeyCode::Backspace.into()),
                    3 => prompt.up(width),
                    4 => prompt.remember(text),
                    _ => prompt.insert(&text),
                }
                for _ in 0..2 {
                    let told = told_by_the_area(&prompt, width);
                    assert_eq!(prompt.height(width), told, "{width}: {:?}", prompt.text());
                }
            }
        }
    }

    /// A frame asks for it; what could be undone is not copied for that, and the same text is not
    /// measured again.
    #[test]
    fn a_text_is_measured_once() {
        let mut prompt = Prompt::new("a\nb");
        assert_eq!(prompt.height(10), 2);
        let kept = prompt.measured.borrow().lines.as_ptr();
        assert_eq!(prompt.height(10), 2);
        assert_eq!(prompt.measured.borrow().lines.as_ptr(), kept);
        prompt.new_line();
        assert_eq!(prompt.height(10), 3);
    }
}
