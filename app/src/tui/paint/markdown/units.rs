//! Where a text in Markdown can be cut without any part of it changing: between units, which are
//! the blocks of the document, and of a list each item.

use pulldown_cmark::{CodeBlockKind, Event, OffsetIter, Options, Parser, Tag};

/// The Markdown that models write.
pub(super) fn parse(source: &str) -> OffsetIter<'_> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(source, options).into_offset_iter()
}

/// A block, or an item of a list that is none of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// Where its first line begins.
    pub(super) start: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Paragraph,
    /// Program text after a fence, with what stands behind the fence.
    Fence(String),
    Table,
    /// The first item of a list is none that goes on with one.
    LogEntry {
        goes_on: bool,
        number: Option<u64>,
    },
    Other,
}

/// The units of a text, in order. If it goes on with a numbered list, `number` is the one of the
/// next item.
pub(super) fn units(source: &str, number: Option<u64>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    // The list that the events are in, if it is a block of the document: whether it has items, the
    // next one's number.
    let mut list = (false, None);
    let mut depth = 0;
    for (event, range) in parse(source) {
        let kind = match (&event, depth) {
            (Event::Start(Tag::List(start)), 0) => {
                let number = number.filter(|_| units.is_empty());
                list = (false, start.map(|start| number.unwrap_or(start)));
                None
            }
            (Event::Start(Tag::Item), 1) => {
                let number = list.1;
                list.1 = number.map(|number| number.saturating_add(1));
                Some(Kind::LogEntry { goes_on: std::mem::replace(&mut list.0, true), number })
            }
            (Event::Start(Tag::Paragraph), 0) => Some(Kind::Paragraph),
            (Event::Start(Tag::Table(_)), 0) => Some(Kind::Table),
            (Event::Start(Tag::CodeBlock(CodeBlockKind::Fenced(info))), 0) => {
                Some(Kind::Fence(info.to_string()))
            }
            (Event::End(_), _) => None,
            (_, 0) => Some(Kind::Other),
            _ => None,
        };
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            _ => {}
        }
        let start = line_start(source, range.start);
        // An item in an item begins on the line of the outer one, which alone is a unit.
        if let Some(kind) = kind
            && units.last().is_none_or(|last| last.start < start)
        {
            units.push(Unit { start, kind });
        }
    }
    units
}

/// Where the line begins that this place is in.
pub(super) fn line_start(source: &str, place: usize) -> usize {
    source[..place].rfind(['\n', '\r']).map_or(0, |end| end + 1)
}

/// Whether the line before the one with this place has nothing but the marks of quotes.
pub(super) fn blank_before(source: &str, place: usize) -> bool {
    let before = &source[..line_start(source, place)];
    let Some(before) = before.strip_suffix('\n') else {
        return false;
    };
    let line = before.rsplit('\n').next().unwrap_or(before);
    line.chars().all(|c| c == '>' || c.is_ascii_whitespace())
}

/// Where to cut a paragraph that is longer than what is to be laid out at a time: after a space
/// that is in no emphasis, link or code, and before a word that cannot be taken for the mark of
/// another block; within its last half.
pub(super) fn cut_paragraph(source: &str) -> usize {
    let (mut depth, mut cut) = (0, 0);
    for (event, range) in parse(source) {
        match event {
            Event::Start(_) => depth += 1,
            Event::End(_) => depth -= 1,
            Event::Text(_) if depth == 1 => {
                let text = &source[range.clone()];
                let after = |(at, space): (usize, &str)| range.start + at + space.len();
                let word = |at: &usize| source[*at..].starts_with(char::is_alphabetic);
                cut = text.rmatch_indices(' ').map(after).find(word).unwrap_or(cut);
            }
            _ => {}
        }
    }
    if cut > source.len() / 2 { cut } else { cut_anywhere(source) }
}

/// Where to cut a text that has no good place: before its last character that is no space.
pub(super) fn cut_anywhere(source: &str) -> usize {
    let last = source.trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
    if last > 0 { last } else { source.len() }
}

/// A line that opened a block of program text, as far as what closes it must be alike.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    mark: char,
    count: usize,
    indent: usize,
}

impl Fence {
    pub(super) fn new(line: &str) -> Self {
        let text = line.trim_start_matches(' ');
        let mark = if text.starts_with('~') { '~' } else { '`' };
        Fence {
            mark,
            count: text.len() - text.trim_start_matches(mark).len(),
            indent: line.len() - text.len(),
        }
    }

    /// Whether this line closes the block.
    pub(super) fn closes(&self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        let rest = text.trim_start_matches(self.mark);
        line.len() - text.len() < 4
            && text.len() - rest.len() >= self.count
            && rest.trim().is_empty()
    }

    /// Whether a line that begins so could still become one that closes the block.
    pub(super) fn could_close(&self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        line.len() - text.len() < 4 && text.trim_start_matches(self.mark).trim().is_empty()
    }

    /// A line of the block without the spaces that its fence has too.
    pub(super) fn within<'a>(&self, line: &'a str) -> &'a str {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        &line[spaces.min(self.indent)..]
    }
}
