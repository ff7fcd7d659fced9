//! Parser of event streams, according to the WHATWG specification, for chunks of any size.
//!
//! An event that is complete within one chunk is returned as slices of that chunk. Only the
//! unfinished part of a chunk is copied, and each byte is inspected once. [`SseParser::flush`]
//! returns events that violate the specification, because many servers send such events.

use std::mem::take;

use memchr::{memchr, memchr2};

/// One event of a stream. Its bytes are whole lines as received, so no character is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SseEvent<'a> {
    /// `event` field; empty if there is none (the specification's `message`).
    pub event: &'a [u8],
    /// `data` lines, joined by line feeds.
    pub data: &'a [u8],
}

/// A parser that splits a stream into events.
///
/// At the end of a stream, the specification drops an event without its blank line. Many servers
/// end their streams like that, so [`flush`](SseParser::flush) returns such an event.
///
/// ```
/// use loopwright_providers::SseParser;
///
/// let (mut parser, mut seen) = (SseParser::new(), Vec::new());
/// parser.push(b"data: on", |event| seen.push(event.data.to_vec()));
/// parser.push(b"e\r\n\r\ndata: two", |event| seen.push(event.data.to_vec()));
/// parser.flush(|event| seen.push(event.data.to_vec()));
/// assert_eq!(seen, [b"one", b"two"]);
/// ```
#[derive(Debug, Default)]
pub struct SseParser {
    /// The start of an unfinished line.
    line: Vec<u8>,
    /// The part of the event from earlier chunks.
    event: Vec<u8>,
    data: Vec<u8>,
    has_data: bool,
    /// The lines from the first that starts like JSON and not like a field of an event.
    bare: Vec<u8>,
    /// `true` if the last line ended with CR. A following LF belongs to it.
    after_cr: bool,
    /// `true` once the first line, which may start with a byte order mark, has been parsed.
    past_first_line: bool,
}

/// The part of the event in the current chunk.
#[derive(Default)]
struct InChunk<'c> {
    event: Option<&'c [u8]>,
    data: Option<&'c [u8]>,
}

impl SseParser {
    /// Returns a parser at the start of a stream.
    pub fn new() -> Self {
        Self::default()
    }

    /// Parses the next bytes, and passes the events that they complete to `on`.
    pub fn push(&mut self, chunk: &[u8], mut on: impl FnMut(SseEvent<'_>)) {
        let mut rest = chunk;
        let mut here = InChunk::default();
        while !rest.is_empty() {
            if take(&mut self.after_cr) && rest[0] == b'\n' {
                rest = &rest[1..];
                continue;
            }
            let blank = matches!(rest[0], b'\n' | b'\r').then_some(0);
            let Some(end) = blank.or_else(|| memchr2(b'\n', b'\r', rest)) else {
                self.line.extend_from_slice(rest);
                break;
            };
            self.after_cr = rest[end] == b'\r';
            if self.line.is_empty() {
                self.end_line(&rest[..end], &mut here, &mut on);
            } else {
                self.line.extend_from_slice(&rest[..end]);
                let mut line = take(&mut self.line);
                let mut own = InChunk::default();
                self.end_line(&line, &mut own, &mut on);
                self.keep(&mut own);
                line.clear();
                self.line = line;
            }
            rest = &rest[end + 1..];
        }
        self.keep(&mut here);
    }

    /// Ends the stream, and passes to `on` whatever the specification drops: an event without its
    /// blank line, and JSON outside any event, as one event from the line where it starts.
    pub fn flush(&mut self, mut on: impl FnMut(SseEvent<'_>)) {
        let line = take(&mut self.line);
        let mut own = InChunk::default();
        if !line.is_empty() {
            self.end_line(&line, &mut own, &mut on);
        }
        self.dispatch(&mut own, &mut on);
        if self.is_bare() {
            on(SseEvent { event: b"", data: &take(&mut self.bare) });
        }
    }

    /// Returns whether the stream has JSON outside any event.
    pub fn is_bare(&self) -> bool {
        !self.bare.is_empty()
    }

    /// Returns the number of buffered bytes of an unfinished event.
    pub fn buffered(&self) -> usize {
        self.line.len() + self.event.len() + self.data.len() + self.bare.len()
    }

    fn end_line<'c>(
        &mut self,
        mut line: &'c [u8],
        here: &mut InChunk<'c>,
        on: &mut impl FnMut(SseEvent<'_>),
    ) {
        if !self.past_first_line {
            self.past_first_line = true;
            line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
        }
        if line.is_empty() {
            return self.dispatch(here, on);
        }
        let (field, value) = if let Some(value) = line.strip_prefix(b"data:") {
            (&line[..4], value)
        } else if let Some(colon) = memchr(b':', line) {
            (&line[..colon], &line[colon + 1..])
        } else {
            (line, &line[line.len()..])
        };
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"data" if self.has_data => {
                self.keep(here);
                self.data.push(b'\n');
                self.data.extend_from_slice(value);
            }
            b"data" => {
                self.bare.clear();
                self.has_data = true;
                here.data = Some(value);
            }
            b"event" => {
                self.event.clear();
                here.event = Some(value);
            }
            [b'{' | b'[', ..] => self.keep_bare(line),
            [_, ..] if self.is_bare() => self.keep_bare(line),
            _ => {} // a comment, `id`, `retry`, or an unknown field
        }
    }

    fn dispatch(&mut self, here: &mut InChunk<'_>, on: &mut impl FnMut(SseEvent<'_>)) {
        if take(&mut self.has_data) {
            on(SseEvent {
                event: here.event.unwrap_or(&self.event),
                data: here.data.unwrap_or(&self.data),
            });
        }
        *here = InChunk::default();
        self.event.clear();
        self.data.clear();
    }

