//! A session with every kind of event, for tests.

use std::collections::VecDeque;

use loopwright_core::event::Envelope;
use serde_json::Value;

use crate::{Encode, Progress};

/// Returns the events of the session. Its first run starts with the request `u1`.
pub(crate) fn events() -> Vec<Envelope> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/every_event.jsonl");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Returns the encoded events, and whether the response has ended.
pub(crate) fn encoded<E: Encode>(encoder: &mut E, events: &[Envelope]) -> (Vec<Value>, bool) {
    let mut to = VecDeque::new();
    let mut has_ended = false;
    for event in events {
        match encoder.encode(event, &mut to) {
            Progress::Continue => {}
            Progress::Restate => encoder.restate(&[], &mut to),
            Progress::Finish => {
                encoder.finish(&[], &mut to);
                has_ended = true;
                break;
            }
        }
    }
    (to.iter().map(|event| serde_json::to_value(event).unwrap()).collect(), has_ended)
}

/// Returns the types of the sent events.
pub(crate) fn types(sent: &[Value]) -> Vec<&str> {
    sent.iter().map(|event| event["type"].as_str().unwrap()).collect()
}
