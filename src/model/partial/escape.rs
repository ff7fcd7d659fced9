//! Incremental decoder of JSON string escapes.

/// An incomplete escape of a string.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Escape {
    part: Part,
    /// The first half of a surrogate pair whose second half may follow.
    high: Option<u32>,
}

#[derive(Debug, Clone, Copy, Default)]
enum Part {
    #[default]
    None,
    Backslash,
    /// A `\uXXXX` escape that lacks digits.
    Digits {
        missing: u8,
        code: u32,
    },
}

impl Escape {
    pub(super) fn is_open(&self) -> bool {
        !matches!(self.part, Part::None)
    }

    /// Replaces an unpaired surrogate with U+FFFD.
    pub(super) fn settle(&mut self, out: &mut String) {
        if self.high.take().is_some() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }

    /// Reads the next character of an escape. Returns `false` if the escape is invalid.
    pub(super) fn take(&mut self, next: char, out: &mut String) -> bool {
        match self.part {
            Part::None => self.part = Part::Backslash,
            Part::Backslash if next == 'u' => self.part = Part::Digits { missing: 4, code: 0 },
            Part::Backslash => {
                let meant = match next {
                    '"' | '\\' | '/' => next,
                    'b' => '\u{8}',
                    'f' => '\u{c}',
                    'n' => '\n',
                    'r' => '\r',
                    't' => '\t',
                    _ => return false,
                };
                self.settle(out);
                out.push(meant);
                self.part = Part::None;
            }
            Part::Digits { missing, code } => {
                let Some(digit) = next.to_digit(16) else {
                    return false;
                };
                let (missing, code) = (missing - 1, code << 4 | digit);
                self.part = Part::Digits { missing, code };
                if missing == 0 {
                    self.part = Part::None;
                    self.unit(code, out);
                }
            }
        }
        true
    }

    /// Adds one UTF-16 unit.
    fn unit(&mut self, code: u32, out: &mut String) {
        if let (Some(high), 0xDC00..=0xDFFF) = (self.high, code) {
            self.high = None;
            out.extend(char::from_u32(0x10000 + ((high - 0xD800) << 10) + (code - 0xDC00)));
            return;
        }
        self.settle(out);
        match code {
            0xD800..=0xDBFF => self.high = Some(code),
            _ => out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER)),
        }
    }
}
