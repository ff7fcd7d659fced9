//! The event-stream parser: any split gives the same events, and they match the specification.

use loopwright_providers::{SseEvent, SseParser};

use crate::random::Random;

/// The name of an event, and its data.
type Event = (Vec<u8>, Vec<u8>);

/// Panics if the parser violates an invariant with these bytes.
pub fn check_parser(bytes: &[u8]) {
    let (whole, flushed) = parse(&[bytes]);
    assert_eq!(whole, by_the_book(bytes), "not what the specification says");
    assert!(flushed.len() <= 2, "more than an event and JSON at the end");
    let all: usize =
        whole.iter().chain(&flushed).map(|(event, data)| event.len() + data.len()).sum();
    assert!(all <= bytes.len() + 1, "{all} bytes of events in {} bytes", bytes.len());
    let chunks = Random::of(bytes).split(bytes);
    assert_eq!(parse(&chunks), (whole, flushed), "split it is something else");
}

/// Returns the events of these chunks, and of the end.
fn parse(chunks: &[&[u8]]) -> (Vec<Event>, Vec<Event>) {
    let (mut parser, mut pushed) = (SseParser::new(), 0);
    let (mut events, mut flushed) = (Vec::new(), Vec::new());
    let own = |event: SseEvent<'_>| (event.event.to_vec(), event.data.to_vec());
    for chunk in chunks {
        pushed += chunk.len();
        parser.push(chunk, |event| events.push(own(event)));
        assert!(parser.buffered() <= pushed + 1, "{} bytes kept of {pushed}", parser.buffered());
    }
    parser.flush(|event| flushed.push(own(event)));
    parser.flush(|event| panic!("{event:?} after the end"));
    assert_eq!(parser.buffered(), 0);
    (events, flushed)
}

/// Parses by the specification, step by step:
/// <https://html.spec.whatwg.org/multipage/server-sent-events.html>.
fn by_the_book(bytes: &[u8]) -> Vec<Event> {
    let mut rest = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
    let (mut events, mut name, mut data, mut has_data) =
        (Vec::new(), Vec::new(), Vec::new(), false);
    while let Some(end) = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')) {
        let line = &rest[..end];
        rest = &rest[end + if rest[end..].starts_with(b"\r\n") { 2 } else { 1 }..];
        if line.is_empty() {
            if has_data {
                data.pop();
                events.push((name, data));
            }
            (name, data, has_data) = (Vec::new(), Vec::new(), false);
            continue;
        }
        let mut halves = line.splitn(2, |byte| *byte == b':');
        let (field, value) = (halves.next().unwrap_or_default(), halves.next().unwrap_or_default());
        let value = value.strip_prefix(b" ").unwrap_or(value);
        match field {
            b"event" => name = value.to_vec(),
            b"data" => {
                data.extend_from_slice(value);
                data.push(b'\n');
                has_data = true;
            }
            _ => {}
        }
    }
    events
}
