//! [`Page`]: the lines of a unit, with the margins of the items and quotes around them.

use ratatui::style::Style;
use ratatui::text::Line;

use super::super::flow::{Fragment, shorten, wrap};
use super::units::blank_before;

/// The indentation of an item or a quote.
pub(super) struct Inset {
    /// The mark of the item, until its first line is added.
    pub(super) mark: Option<Fragment>,
    /// The margin of each other line.
    pub(super) margin: Fragment,
    pub(super) width: usize,
}

/// The lines of a unit in the making.
pub(super) struct Page<'a> {
    source: &'a str,
    width: usize,
    pub(super) lines: Vec<Line<'static>>,
    insets: Vec<Inset>,
    /// `true` until the innermost item or quote has a line, so that no empty line comes before it.
    fresh: bool,
}

impl<'a> Page<'a> {
    /// Creates an empty page.
    pub(super) fn new(source: &'a str, width: usize) -> Self {
        Page { source, width, lines: Vec::new(), insets: Vec::new(), fresh: true }
    }

    /// Puts an empty line if the source has one before this offset.
    pub(super) fn separate(&mut self, offset: usize) {
        if !self.fresh && blank_before(self.source, offset) {
            let mut margin: Vec<Fragment> =
                self.insets.iter().map(|inset| inset.margin.clone()).collect();
            while margin.last().is_some_and(|fragment| fragment.content.trim().is_empty()) {
                margin.pop();
            }
            self.lines.push(Line::from(margin));
        }
    }

    /// Indents the following lines, unless that would leave less than half of the width.
    pub(super) fn inset(&mut self, mut inset: Inset) {
        if self.width - self.inner() + inset.width > self.width / 2 {
            inset = Inset { mark: inset.mark, margin: Fragment::raw(""), width: 0 };
        }
        self.insets.push(inset);
        self.fresh = true;
    }

    /// Ends the innermost indentation, putting its mark if it had no line.
    pub(super) fn end_inset(&mut self) {
        if self.insets.last().is_some_and(|inset| inset.mark.is_some()) {
            self.put(vec![Vec::new()]);
        }
        self.insets.pop();
        self.fresh = false;
    }

    /// Returns whether text is indented.
    pub(super) fn is_inset(&self) -> bool {
        !self.insets.is_empty()
    }

    /// Replaces the mark of the innermost item if it has not been put and has the width of a box.
    /// Returns whether it did.
    pub(super) fn replace_mark(&mut self, mark: Fragment) -> bool {
        let Some(Inset { mark: Some(old), width: 2, .. }) = self.insets.last_mut() else {
            return false;
        };
        *old = mark;
        true
    }

    /// Puts text without margins.
    pub(super) fn put_unindented(&mut self, text: &str, style: Style) {
        let width = u16::try_from(self.width).unwrap_or(u16::MAX);
        self.lines.extend(wrap(text, width, style));
        self.fresh = false;
    }

    /// Returns the width without the margins.
    pub(super) fn inner(&self) -> usize {
        self.width.saturating_sub(self.insets.iter().map(|inset| inset.width).sum()).max(1)
    }

    /// Puts rows behind the margins.
    pub(super) fn put(&mut self, rows: Vec<Vec<Fragment>>) {
        for mut row in rows {
            let mut line = Vec::new();
            for inset in &mut self.insets {
                match inset.mark.take() {
                    Some(mark) if inset.width > 0 => line.push(mark),
                    // Without room beside the text, the mark stands above it.
                    Some(mark) => {
                        let text = shorten(mark.content.trim_end(), self.width);
                        self.lines.push(Line::from(vec![Fragment::styled(text, mark.style)]));
                    }
                    None => line.push(inset.margin.clone()),
                }
            }
            line.append(&mut row);
            while line.last().is_some_and(|fragment| fragment.content.is_empty()) {
                line.pop();
            }
            self.lines.push(Line::from(line));
            self.fresh = false;
        }
    }
}
