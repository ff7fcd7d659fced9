//! [`Markdown`]: a text that grows, laid out only where it does.
//!
//! The text is cut into units: the blocks of the document, of a list each item, and of program text
//! each line. Once the next unit has begun, a unit is settled: it is laid out for good, by itself,
//! and not looked at again. Where a unit ends depends on nothing that comes after it, so the result
//! is the same however the text was handed over. A unit of more than [`LIMIT`] bytes, or a quarter
//! of that if it is a paragraph, is cut too, at a place that depends on these bytes only. So an
//! update costs what is new and at most `LIMIT` bytes before it, a few times each.
//!
//! It follows that a reference such as `[text][1]` is a link only if its definition is in the same
//! unit, or between it and the next; definitions are shown as they are written, dimmed, so that
//! nothing is lost. Emphasis does not go on where a long paragraph was cut; a table that long has
//! its head again there; and of a quote, an item or HTML that long the rest is laid out as if it
//! stood alone.

mod painter;
mod place;
mod table;
#[cfg(test)]
mod tests;
mod units;

use ratatui::text::Line;

use self::place::{Open, Place};
use self::units::{Kind, units};
use super::flow::Work;
use super::highlight::languages;
use super::theme::Theme;

/// So many bytes of one unit are laid out together.
const LIMIT: usize = 16 * 1024;
/// In this part of it, and then in twice as much, the end of a unit is looked for.
const FIRST: usize = 32;
/// A longer text, in bytes, is not laid out anew only because another language can be highlighted:
/// that would hold up all else.
const RECOLOURED: usize = 64 * 1024;
/// A paragraph is cut if it is longer than this part of it, since parsers take long for long ones.
const PARAGRAPH: usize = 4;

/// A text in Markdown, and the lines that it makes in a column of a width.
pub(crate) struct Markdown {
    width: usize,
    limit: usize,
    text: String,
    finished: bool,
    theme: Theme,
    /// How many languages there were when the first of it was laid out.
    languages: usize,
    lines: Vec<Line<'static>>,
    /// How many of the lines are settled.
    settled: usize,
    place: Place,
    /// The bytes that parsers were given since it began anew: what it costs.
    work: Work,
}

impl Markdown {
    /// For a column of so many terminal columns.
    pub(crate) fn new(width: u16) -> Self {
        Markdown {
            width: usize::from(width.max(1)),
            limit: LIMIT,
            text: String::new(),
            finished: false,
            theme: Theme::plain(),
            languages: 0,
            lines: Vec::new(),
            settled: 0,
            place: Place::start(),
            work: Work::default(),
        }
    }

    /// The lines of the text, which begins as it did the last time, or else is laid out anew. What
    /// may be the beginning of a mark is held back until it is clear, or the text is `finished`.
    pub(crate) fn update(&mut self, text: &str, finished: bool, theme: &Theme) -> &[Line<'static>] {
        let languages = languages();
        let fenced = || ["```", "~~~"].iter().any(|fence| self.text.contains(fence));
        let same = languages == self.languages || self.text.len() > RECOLOURED || !fenced();
        let goes_on = text.starts_with(&self.text) && *theme == self.theme && same;
        if goes_on && text.len() == self.text.len() && finished == self.finished {
            return &self.lines;
        }
        if !goes_on || self.finished {
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

    /// The lines that the last update made.
    pub(crate) fn lines(&self) -> &[Line<'static>] {
        &self.lines
    }

    /// Settles some of the text, if any can be.
    fn settle(&mut self) -> bool {
        if matches!(self.place.open, Open::Code(..)) {
            return self.settle_code();
        }
        let rest = &self.text[self.place.at..];
        let mut size = (self.limit / FIRST).max(1);
        loop {
            let window = &rest[..rest.floor_char_boundary(size)];
            let whole_lines = window.rfind('\n').map_or(0, |end| end + 1);
            let source = self.place.source(&window[..whole_lines]);
            let found = units(&source, self.place.number());
            self.work.add(source.len());
            // Program text is laid out by the line as soon as it begins.
            if found.len() > 1
                || found.first().is_some_and(|first| matches!(first.kind, Kind::Fence(_)))
            {
                self.work.add(source.len());
                // A unit may have to be cut, which is decided when it is the first; in a small
                // window none is so long.
                let small = size / 2 < self.limit / PARAGRAPH;
                let count = if small { found.len() - 1 } else { (found.len() - 1).min(1) };
                self.place.put(&source, &found, count, self.width, &self.theme, &mut self.lines);
                return true;
            }
            if rest.len() < size {
                return false;
            }
            let text = found.first().is_none_or(|first| first.kind == Kind::Paragraph);
            if size >= self.limit || text && size >= self.limit / PARAGRAPH {
                let paragraphs_only = size < self.limit;
                self.work.add(2 * window.len());
                let place = &mut self.place;
                if place.cut(
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

    /// Lays out the lines of program text that are whole, and the beginning of a long one.
    fn settle_code(&mut self) -> bool {
        let Markdown { text, theme, lines, place, .. } = self;
        let Open::Code(fence, code) = &mut place.open else {
            return false;
        };
        let from = place.at;
        let mut closed = false;
        while !closed && let Some(end) = text[place.at..].find('\n') {
            let line = text[place.at..place.at + end].trim_end_matches('\r');
            place.at += end + 1;
            closed = fence.closes(line);
            if !closed {
                code.line(fence.within(line), theme, lines);
            }
        }
        let rest = &text[place.at..];
        if closed {
            place.open = Open::Nothing;
        } else if !fence.could_close(rest) {
            code.begin(fence.within(rest), theme, lines);
        }
        self.work.add(place.at - from);
        closed
    }

    /// Lays out what is not settled, as if nothing came after it.
    fn tail(&mut self) {
        let rest = &self.text[self.place.at..];
        let mut place = self.place.clone();
        match &mut place.open {
            Open::Code(fence, code) => {
                let line = rest.trim_end_matches('\r');
                let held_back =
                    if self.finished { fence.closes(line) } else { fence.could_close(line) };
                if !held_back && !line.is_empty() {
                    code.line(fence.within(line), &self.theme, &mut self.lines);
                }
            }
            _ => {
                let source = place.source(rest);
                let found = units(&source, place.number());
                self.work.add(2 * source.len());
                place.put(&source, &found, found.len(), self.width, &self.theme, &mut self.lines);
                place.end_paragraph(&mut self.lines);
            }
        }
    }
}
