//! A protocol is a fold of events: what it takes from the core.

use std::path::PathBuf;

use super::{read, rust_files, without_tests};

/// What the adapters take from the core: events, what they contain, and inputs.
const VALUES: [&str; 15] = [
    "AgentEvent",
    "Message",
    "agent::Limit",
    "error::ModelErrorKind",
    "event",
    "log::LogEntry",
    "log::SessionInfo",
    "log::SessionLog",
    "message",
    "model::OutputSchema",
    "model::ThinkingLevel",
    "model::{OutputSchema, ThinkingLevel}",
    "pattern::Question",
    "pattern::{AnswerForm, Question}",
    "tool::",
];

/// C381: Protocols take from the core only events, messages and inputs; so they know no engine.
#[test]
fn protocols_know_events_and_inputs_alone() {
    let mut found: Vec<(PathBuf, String)> = Vec::new();
    for file in rust_files().into_iter().filter(|file| file.starts_with("protocols/src")) {
        let text = read(&file);
        for line in without_tests(&text).lines().filter(|line| !line.trim().starts_with("//")) {
            let Some((_, path)) = line.split_once("loopwright_core::") else { continue };
            if !VALUES.iter().any(|value| path.starts_with(value)) {
                found.push((file.clone(), line.trim().to_owned()));
            }
        }
    }
    assert_eq!(found, []);
}
