//! [`Flow`]: styled text broken into rows; [`wrap`], the same for text of one style; and
//! [`Growing`], for text of one style that grows.

use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_segmentation::UnicodeSegmentation;
use unicode_width::UnicodeWidthStr;

use crate::output::sanitized;

/// The replacement of a tab, as wrapped text does not know its column.
const TAB: &str = "    ";

/// Styled text within a line.
pub(super) type Fragment = Span<'static>;

/// Wraps text at `width` columns, between words where possible. Leading spaces are kept, tabs
/// become four spaces, and control characters are replaced.
pub(crate) fn wrap(text: &str, width: u16, style: Style) -> Vec<Line<'static>> {
    let mut flow = Flow::new(width.into(), Break::Words);
    for line in text.lines() {
        flow.push(line, style);
        flow.end_line();
    }
    flow.finish().into_iter().map(Line::from).collect()
}

/// Length after which a very long word is cut, so that the unsettled rest stays short.
const CHUNK_BYTES: usize = 1_024;

/// Text of one style that grows, laid out incrementally in the lines that [`wrap`] returns.
pub(crate) struct Growing {
    style: Style,
    flow: Flow,
    lines: Vec<Line<'static>>,
    /// The number of lines that can no longer change.
    settled: usize,
    /// The number of bytes in these lines or in the flow.
    taken: usize,
    work: Work,
}

impl Growing {
    /// Creates an empty text of this width below a fixed line.
    pub(crate) fn below(first: Line<'static>, width: u16, style: Style) -> Self {
        let flow = Flow::new(width.into(), Break::Words);
        Growing { style, flow, lines: vec![first], settled: 1, taken: 0, work: Work::default() }
    }

    /// Sets the text, which must begin with the previous one and not end with a space.
    pub(crate) fn update(&mut self, text: &str) {
        self.lines.truncate(self.settled);
        // Between words, and not within a line end.
        let mut to =
            text.rfind([' ', '\n']).map_or(0, |end| text[..end].trim_end_matches('\r').len());
        if text.len() > to.max(self.taken) + 2 * CHUNK_BYTES {
            to = text.floor_char_boundary(text.len() - CHUNK_BYTES);
        }
        if let Some(new) = text.get(self.taken..to) {
            self.work.add(new.len());
            self.flow.push(&new.replace("\r\n", "\n"), self.style);
            self.taken = to;
        }
        self.lines.extend(self.flow.full_rows().into_iter().map(Line::from));
        self.settled = self.lines.len();
        let (mut flow, rest) = (self.flow.clone(), text.get(self.taken..).unwrap_or_default());
        self.work.add(rest.len());
        flow.push(&rest.replace("\r\n", "\n"), self.style);
        self.lines.extend(flow.finish().into_iter().map(Line::from));
    }

    /// Returns the lines of the last update.
    pub(crate) fn lines(&self) -> &[Line<'static>] {
        &self.lines
    }
}

/// A counter of processed bytes, for tests that bound the cost of a growing text.
#[derive(Default)]
pub(super) struct Work(#[cfg(test)] usize);

#[cfg(test)]
impl Work {
    pub(super) fn add(&mut self, bytes: usize) {
        self.0 += bytes;
    }

    pub(super) fn bytes(&self) -> usize {
        self.0
    }
}

#[cfg(not(test))]
impl Work {
    pub(super) fn add(&mut self, _: usize) {}
}

/// Returns the columns that text takes on a terminal.
pub(crate) fn columns(text: &str) -> usize {
    if text.is_ascii() {
        text.len()
    } else {
        text.graphemes(true).map(UnicodeWidthStr::width).sum()
    }
}

/// Shortens text to one line of `width` columns, with an ellipsis if it does not fit.
pub(crate) fn shorten(text: &str, width: usize) -> String {
    let text = sanitized(text).replace(['\n', '\t'], " ");
    if columns(&text) <= width {
        return text;
    }
    let (mut short, mut used) = (String::new(), 0);
    for grapheme in text.graphemes(true) {
        used += grapheme.width();
        if used >= width {
            break;
        }
        short.push_str(grapheme);
    }
    if width > 0 {
        short.push('…');
    }
    short
}

/// The positions at which a full row may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Break {
    /// Between words; within a word only if it is longer than a row.
    Words,
    /// Anywhere, for program text.
    Anywhere,
}