    fn keep_bare(&mut self, line: &[u8]) {
        self.bare.extend_from_slice(line);
        self.bare.push(b'\n');
    }

    /// Copies the unfinished part of a chunk into buffers.
    fn keep(&mut self, here: &mut InChunk<'_>) {
        if let Some(event) = here.event.take() {
            self.event.extend_from_slice(event);
        }
        if let Some(data) = here.data.take() {
            self.data.extend_from_slice(data);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>) -> Vec<(String, String)> {
        let mut events = Vec::new();
        let mut parser = SseParser::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        for chunk in chunks {
            parser.push(chunk, |e| events.push((text(e.event), text(e.data))));
        }
        parser.flush(|e| events.push((text(e.event), text(e.data))));
        events
    }

    fn data(stream: &str) -> Vec<String> {
        parse([stream.as_bytes()]).into_iter().map(|(_, data)| data).collect()
    }

    #[test]
    fn every_kind_of_line_end_ends_a_line() {
        for end in ["\n", "\r", "\r\n"] {
            let stream = ["data: a", "data: b", "", "data: c", "", ""].join(end);
            assert_eq!(data(&stream), ["a\nb", "c"], "{end:?}");
        }
    }

    #[test]
    fn any_cut_gives_the_same_events() {
        let stream = "\u{feff}: hi\r\nevent: x\r\ndata: {\"t\":\"h\u{e9}llo \
                      \u{1f30d}\"}\r\n\r\ndata:1\rdata\rdata: 2\r\r\
                      data: 3\n\nevent: lost\n\ndata: last";
        let whole = parse([stream.as_bytes()]);
        assert_eq!(whole.len(), 4);
        assert_eq!(whole[0], ("x".into(), "{\"t\":\"h\u{e9}llo \u{1f30d}\"}".into()));
        assert_eq!(whole[1], (String::new(), "1\n\n2".into()));
        assert_eq!(whole[3], (String::new(), "last".into()));
        for cut in 0..=stream.len() {
            let (a, b) = stream.as_bytes().split_at(cut);
            assert_eq!(parse([a, b]), whole, "cut at {cut}");
        }
        assert_eq!(parse(stream.as_bytes().chunks(1)), whole);
    }

    #[test]
    fn only_a_leading_byte_order_mark_is_dropped() {
        assert_eq!(data("\u{feff}data: 1\n\n\u{feff}data: 2\n\ndata: 3\n\n"), ["1", "3"]);
    }

    #[test]
    fn comments_and_unknown_fields_are_no_events() {
        assert!(data(": keep-alive\n\nretry: 10\n\nid: 7\n\nwhat\n\n").is_empty());
        assert_eq!(data("data:  two spaces\nDATA: no\n\ndata\n\n"), [" two spaces", ""]);
    }

    #[test]
    fn flush_returns_what_the_specification_drops() {
        let mut parser = SseParser::new();
        parser.push(b"data: 1", |_| panic!("no event is complete"));
        parser.flush(|event| assert_eq!(event.data, b"1"));
        assert_eq!(data("data: 1\n\n{\n\n \"error\": 7\n}"), ["1", "{\n \"error\": 7\n}\n"]);
        assert_eq!(data("[what\ndata: 1\n\n"), ["1"]);
    }

    #[test]
    fn an_event_in_one_chunk_is_not_copied() {
        let chunk = b"event: e\ndata: here\n\n";
        let mut parser = SseParser::new();
        parser.push(chunk, |event| assert!(chunk.as_ptr_range().contains(&event.data.as_ptr())));
        assert_eq!(parser.buffered(), 0);
    }
}
