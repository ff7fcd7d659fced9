//! What is sent for a session with every kind of event.

use std::collections::VecDeque;
use std::io::Write;

use loopwright_core::event::Envelope;
use loopwright_core::message::RunId;
use loopwright_protocols::{Encode, Progress};
use tempfile::NamedTempFile;

/// The number of runs that the recorded session has.
const RUNS: u64 = 6;

/// Writes what is sent for responses that each end with another run, with the conversation so far
/// at the start: a line of JSON for each event, and an empty line after each response.
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