/// A builder of rows from text that is added in parts. A clone includes the unfinished row, so that
/// a growing text is laid out incrementally.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    width: usize,
    breaks: Break,
    /// Complete rows.
    rows: Vec<Vec<Fragment>>,
    row: Vec<Fragment>,
    used: usize,
    /// A word, which is kept together with the text behind it unless that is a space.
    word: Vec<Fragment>,
    word_used: usize,
    /// Spaces between the row and the word.
    spaces: usize,
    space_style: Style,
    /// `true` if the row continues a full one; spaces at its beginning are dropped.
    continued: bool,
    /// `true` if this line of the text is not empty.
    has_content: bool,
}

impl Flow {
    pub(super) fn new(width: usize, breaks: Break) -> Self {
        Flow {
            width: width.max(1),
            breaks,
            rows: Vec::new(),
            row: Vec::new(),
            used: 0,
            word: Vec::new(),
            word_used: 0,
            spaces: 0,
            space_style: Style::new(),
            continued: false,
            has_content: false,
        }
    }

    /// Adds text; a line end in it ends a row.
    pub(super) fn push(&mut self, text: &str, style: Style) {
        for (n, line) in text.split('\n').enumerate() {
            if n > 0 {
                self.end_line();
            }
            self.push_line(&sanitized(line), style);
        }
    }

    fn push_line(&mut self, line: &str, style: Style) {
        // A variation selector would widen the previous letter, which is already placed.
        let line = line.trim_start_matches('\u{fe0f}');
        self.has_content |= !line.is_empty();
        for grapheme in line.graphemes(true) {
            match grapheme {
                "\t" => (0..TAB.len()).for_each(|_| self.space(style)),
                " " => self.space(style),
                _ => self.letter(grapheme, style),
            }
        }
    }

    fn space(&mut self, style: Style) {
        if self.breaks == Break::Anywhere {
            return self.letter(" ", style);
        }
        self.end_word();
        self.spaces += 1;
        self.space_style = style;
    }

    fn letter(&mut self, grapheme: &str, style: Style) {
        let (grapheme, wide) = match grapheme.width() {
            wide if wide > self.width => ("\u{fffd}", 1),
            wide => (grapheme, wide),
        };
        // A line may be broken before and after a wide letter, as is customary in East Asian text.
        let alone = wide > 1 || self.breaks == Break::Anywhere;
        if alone || self.word_used + wide > self.width {
            self.end_word();
        }
        add(&mut self.word, grapheme, style);
        self.word_used += wide;
        if alone {
            self.end_word();
        }
    }

    fn end_word(&mut self) {
        if self.word.is_empty() {
            return;
        }
        let spaces = std::mem::take(&mut self.spaces);
        if self.used + spaces + self.word_used > self.width {
            if self.used > 0 {
                self.end_row();
            }
            self.continued = true;
        } else if spaces > 0 && !(self.continued && self.used == 0) {
            add(&mut self.row, &" ".repeat(spaces), self.space_style);
            self.used += spaces;
        }
        self.used += std::mem::take(&mut self.word_used);
        for fragment in self.word.drain(..) {
            match self.row.last_mut() {
                Some(last) if last.style == fragment.style => {
                    last.content.to_mut().push_str(&fragment.content)
                }
                _ => self.row.push(fragment),
            }
        }
    }

    fn end_row(&mut self) {
        self.rows.push(std::mem::take(&mut self.row));
        self.used = 0;
    }

    /// Ends a line of the text, which may be empty.
    pub(super) fn end_line(&mut self) {
        self.end_word();
        self.end_row();
        self.spaces = 0;
        self.continued = false;
        self.has_content = false;
    }

    /// Returns the rows that can no longer change.
    pub(super) fn full_rows(&mut self) -> Vec<Vec<Fragment>> {
        std::mem::take(&mut self.rows)
    }

    /// Returns the remaining rows, including an unfinished one.
    pub(super) fn finish(mut self) -> Vec<Vec<Fragment>> {
        if self.has_content {
            self.end_line();
        }
        self.rows
    }
}

