//! [`LiveOutput`]: the output of a command while it runs.

/// The maximum size of output that waits to be sent. The oldest part of longer output is left out.
const MAX_PENDING_BYTES: usize = 64 * 1024;
/// The maximum size of all output that is sent live.
const MAX_TOTAL_BYTES: usize = 1024 * 1024;

/// A buffer that splits output into chunks of whole characters and bounds its size.
#[derive(Debug, Default)]
pub(super) struct LiveOutput {
    /// The start of an incomplete character.
    incomplete: Vec<u8>,
    pending: String,
    sent_bytes: usize,
}

impl LiveOutput {
    pub(super) fn push(&mut self, bytes: &[u8]) {
        if self.sent_bytes >= MAX_TOTAL_BYTES {
            return;
        }
        let bytes = [&std::mem::take(&mut self.incomplete), bytes].concat();
        for chunk in bytes.utf8_chunks() {
            self.pending.push_str(chunk.valid());
            let invalid = chunk.invalid();
            let at_end = invalid.as_ptr_range().end == bytes.as_ptr_range().end;
            if at_end && std::str::from_utf8(invalid).is_err_and(|e| e.error_len().is_none()) {
                self.incomplete = invalid.to_vec();
            } else if !invalid.is_empty() {
                self.pending.push('\u{fffd}');
            }
        }
        if self.pending.len() > MAX_PENDING_BYTES {
            let from = self.pending.len() - MAX_PENDING_BYTES / 2;
            let from = self.pending.ceil_char_boundary(from);
            self.pending.replace_range(..from, "\n[… left out here …]\n");
        }
    }

    /// Takes the next chunk, if any.
    pub(super) fn take(&mut self) -> Option<String> {
        if self.pending.is_empty() {
            return None;
        }
        let mut text = std::mem::take(&mut self.pending);
        self.sent_bytes += text.len();
        if self.sent_bytes >= MAX_TOTAL_BYTES {
            text.push_str("\n[… the rest is not shown while it runs …]\n");
        }
        Some(text)
    }

    /// Puts back a chunk that could not be sent.
    pub(super) fn put_back(&mut self, text: String) {
        self.sent_bytes -= self.sent_bytes.min(text.len());
        self.pending.insert_str(0, &text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_contain_whole_characters() {
        let mut live = LiveOutput::default();
        live.push(b"a\xc3");
        assert_eq!(live.take().unwrap(), "a");
        live.push(b"\xa9\xffb");
        assert_eq!(live.take().unwrap(), "é\u{fffd}b");
        assert_eq!(live.take(), None);
    }

    #[test]
    fn live_output_is_bounded_and_can_be_put_back() {
        let mut live = LiveOutput::default();
        live.push(&[b'x'; 4 * MAX_PENDING_BYTES]);
        let text = live.take().unwrap();
        assert!(text.len() < MAX_PENDING_BYTES, "{}", text.len());
        assert!(text.starts_with("\n[… left out"));
        live.put_back("first ".into());
        live.push(b"second");
        assert_eq!(live.take().unwrap(), "first second");
        let mut sent = 0;
        for _ in 0..1_000 {
            live.push(&[b'x'; 10_000]);
            sent += live.take().map_or(0, |text| text.len());
        }
        assert!(sent < MAX_TOTAL_BYTES + 20_000, "{sent}");
    }
}
