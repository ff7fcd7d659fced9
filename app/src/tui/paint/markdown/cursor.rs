//! [`Cursor`]: the position up to which a text is laid out for good, and the construct in which the
//! rest begins.

use std::borrow::Cow;

use ratatui::text::Line;

use super::super::code::Code;
use super::super::flow::Flow;
use super::super::highlight::Highlighter;
use super::super::theme::Theme;
use super::painter::Painter;
use super::units::{Fence, Kind, Unit, blank_before, cut_anywhere, cut_paragraph, units};

/// The position up to which the text is settled.
#[derive(Clone)]
pub(super) struct Cursor {
    /// The position in bytes.
    pub(super) at: usize,
    pub(super) open: Open,
    /// `true` if the last unit ended with an empty line.
    blank: bool,
    /// `true` if a unit precedes, so that an empty line comes between.
    spaced: bool,
}

/// The construct in which the rest of the text begins.
#[derive(Clone)]
pub(super) enum Open {
    None,
    /// A list, with the number of the next item if it is numbered.
    List(Option<u64>),
    /// Program text after a fence.
    Code(Fence, Code),
    /// A long paragraph that was cut.
    Paragraph(Flow),
    /// A long table that was cut, with the two lines of its head.
    Table(String),
}

impl Cursor {
    pub(super) fn start() -> Self {
        Cursor { at: 0, open: Open::None, blank: false, spaced: false }
    }

