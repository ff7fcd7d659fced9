//! The positions at which a Markdown text can be cut without changing any part: between units,
//! which are the blocks of the document and the items of its lists.

use pulldown_cmark::{CodeBlockKind, Event, OffsetIter, Options, Parser, Tag};

/// Parses the Markdown that models write.
pub(super) fn parse(source: &str) -> OffsetIter<'_> {
    let options =
        Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    Parser::new_ext(source, options).into_offset_iter()
}

/// A block, or an item of a top-level list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Unit {
    /// The position of its first line, in bytes.
    pub(super) start: usize,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Paragraph,
    /// Program text after a fence, with the info string.
    Fence(String),
    Table,
    /// An item of a list. The first item does not continue a list.
    Item {
        continues: bool,
        number: Option<u64>,
    },
    Other,
}

/// Returns the units of a text, in order. If the text begins within a numbered list, `number` is
/// the next item's.
pub(super) fn units(source: &str, number: Option<u64>) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    // The top-level list that the events are in: whether it has items, and the number of the next
    // item.
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
                Some(Kind::Item { continues: std::mem::replace(&mut list.0, true), number })
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
        // A nested item that begins on the line of the outer item is not a unit.
        if let Some(kind) = kind
            && units.last().is_none_or(|last| last.start < start)
        {
            units.push(Unit { start, kind });
        }
    }
    units
}

/// Returns the start of the line at an offset.
pub(super) fn line_start(source: &str, offset: usize) -> usize {
    source[..offset].rfind(['\n', '\r']).map_or(0, |end| end + 1)
}

/// Returns whether the line before an offset is empty except for quote marks.
pub(super) fn blank_before(source: &str, offset: usize) -> bool {
    let before = &source[..line_start(source, offset)];
    let Some(before) = before.strip_suffix('\n') else {
        return false;
    };
    let line = before.rsplit('\n').next().unwrap_or(before);
    line.chars().all(|c| c == '>' || c.is_ascii_whitespace())
}

/// Returns the position at which to cut a long paragraph: in its last half, after a space outside
/// emphasis, links and code, and before a word that does not look like the mark of another block.
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

/// Returns the position at which to cut a text that has no good position: before its last character
/// that is not a space.
pub(super) fn cut_anywhere(source: &str) -> usize {
    let last = source.trim_end().char_indices().next_back().map_or(0, |(at, _)| at);
    if last > 0 { last } else { source.len() }
}

/// The fence of program text, as far as the closing one must match it.
#[derive(Clone, Debug)]
pub(super) struct Fence {
    mark: char,
    count: usize,
    indent: usize,
}

impl Fence {
    /// Parses the opening line.
    pub(super) fn new(line: &str) -> Self {
        let text = line.trim_start_matches(' ');
        let mark = if text.starts_with('~') { '~' } else { '`' };
        Fence {
            mark,
            count: text.len() - text.trim_start_matches(mark).len(),
            indent: line.len() - text.len(),
        }
    }

    /// Returns whether this line closes the block.
    pub(super) fn closes(&self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        let rest = text.trim_start_matches(self.mark);
        line.len() - text.len() < 4
            && text.len() - rest.len() >= self.count
            && rest.trim().is_empty()
    }

    /// Returns whether a line that begins like this could become a closing fence.
    pub(super) fn could_close(&self, line: &str) -> bool {
        let text = line.trim_start_matches(' ');
        line.len() - text.len() < 4 && text.trim_start_matches(self.mark).trim().is_empty()
    }

    /// Returns a line of the block without the indentation of its fence.
    pub(super) fn within<'a>(&self, line: &'a str) -> &'a str {
        let spaces = line.len() - line.trim_start_matches(' ').len();
        &line[spaces.min(self.indent)..]
    }
}
