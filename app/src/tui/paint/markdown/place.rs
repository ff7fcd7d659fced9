//! [`Place`]: how far a text is laid out for good, and what it goes on with there.

use std::borrow::Cow;

use ratatui::text::Line;

use super::super::code::Code;
use super::super::flow::Flow;
use super::super::highlight::Highlighter;
use super::super::theme::Theme;
use super::painter::Painter;
use super::units::{Fence, Kind, Unit, blank_before, cut_anywhere, cut_paragraph, units};

/// How far the text is settled.
#[derive(Clone)]
pub(super) struct Place {
    /// In bytes.
    pub(super) at: usize,
    pub(super) open: Open,
    /// The last unit ended with an empty line.
    blank: bool,
    /// Another unit comes before, so an empty line is put between.
    spaced: bool,
}

/// What the rest of the text goes on with.
#[derive(Clone)]
pub(super) enum Open {
    Nothing,
    /// A list, whose next item may have a number.
    List(Option<u64>),
    /// Program text after a fence.
    Code(Fence, Code),
    /// A long paragraph.
    Paragraph(Flow),
    /// A long table, with these two lines at its head.
    Table(String),
}

impl Place {
    pub(super) fn start() -> Self {
        Place { at: 0, open: Open::Nothing, blank: false, spaced: false }
    }

    /// What is to be parsed of the text from here on.
    pub(super) fn source<'a>(&self, rest: &'a str) -> Cow<'a, str> {
        match &self.open {
            Open::Table(head) => [head, rest].concat().into(),
            _ => rest.into(),
        }
    }

    /// The number of the next item, if a numbered list is open.
    pub(super) fn number(&self) -> Option<u64> {
        if let Open::List(number) = self.open { number } else { None }
    }

    /// Lays out the first `count` units of the source, up to one of program text that is behind a
    /// fence, and goes on behind them. If the next one is such program text, goes on in it.
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
        let (base, mut from) = (self.at, 0);
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
            if let Some(Unit { kind: Kind::LogEntry { goes_on: true, number }, .. }) = next {
                self.open = Open::List(*number);
            }
        }
        // Nothing but the definitions of references, or nothing at all.
        if units.is_empty() && count == 0 && !source.trim().is_empty() {
            self.put_unit(source, &Kind::Other, width, theme, lines);
            self.at = base + source.len() - head;
        }
    }

    /// Lays out one unit; nothing is open after it.
    fn put_unit(
        &mut self,
        source: &str,
        kind: &Kind,
        width: usize,
        theme: &Theme,
        lines: &mut Vec<Line<'static>>,
    ) {
        let open = std::mem::replace(&mut self.open, Open::Nothing);
        let (mut number, mut flow) = (None, None);
        match (kind, open) {
            (Kind::LogEntry { number: its, .. }, Open::List(_)) => {
                number = *its;
                if self.blank {
                    lines.push(Line::default());
                }
            }
            (Kind::Paragraph, Open::Paragraph(open)) => flow = Some(open),
            // Its head alone is what was put before the rest of the text.
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
            (Kind::LogEntry { number: its, .. }, _) => {
                number = *its;
                self.space(lines);
            }
            _ => self.space(lines),
        }
        lines.extend(Painter::new(source, width, theme).going_on(flow).paint(number, false).0);
        self.spaced = true;
        self.blank = blank_before(source, source.len());
    }

    /// Lays out the beginning of a unit that is longer than what is laid out together: the window
    /// is full of it. Says whether it did; if asked to, only what is a paragraph.
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
        let found = units(&source, self.number());
        let first = found.first().map(|unit| &unit.kind);
        if first == Some(&Kind::Paragraph) {
            let source = &source[..found.get(1).map_or(source.len(), |next| next.start)];
            self.cut_paragraph(&source[..cut_paragraph(source)], width, theme, lines);
            return true;
        }
        if paragraphs_only {
            return false;
        }
        if found.len() > 1 {
            self.put(&source, &found, 1, width, theme, lines);
            return true;
        }
        let cut = if whole_lines > 0 { whole_lines } else { cut_anywhere(window) };
        let head = match (first, &self.open) {
            (Some(Kind::Table), Open::Table(head)) => Some(head.clone()),
            (Some(Kind::Table), _) => {
                let start = found.first().map_or(0, |table| table.start);
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
        let flow = match std::mem::replace(&mut self.open, Open::Nothing) {
            Open::Paragraph(flow) => Some(flow),
            _ => {
                self.space(lines);
                None
            }
        };
        let (mut full, flow) = Painter::new(source, width, theme).going_on(flow).paint(None, true);
        lines.append(&mut full);
        if let Some(mut flow) = flow {
            if source.ends_with(char::is_whitespace) {
                flow.push(" ", theme.text);
            }
            self.open = Open::Paragraph(flow);
        }
        (self.at, self.spaced) = (self.at + source.len(), true);
    }

    /// Puts the rest of a paragraph that is open, if there is one.
    pub(super) fn end_paragraph(&mut self, lines: &mut Vec<Line<'static>>) {
        if let Open::Paragraph(flow) = std::mem::replace(&mut self.open, Open::Nothing) {
            lines.extend(flow.finish().into_iter().map(Line::from));
        }
    }

    /// An empty line between units.
    fn space(&mut self, lines: &mut Vec<Line<'static>>) {
        if self.spaced {
            lines.push(Line::default());
        }
        self.spaced = true;
    }
}
