//! A protocol is a fold of events: what it takes from the core.

use super::{files_where, read, rust_files, without_tests};

/// The beginnings of the paths that the adapters take from the core: events, their contents,
/// inputs, and checks of JSON.
const VALUES: &str = "AgentEvent Message ToolError limits:: error::ModelErrorKind event json:: \
    log::LogEntry log::SessionInfo log::SessionLog media message model::OutputSchema \
    model::ThinkingLevel model::Update model::{OutputSchema,ThinkingLevel} \
    tool::";

/// Returns the lines that are neither blank, nor comments, nor tests.
fn code_lines(text: &str) -> impl Iterator<Item = &str> {
    let lines = without_tests(text).lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with("//"))
}

/// C381: Protocols take from the core only events, messages and inputs; so they know no engine.
#[test]
fn protocols_know_events_and_inputs_alone() {
    let is_foreign = |line: &str| {
        let path = line.split_once("loopwright_core::").map(|(_, path)| path.replace(' ', ""));
        path.is_some_and(|path| !VALUES.split(' ').any(|value| path.starts_with(value)))
    };
    let found = files_where(|file, text| {
        file.starts_with("protocols/src") && code_lines(text).any(is_foreign)
    });
    assert_eq!(found, super::NONE);
}

/// The adapters, as the beginnings of their paths.
const ADAPTERS: [&str; 8] = [
    "protocols/src/ag_ui",
    "protocols/src/ai_sdk",
    "protocols/src/openai/chat",
    "protocols/src/openai/response",
    "protocols/src/a2a/ protocols/src/a2a.rs",
    "protocols/src/a2a_client",
    "protocols/src/acp",
    "mcp/src/server/call.rs mcp/src/server/elicitation.rs mcp/src/server/progress.rs \
     mcp/src/server/reply.rs",
];

#[test]
fn no_adapter_has_more_than_600_lines_of_code() {
    let files = rust_files();
    for paths in ADAPTERS {
        let is_of_it = |file: &&std::path::PathBuf| {
            let path = file.to_str().unwrap();
            paths.split(' ').any(|begin| path.starts_with(begin)) && !path.ends_with("/tests.rs")
        };
        let lines = files.iter().filter(is_of_it).map(|file| code_lines(&read(file)).count());
        let lines: usize = lines.sum();
        assert!((1..=600).contains(&lines), "{paths}: {lines} lines of code");
    }
}
