//! [`Markdown`]: a growing text, laid out incrementally.
//!
//! The text is cut into units: the blocks of the document, each item of a list, and each line of
//! program text. Once the next unit has begun, a unit is settled: it is laid out for good and not
//! parsed again. The end of a unit does not depend on what follows, so the result is the same
//! however the text is split into updates. A unit of more than [`MAX_UNIT_BYTES`], or a quarter of
//! that for a paragraph, is cut too, at a position that depends only on these bytes. So an update
//! parses the new bytes and at most `MAX_UNIT_BYTES` before them, a few times each.
//!
//! Consequences:
//!
//! - A reference such as `[text][1]` is a link only if its definition is in the same unit, or
//!   between it and the next. Definitions are shown dimmed as they are written, so that nothing is
//!   lost.
//! - Emphasis ends where a long paragraph is cut.
//! - A long table repeats its head where it is cut.
//! - The rest of a long quote, item or HTML block is laid out as if it stood alone.

mod cursor;
mod page;
mod painter;
mod table;
#[cfg(test)]
mod tests;
mod units;

use ratatui::text::Line;

use self::cursor::{Cursor, Open};
use self::units::{Kind, units};
use super::flow::Work;
use super::highlight::languages;
use super::theme::Theme;

/// Maximum number of bytes of one unit that are laid out together.
const MAX_UNIT_BYTES: usize = 16 * 1024;
/// Divisor of the limit for the first window in which the end of a unit is searched for. Each
/// further window is twice as large.
const FIRST_WINDOW_DIVISOR: usize = 32;
/// Maximum size of a text that is laid out again when another language can be highlighted. A longer
/// one would block the loop.
const MAX_REHIGHLIGHT_BYTES: usize = 64 * 1024;
/// Divisor of the limit for the length at which a paragraph is cut, since parsing a long one is
/// slow.
const PARAGRAPH_DIVISOR: usize = 4;

/// A Markdown text and its lines in a column.
pub(crate) struct Markdown {
    width: usize,
    limit: usize,
    text: String,
    finished: bool,
    theme: Theme,
    /// The number of languages that were ready when the layout began.
    languages: usize,
    lines: Vec<Line<'static>>,
    /// The number of settled lines.
    settled: usize,
    cursor: Cursor,
    /// The bytes given to parsers since the layout began.
    work: Work,
}

impl Markdown {
    /// Creates an empty text for a column of this width.
    pub(crate) fn new(width: u16) -> Self {
        Markdown {
            width: usize::from(width.max(1)),
            limit: MAX_UNIT_BYTES,
            text: String::new(),
            finished: false,
            theme: Theme::plain(),
            languages: 0,
            lines: Vec::new(),
            settled: 0,
            cursor: Cursor::start(),
            work: Work::default(),
        }
    }

    /// Sets the text and returns its lines. A text that does not begin with the previous one is
    /// laid out from its beginning. Incomplete markup is held back unless the text is `finished`.
    pub(crate) fn update(&mut self, text: &str, finished: bool, theme: &Theme) -> &[Line<'static>] {
        let languages = languages();
        let fenced = || ["```", "~~~"].iter().any(|fence| self.text.contains(fence));
        let same =
            languages == self.languages || self.text.len() > MAX_REHIGHLIGHT_BYTES || !fenced();
        let is_continuation = text.starts_with(&self.text) && *theme == self.theme && same;
        if is_continuation && text.len() == self.text.len() && finished == self.finished {
            return &self.lines;
        }
        if !is_continuation || self.finished {
            let new = Markdown::new(0);
            *self = Markdown {
                width: self.width,
                limit: self.limit,
                theme: theme.clone(),
                languages,
                ..new
            };
        }
        self.finished = finished;
        let known = self.text.len();
        self.text.push_str(&text[known..]);
        self.lines.truncate(self.settled);
        while self.settle() {}
        self.settled = self.lines.len();
        self.tail();
        &self.lines
    }

    /// Returns the lines of the last update.
    pub(crate) fn lines(&self) -> &[Line<'static>] {
        &self.lines
    }

    /// Settles a part of the text, and returns whether it could.
    fn settle(&mut self) -> bool {
        if matches!(self.cursor.open, Open::Code(..)) {
            return self.settle_code();
        }
        let rest = &self.text[self.cursor.at..];
        let mut size = (self.limit / FIRST_WINDOW_DIVISOR).max(1);
        loop {
            let window = &rest[..rest.floor_char_boundary(size)];
            let whole_lines = window.rfind('\n').map_or(0, |end| end + 1);
            let source = self.cursor.source(&window[..whole_lines]);
            let found_units = units(&source, self.cursor.number());
            self.work.add(source.len());
            // Program text is laid out by line as soon as it begins.
            if found_units.len() > 1
                || found_units.first().is_some_and(|first| matches!(first.kind, Kind::Fence(_)))
            {
                self.work.add(source.len());
                // The cut of a unit is decided when it is the first one. In a small window no unit
                // is long enough to be cut.
                let small = size / 2 < self.limit / PARAGRAPH_DIVISOR;
                let count =
                    if small { found_units.len() - 1 } else { (found_units.len() - 1).min(1) };
                self.cursor.put(
                    &source,
                    &found_units,
                    count,
                    self.width,
                    &self.theme,
                    &mut self.lines,
                );
                return true;
            }
            if rest.len() < size {
                return false;
            }
            let text = found_units.first().is_none_or(|first| first.kind == Kind::Paragraph);
            if size >= self.limit || text && size >= self.limit / PARAGRAPH_DIVISOR {
                let paragraphs_only = size < self.limit;
                self.work.add(2 * window.len());
                let cursor = &mut self.cursor;
                if cursor.cut(
                    window,
                    whole_lines,
                    paragraphs_only,
                    self.width,
                    &self.theme,
                    &mut self.lines,
                ) {
                    return true;
                }
            }
            size = (2 * size).min(self.limit);
        }
    }

    /// Lays out the complete lines of program text, and the beginning of a long one.
    fn settle_code(&mut self) -> bool {
        let Markdown { text, theme, lines, cursor, .. } = self;
        let Open::Code(fence, code) = &mut cursor.open else {
            return false;
        };
        let from = cursor.at;
        let mut closed = false;
        while !closed && let Some(end) = text[cursor.at..].find('\n') {
            let line = text[cursor.at..cursor.at + end].trim_end_matches('\r');
            cursor.at += end + 1;
            closed = fence.closes(line);
            if !closed {
                code.line(fence.within(line), theme, lines);
            }
        }
        let rest = &text[cursor.at..];
        if closed {
            cursor.open = Open::None;
        } else if !fence.could_close(rest) {
            code.begin(fence.within(rest), theme, lines);
        }
        self.work.add(cursor.at - from);
        closed
    }

    /// Lays out the rest as if nothing followed.
    fn tail(&mut self) {
        let rest = &self.text[self.cursor.at..];
        let mut cursor = self.cursor.clone();
        match &mut cursor.open {
            Open::Code(fence, code) => {
                let line = rest.trim_end_matches('\r');
                let held_back =
                    if self.finished { fence.closes(line) } else { fence.could_close(line) };
                if !held_back && !line.is_empty() {
                    code.line(fence.within(line), &self.theme, &mut self.lines);
                }
            }
            _ => {
                let source = cursor.source(rest);
                let found_units = units(&source, cursor.number());
                self.work.add(2 * source.len());
                cursor.put(
                    &source,
                    &found_units,
                    found_units.len(),
                    self.width,
                    &self.theme,
                    &mut self.lines,
                );
                cursor.end_paragraph(&mut self.lines);
            }
        }
    }
}
