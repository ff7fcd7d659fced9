//! A protocol is a fold of events: what it takes from the core.

use std::path::PathBuf;

use super::{read, rust_files, without_tests};

/// The types that the adapters take from the core: events, their contents, and inputs.
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

/// The adapters: what decodes the messages of a protocol, and folds events to them. A path without
/// an extension stands for all files that start with it.
const ADAPTERS: [(&str, &[&str]); 8] = [
    ("AG-UI", &["protocols/src/ag_ui"]),
    ("AI SDK", &["protocols/src/ai_sdk"]),
    ("Chat Completions", &["protocols/src/openai/chat"]),
    ("Responses", &["protocols/src/openai/response"]),
    ("A2A, the server", &["protocols/src/a2a.rs", "protocols/src/a2a/"]),
    ("A2A, the client", &["protocols/src/a2a_client"]),
    ("ACP", &["protocols/src/acp"]),
    (
        "MCP, the server",
        &[
            "mcp/src/server/call.rs",
            "mcp/src/server/elicitation.rs",
            "mcp/src/server/progress.rs",
            "mcp/src/server/reply.rs",
        ],
    ),
];
const MAX_ADAPTER_LINES: usize = 600;

/// Lines that are blank, comments or tests do not count.
#[test]
fn no_adapter_has_more_than_600_lines_of_code() {
    let files = rust_files();
    for (name, paths) in ADAPTERS {
        let is_of_it = |file: &PathBuf| {
            let file = file.to_string_lossy();
            paths.iter().any(|path| file.starts_with(path)) && !file.ends_with("/tests.rs")
        };
        let is_code = |line: &&str| !line.trim().is_empty() && !line.trim().starts_with("//");
        let lines = |file: &PathBuf| without_tests(&read(file)).lines().filter(is_code).count();
        let lines: usize = files.iter().filter(|file| is_of_it(file)).map(lines).sum();
        assert!(lines > 0, "there are no files of {name}");
        assert!(lines <= MAX_ADAPTER_LINES, "{name} has {lines} lines of code");
    }
}
