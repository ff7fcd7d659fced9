//! A text input of several lines with a history.

use std::cell::RefCell;

use crossterm::event::{KeyCode, KeyEvent, KeyModifiers};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::widgets::Widget;
use ratatui_textarea::{CursorMove, TextArea, WrapMode};
use unicode_segmentation::UnicodeSegmentation as _;

/// The character shown instead of each character of a secret.
const MASK: char = '•';

/// A text being written.
#[derive(Debug)]
pub(crate) struct Prompt {
    area: TextArea<'static>,
    /// `true` if dots are shown instead of the text.
    is_secret: bool,
    /// The history, oldest first.
    sent: Vec<String>,
    /// The recalled entry of the history, and the text before recalling.
    recalled: Option<(usize, String)>,
    measured: RefCell<Measured>,
}

/// The last measurement: the text, the width, and the height.
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
    /// Creates an input with this text, the cursor at its end.
    pub(crate) fn new(text: &str) -> Self {
        Prompt {
            area: area(text),
            is_secret: false,
            sent: Vec::new(),
            recalled: None,
            measured: RefCell::default(),
        }
    }

    /// Creates an empty input that shows dots instead of its text.
    pub(crate) fn secret() -> Self {
        let mut prompt = Prompt { is_secret: true, ..Prompt::default() };
        prompt.set("");
        prompt
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> String {
        self.area.lines().join("\n")
    }

    /// Returns whether the text is empty.
    pub(crate) fn is_empty(&self) -> bool {
        self.area.is_empty()
    }

    /// Returns the widget.
    pub(crate) fn area(&self) -> &TextArea<'static> {
        &self.area
    }

    /// Returns the text before the cursor on its line.
    pub(crate) fn before_cursor(&self) -> &str {
        let cursor = self.area.cursor();
        let line = self.area.lines().get(cursor.0).map_or("", String::as_str);
        let end = line.char_indices().nth(cursor.1).map_or(line.len(), |(at, _)| at);
        &line[..end]
    }

    /// Replaces a number of characters before the cursor.
    pub(crate) fn replace_before(&mut self, characters: usize, text: &str) {
        for _ in 0..characters {
            self.area.delete_char();
        }
        self.area.insert_str(text);
    }

    /// Replaces the text, the cursor at its end.
    pub(crate) fn set(&mut self, text: &str) {
        self.area = area(text);
        if self.is_secret {
            self.area.set_mask_char(MASK);
        }
    }

    /// Removes and returns the text.
    pub(crate) fn take(&mut self) -> String {
        let text = self.text();
        self.set("");
        self.recalled = None;
        text
    }

    /// Adds a text to the history.
    pub(crate) fn remember(&mut self, text: String) {
        if !text.trim().is_empty() && self.sent.last() != Some(&text) {
            self.sent.push(text);
        }
        self.recalled = None;
    }

    /// Clears the history.
    pub(crate) fn forget(&mut self) {
        self.sent.clear();
        self.recalled = None;
    }

    /// Inserts text, normalising line ends.
    pub(crate) fn insert(&mut self, text: &str) {
        self.area.insert_str(text.replace("\r\n", "\n").replace('\r', "\n"));
    }

    /// Inserts a new line.
    pub(crate) fn new_line(&mut self) {
        self.area.insert_newline();
    }

    /// Removes a `\` before the cursor. Returns whether it found one.
    pub(crate) fn take_backslash(&mut self) -> bool {
        let escaped = self.before_cursor().ends_with('\\');
        if escaped {
            self.area.delete_char();
        }
        escaped
    }

    /// Handles any other key.
    pub(crate) fn key(&mut self, key: KeyEvent) {
        match key.code {
            // As in a shell; the widget would undo.
            KeyCode::Char('u') if key.modifiers == KeyModifiers::CONTROL => {
                self.area.delete_line_by_head();
            }
            _ => {
                for _ in 0..self.characters_of(key) {
                    self.area.input(key);
                }
            }
        }
    }

    /// Returns how often the widget, which knows only single characters, must be given a key that
    /// deletes or passes what a user sees as one character.
    fn characters_of(&self, key: KeyEvent) -> usize {
        let is_plain = (key.modifiers - KeyModifiers::SHIFT).is_empty();
        let is_control = key.modifiers == KeyModifiers::CONTROL;
        let grapheme = match key.code {
            _ if self.area.is_selecting() && !key.modifiers.contains(KeyModifiers::SHIFT) => None,
            KeyCode::Backspace | KeyCode::Left if is_plain => self.grapheme_before(),
            KeyCode::Char('b' | 'h') if is_control => self.grapheme_before(),
            KeyCode::Delete | KeyCode::Right if is_plain => self.grapheme_after(),
            KeyCode::Char('d' | 'f') if is_control => self.grapheme_after(),
            _ => None,
        };
        grapheme.map_or(1, |grapheme| grapheme.chars().count())
    }

    fn grapheme_before(&self) -> Option<&str> {
        self.before_cursor().graphemes(true).next_back()
    }

    fn grapheme_after(&self) -> Option<&str> {
        let line = self.area.lines().get(self.area.cursor().0)?;
        line[self.before_cursor().len()..].graphemes(true).next()
    }

    /// Moves up a line, or recalls the previous entry of the history.
    pub(crate) fn up(&mut self, width: u16) {
        if self.move_cursor(width, CursorMove::Up) {
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

    /// Moves down a line, or recalls the next entry of the history.
    pub(crate) fn down(&mut self, width: u16) {
        if self.move_cursor(width, CursorMove::Down) {
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

    fn move_cursor(&mut self, width: u16, how: CursorMove) -> bool {
        // The widget knows the wrapped lines only after it is drawn. It scrolls to the cursor if
        // it is drawn with fewer lines than it has.
        let rect = Rect::new(0, 0, width.max(1), self.height(width));
        (&self.area).render(rect, &mut Buffer::empty(rect));
        let before = self.area.cursor();
        self.area.move_cursor(how);
        self.area.cursor() != before
    }

    /// Returns the height at a width, in lines.
    pub(crate) fn height(&self, width: u16) -> u16 {
        let lines = self.area.lines();
        let mut last = self.measured.borrow_mut();
        if last.height == 0 || last.width != width || last.lines != lines {
            let height = match self.is_secret {
                true => measure(lines.iter().map(|line| masked(line)).collect(), width),
                false => measure(lines.to_vec(), width),
            };
            *last = Measured { lines: lines.to_vec(), width, height };
        }
        last.height
    }
}

/// Returns the masked form of a secret's line.
fn masked(line: &str) -> String {
    line.chars().map(|_| MASK).collect()
}

fn measure(lines: Vec<String>, width: u16) -> u16 {
    let area = area_of(lines);
    let rect = Rect::new(0, 0, width.max(1), 1);
    (&area).render(rect, &mut Buffer::empty(rect));
    u16::try_from(area.screen_cursor().row + 1).unwrap_or(u16::MAX)
}

fn area(text: &str) -> TextArea<'static> {
    area_of(text.split('\n').map(|line| line.trim_end_matches('\r').to_owned()).collect())
}

/// Creates the widget, the cursor at the end.
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

    /// Measures the text with the widget itself.
    fn height_of_area(prompt: &Prompt, width: u16) -> u16 {
        let mut area = prompt.area.clone();
        let rect = Rect::new(0, 0, width, 1);
        area.move_cursor(CursorMove::Bottom);
        area.move_cursor(CursorMove::End);
        (&area).render(rect, &mut Buffer::empty(rect));
        u16::try_from(area.screen_cursor().row + 1).unwrap()
    }

    /// The arguments of a call are edited in as many lines as they have.
    #[test]
    fn a_moved_cursor_scrolls_nothing_that_is_visible() {
        let mut prompt = Prompt::new("{\n  \"a\": 1,\n  \"b\": 2\n}");
        let rect = Rect::new(0, 0, 20, prompt.height(20));
        assert_eq!(rect.height, 4);
        let draw = |prompt: &Prompt| {
            prompt.area().render(rect, &mut Buffer::empty(rect));
            prompt.area().scroll_offset().0
        };
        assert_eq!(draw(&prompt), 0);
        prompt.down(20); // the cursor is at the end already
        assert_eq!(draw(&prompt), 0);
        for _ in 0..3 {
            prompt.up(20);
            assert_eq!(draw(&prompt), 0);
        }
    }

    /// C466: A letter may consist of several characters.
    #[test]
    fn keys_delete_and_pass_whole_letters() {
        let family = "👨\u{200d}👩\u{200d}👧";
        let accent = "e\u{301}";
        let control = |letter| KeyEvent::new(KeyCode::Char(letter), KeyModifiers::CONTROL);
        let key = KeyEvent::from;
        for letter in [family, accent, "世", "x"] {
            let text = format!("a{letter}{letter}b");
            for (keys, expected) in [
                (&[key(KeyCode::Backspace), key(KeyCode::Backspace)][..], format!("a{letter}|")),
                (&[control('h'), control('h')], format!("a{letter}|")),
                (&[key(KeyCode::Left), key(KeyCode::Left)], format!("a{letter}|{letter}b")),
                (&[control('b'), control('b'), control('d')], format!("a{letter}|b")),
                (
                    &[key(KeyCode::Home), control('f'), key(KeyCode::Right)],
                    format!("a{letter}|{letter}b"),
                ),
                (&[key(KeyCode::Home), control('f'), key(KeyCode::Delete)], format!("a|{letter}b")),
            ] {
                let mut prompt = Prompt::new(&text);
                keys.iter().for_each(|key| prompt.key(*key));
                prompt.insert("|");
                assert_eq!(prompt.text(), expected, "{keys:?}");
            }
        }
        let mut lines = Prompt::new("a\nb");
        for _ in 0..2 {
            lines.key(KeyCode::Backspace.into());
        }
        assert_eq!(lines.text(), "a");
    }

    /// For any edits of wide, joined and plain letters.
    #[test]
    fn the_height_is_that_of_the_widget() {
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
                    let expected = height_of_area(&prompt, width);
                    assert_eq!(prompt.height(width), expected, "{width}: {:?}", prompt.text());
                }
            }
        }
    }

    /// Every frame asks for the height, so the history is not copied, and the same text is measured
    /// once.
    #[test]
    fn a_text_is_measured_once() {
        let mut prompt = Prompt::new("a\nb");
        assert_eq!(prompt.height(10), 2);
        let measured_at = prompt.measured.borrow().lines.as_ptr();
        assert_eq!(prompt.height(10), 2);
        assert_eq!(prompt.measured.borrow().lines.as_ptr(), measured_at);
        prompt.new_line();
        assert_eq!(prompt.height(10), 3);
    }
}
