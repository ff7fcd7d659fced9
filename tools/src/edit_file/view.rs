//! [`View`]: a text with normalized line ends, in which edits are located.

use memchr::{memchr, memchr_iter, memmem, memrchr};

/// Returns the text without a byte order mark, and with `\n` as line ends.
pub(super) fn normalized(text: &str) -> String {
    text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n")
}

/// A text with `\n` as line ends, and the mapping to positions in the original text.
pub(super) struct View {
    pub(super) text: String,
    /// The positions of each `\n` that follows a `\r` in the original.
    crlf: Vec<usize>,
}

impl View {
    pub(super) fn of(text: &str) -> Self {
        let mut view = View { text: String::with_capacity(text.len()), crlf: Vec::new() };
        let mut done = 0;
        for at in memmem::find_iter(text.as_bytes(), b"\r\n") {
            view.text.push_str(&text[done..at]);
            view.crlf.push(view.text.len());
            done = at + 1;
        }
        view.text.push_str(&text[done..]);
        view
    }

    /// Returns the position in the original text. For a line end, returns the position of its
    /// start.
    pub(super) fn original(&self, at: usize) -> usize {
        at + self.crlf.partition_point(|end| *end < at)
    }

    /// Returns a function that tells whether the line at a position ends with `\r\n`. A last line
    /// without a line end counts as the line before it.
    ///
    /// The function must be called with increasing positions. It scans each line once.
    pub(super) fn crlf_lookup(&self) -> impl FnMut(usize) -> bool {
        let bytes = self.text.as_bytes();
        let mut known = None;
        move |at| match known {
            Some((until, crlf)) if at <= until => crlf,
            _ => {
                let next = memchr(b'\n', &bytes[at..]).map(|n| at + n);
                let end = next.or_else(|| memrchr(b'\n', &bytes[..at]));
                let crlf = end.is_some_and(|end| self.crlf.binary_search(&end).is_ok());
                known = Some((next.unwrap_or(bytes.len()), crlf));
                crlf
            }
        }
    }

    /// Returns the number of the line at this position.
    pub(super) fn line(&self, at: usize) -> usize {
        1 + memchr_iter(b'\n', &self.text.as_bytes()[..at]).count()
    }
}
