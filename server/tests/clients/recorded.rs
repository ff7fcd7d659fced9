//! The protocol events of a session with every kind of event.

use std::collections::VecDeque;
use std::io::Write;

use loopwright_core::event::Envelope;
use loopwright_core::message::RunId;
use loopwright_protocols::{Encode, Progress};
use tempfile::NamedTempFile;

/// The number of runs in the recorded session.
const RUNS: u64 = 6;

/// Writes the events of several responses. Each response ends with another run, and starts with the
/// conversation so far. Each event is a line of JSON, and an empty line follows each response.
pub(crate) fn sent<E: Encode>(encoder: impl Fn(RunId) -> (E, VecDeque<E::Event>)) -> NamedTempFile {
    let lines = include_str!("../../../protocols/tests/every_event.jsonl").lines();
    let events: Vec<Envelope> = lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let mut file = NamedTempFile::new().unwrap();
    for run in 1..=RUNS {
        let (mut encoder, mut to) = encoder(RunId(run));
        let mut pending = Vec::new();
        for (at, event) in events.iter().enumerate() {
            if let loopwright_core::AgentEvent::ExternalAction(action) = &event.event {
                pending.push((**action).clone());
            }
            match encoder.encode(event, &mut to) {
                Progress::Continue => {}
                Progress::Restate => encoder.restate(&events[..at], &mut to),
                Progress::Finish => {
                    encoder.finish(&pending, &mut to);
                    break;
                }
            }
        }
        for event in &to {
            writeln!(file, "{}", serde_json::to_string(event).unwrap()).unwrap();
        }
        writeln!(file).unwrap();
    }
    file
}