    /// Returns the source to parse for the rest of the text.
    pub(super) fn source<'a>(&self, rest: &'a str) -> Cow<'a, str> {
        match &self.open {
            Open::Table(head) => [head, rest].concat().into(),
            _ => rest.into(),
        }
    }

    /// Returns the number of the next item, if a numbered list is open.
    pub(super) fn number(&self) -> Option<u64> {
        if let Open::List(number) = self.open { number } else { None }
    }

    /// Lays out the first `count` units of the source, and advances behind them. Stops behind the
    /// fence of program text. If the next unit is program text, consumes its fence too.
    pub(super) fn put(
        &mut self,
        source: &str,
        units: &[Unit],
        count: usize,
        width: usize,
        theme: &Theme,
        lines: &mut Vec<Line<'static>>,
    ) {
        let head = if let Open::Table(head) = &self.open { head.len() } else { 0 };
        let base = self.at;
        let mut from = 0;
        for (n, unit) in units.iter().enumerate() {
            if n > 0 {
                from = unit.start;
            }
            let opened =
                source[unit.start..].find('\n').filter(|_| matches!(unit.kind, Kind::Fence(_)));
            if let (Kind::Fence(info), Some(end)) = (&unit.kind, opened) {
                if !source[from..unit.start].trim().is_empty() {
                    self.put_unit(&source[from..unit.start], &Kind::Other, width, theme, lines);
                }
                self.space(lines);
                let fence = Fence::new(&source[unit.start..unit.start + end]);
                self.open = Open::Code(fence, Code::new(width, Highlighter::new(info)));
                self.at = base + unit.start + end + 1 - head;
                return;
            }
            if n == count {
                return;
            }
            let next = units.get(n + 1);
            let end = next.map_or(source.len(), |next| next.start);
            self.put_unit(&source[from..end], &unit.kind, width, theme, lines);
            self.at = base + end - head;
            if let Some(Unit { kind: Kind::Item { continues: true, number }, .. }) = next {
                self.open = Open::List(*number);
            }
        }
        // Only definitions of references, or nothing.
        if units.is_empty() && count == 0 && !source.trim().is_empty() {
            self.put_unit(source, &Kind::Other, width, theme, lines);
            self.at = base + source.len() - head;
        }
    }

    /// Lays out one unit. No construct is open after it.
    fn put_unit(
        &mut self,
        source: &str,
        kind: &Kind,
        width: usize,
        theme: &Theme,
        lines: &mut Vec<Line<'static>>,
    ) {
        let open = std::mem::replace(&mut self.open, Open::None);
        let mut number = None;
        let mut flow = None;
        match (kind, open) {
            (Kind::Item { number: its, .. }, Open::List(_)) => {
                number = *its;
                if self.blank {
                    lines.push(Line::default());
                }
            }
            (Kind::Paragraph, Open::Paragraph(open)) => flow = Some(open),
            // Only the head was repeated before the rest of the text.
            (Kind::Table, Open::Table(head))
                if source.trim_end().len() <= head.trim_end().len() =>
            {
                return;
            }
            (Kind::Table, Open::Table(_)) => {}
            (_, Open::Paragraph(open)) => {
                lines.extend(open.finish().into_iter().map(Line::from));
                self.space(lines);
            }
            (Kind::Item { number: its, .. }, _) => {
                number = *its;
                self.space(lines);
            }
            _ => self.space(lines),
        }
        lines.extend(Painter::new(source, width, theme).continuing(flow).paint(number, false).0);
        self.spaced = true;
        self.blank = blank_before(source, source.len());
    }

    /// Lays out the beginning of a unit that fills the window, and returns whether it did. With
    /// `paragraphs_only`, lays out only a paragraph.
    pub(super) fn cut(
        &mut self,
        window: &str,
        whole_lines: usize,
        paragraphs_only: bool,
        width: usize,
        theme: &Theme,
        lines: &mut Vec<Line<'static>>,
    ) -> bool {
        let source = self.source(window).into_owned();
        let found_units = units(&source, self.number());
        let first = found_units.first().map(|unit| &unit.kind);
        if first == Some(&Kind::Paragraph) {
            let source = &source[..found_units.get(1).map_or(source.len(), |next| next.start)];
            self.cut_paragraph(&source[..cut_paragraph(source)], width, theme, lines);
            return true;
        }
        if paragraphs_only {
            return false;
        }
        if found_units.len() > 1 {
            self.put(&source, &found_units, 1, width, theme, lines);
            return true;
        }
        let cut = if whole_lines > 0 { whole_lines } else { cut_anywhere(window) };
        let head = match (first, &self.open) {
            (Some(Kind::Table), Open::Table(head)) => Some(head.clone()),
            (Some(Kind::Table), _) => {
                let start = found_units.first().map_or(0, |table| table.start);
                let lines =
                    || window.get(start..whole_lines).unwrap_or_default().split_inclusive('\n');
                (lines().count() > 1).then(|| lines().take(2).collect())
            }
            _ => None,
        };
        let source = self.source(&window[..cut]).into_owned();
        self.put_unit(&source, first.unwrap_or(&Kind::Other), width, theme, lines);
        self.at += cut;
        self.spaced = false;
        if let Some(head) = head {
            self.open = Open::Table(head);
        }
        true
    }

    fn cut_paragraph(
        &mut self,
        source: &str,
        width: usize,
        theme: &Theme,
        lines: &mut Vec<Line<'static>>,
    ) {
        let flow = match std::mem::replace(&mut self.open, Open::None) {
            Open::Paragraph(flow) => Some(flow),
            _ => {
                self.space(lines);
                None
            }
        };
        let (mut full, flow) =
            Painter::new(source, width, theme).continuing(flow).paint(None, true);
        lines.append(&mut full);
        if let Some(mut flow) = flow {
            if source.ends_with(char::is_whitespace) {
                flow.push(" ", theme.text);
            }
            self.open = Open::Paragraph(flow);
        }
        self.at += source.len();
        self.spaced = true;
    }

    /// Appends the rest of an open paragraph, if any.
    pub(super) fn end_paragraph(&mut self, lines: &mut Vec<Line<'static>>) {
        if let Open::Paragraph(flow) = std::mem::replace(&mut self.open, Open::None) {
            lines.extend(flow.finish().into_iter().map(Line::from));
        }
    }

    /// Appends an empty line between units.
    fn space(&mut self, lines: &mut Vec<Line<'static>>) {
        if self.spaced {
            lines.push(Line::default());
        }
        self.spaced = true;
    }
}
