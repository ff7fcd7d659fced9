//! The event-stream parser, tested with vectors of the specification and of other parsers.

use base64::Engine;
use loopwright_providers::SseParser;
use serde_json::{Value, json};

use crate::recordings::{read, verdict};

/// Returns the events of these chunks. They have no id, because model streams cannot be resumed.
fn parse<'a>(chunks: impl IntoIterator<Item = &'a [u8]>, flush: bool) -> Vec<Value> {
    let (mut parser, mut events) = (SseParser::new(), Vec::new());
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let mut on = |event: loopwright_providers::SseEvent<'_>| {
        let name = if event.event.is_empty() { "message".into() } else { text(event.event) };
        events.push(json!({"event": name, "data": text(event.data)}));
    };
    for chunk in chunks {
        parser.push(chunk, &mut on);
    }
    if flush {
        parser.flush(&mut on);
    }
    events
}

fn without_ids(events: &Value) -> Vec<Value> {
    let events = events.as_array().unwrap().iter();
    events.map(|event| json!({"event": event["event"], "data": event["data"]})).collect()
}

#[test]
fn every_vector_gives_its_events() {
    let (mut checked, mut wrong) = (0, Vec::new());
    for line in read("vectors/sse-vectors.jsonl").lines().filter(|line| !line.trim().is_empty()) {
        checked += 1;
        let vector: Value = serde_json::from_str(line).unwrap();
        let decode = |chunk: &Value| {
            base64::prelude::BASE64_STANDARD.decode(chunk.as_str().unwrap()).unwrap()
        };
        let chunks: Vec<Vec<u8>> =
            vector["chunks_b64"].as_array().unwrap().iter().map(decode).collect();
        let (whole, expected) = (chunks.concat(), without_ids(&vector["events"]));
        let mut ways = vec![
            (parse(chunks.iter().map(Vec::as_slice), false), expected.clone()),
            (parse([whole.as_slice()], false), expected.clone()),
            (parse(whole.chunks(1), false), expected),
        ];
        if vector["events_if_flushed_at_eof"].is_array() {
            ways.push((
                parse([whole.as_slice()], true),
                without_ids(&vector["events_if_flushed_at_eof"]),
            ));
        }
        if let Some((got, want)) = ways.iter().find(|(got, want)| got != want) {
            wrong.push(format!("{}: {got:?}\n  expected {want:?}", vector["id"]));
        }
    }
    verdict("event-stream vectors", checked, &wrong);
}