/// Appends text, extending the last fragment if it has the same style.
pub(super) fn add(fragments: &mut Vec<Fragment>, text: &str, style: Style) {
    match fragments.last_mut() {
        Some(last) if last.style == style => last.content.to_mut().push_str(text),
        _ => fragments.push(Span::styled(text.to_owned(), style)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrapped(text: &str, width: u16) -> Vec<String> {
        wrap(text, width, Style::new()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn lines_end_between_words_and_long_words_are_cut() {
        assert_eq!(wrapped("the quick brown fox", 9), ["the quick", "brown fox"]);
        assert_eq!(wrapped("the quick brown fox", 8), ["the", "quick", "brown", "fox"]);
        assert_eq!(wrapped("a abcdefghijk b", 4), ["a", "abcd", "efgh", "ijk", "b"]);
        assert_eq!(wrapped("  indented  text   here", 16), ["  indented  text", "here"]);
        assert_eq!(wrapped("a\n\n b\tc\n", 80), ["a", "", " b    c"]);
        assert_eq!(wrapped("", 80), [""; 0]);
    }

    #[test]
    fn a_text_that_grows_makes_the_rows_that_wrap_makes() {
        let text = "Well,  some words,\r\n\n  漢字 and\ta verylongwordthatneedscutting \
                    \u{1b} e\u{301}nd\nlast";
        let style = Style::new().italic();
        for width in 1..40 {
            let mut growing = Growing::below(Line::raw("first"), width, style);
            let mut so_far = String::new();
            for letter in text.graphemes(true) {
                so_far.push_str(letter);
                growing.update(so_far.trim());
                let expected =
                    [vec![Line::raw("first")], wrap(so_far.trim(), width, style)].concat();
                assert_eq!(growing.lines(), expected, "{width} {so_far:?}");
            }
        }
    }

    /// For long texts with and without spaces and line ends.
    #[test]
    fn the_cost_of_growing_text_is_proportional_to_its_growth() {
        for text in ["word and ".repeat(20_000), "line\n".repeat(30_000), "漢字".repeat(20_000)] {
            let mut growing = Growing::below(Line::raw(""), 80, Style::new());
            let frames = 500;
            for frame in 1..=frames {
                growing
                    .update(text[..text.floor_char_boundary(text.len() * frame / frames)].trim());
            }
            let work = growing.work.bytes();
            assert!(work <= text.len() + frames * 3 * CHUNK_BYTES, "{work} of {}", text.len());
            assert!(growing.lines().len() > 900, "{}", growing.lines().len());
        }
    }

    #[test]
    fn wide_letters_and_clusters_stay_whole() {
        assert_eq!(wrapped("漢字漢字漢", 5), ["漢字", "漢字", "漢"]);
        assert_eq!(wrapped("漢", 1), ["\u{fffd}"]);
        assert_eq!(wrapped("👩‍👩‍👧‍👦👩‍👩‍👧‍👦👩‍👩‍👧‍👦", 4), ["👩‍👩‍👧‍👦👩‍👩‍👧‍👦", "👩‍👩‍👧‍👦"]);
        assert_eq!(wrapped("e\u{301}e\u{301}e\u{301}", 2), ["e\u{301}e\u{301}", "e\u{301}"]);
    }

    #[test]
    fn control_characters_are_replaced() {
        assert_eq!(wrapped("a\x1b[2Jb\u{202e}c\u{7}", 80), ["a\u{fffd}[2Jb\u{fffd}c\u{fffd}"]);
        assert_eq!(shorten("a\nb\x1b", 80), "a b\u{fffd}");
        assert_eq!((shorten("abcd", 4).as_str(), shorten("abcde", 4).as_str()), ("abcd", "abc…"));
        assert_eq!((shorten("漢字漢", 4).as_str(), shorten("abc", 0).as_str()), ("漢…", ""));
    }

    /// However a text is split between letters, the rows are the same.
    #[test]
    fn a_text_in_parts_makes_the_same_rows() {
        let text = "  some words, 漢字 and\ta verylongwordthatneedscutting   end ";
        for width in 1..40 {
            for breaks in [Break::Words, Break::Anywhere] {
                let mut whole = Flow::new(width, breaks);
                whole.push(text, Style::new());
                let mut parts = Flow::new(width, breaks);
                let mut rows = Vec::new();
                for letter in text.graphemes(true) {
                    parts.push(letter, Style::new());
                    rows.append(&mut parts.full_rows());
                }
                rows.append(&mut parts.finish());
                assert_eq!(rows, whole.finish(), "{width} {breaks:?}");
            }
        }
    }
}
