//! Each protocol is a small fold of events: how long it is, and what it takes from the core.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{read, rust_files, without_tests};

/// The most lines of a protocol: its types, decoder and encoder, and what serves it.
const MAX_LINES: usize = 600;

/// What the adapters take from the core: events, what they contain, and inputs.
const VALUES: [&str; 7] = [
    "AgentEvent",
    "Message",
    "event",
    "log::SessionInfo",
    "message",
    "model::OutputSchema",
    "tool",
];

/// Returns the protocol that a file belongs to: its module in `protocols/`, or the routes of the
/// same name.
fn protocol(file: &Path) -> Option<String> {
    let below = ["protocols/src", "server/src/routes"];
    let rest = below.iter().find_map(|folder| file.strip_prefix(folder).ok())?;
    let module = rest.iter().next()?.to_str()?.trim_end_matches(".rs");
    let is_module = Path::new("protocols/src").join(module);
    let root = Path::new(super::ROOT);
    let is_protocol =
        root.join(is_module.with_extension("rs")).is_file() && !["lib", "error"].contains(&module);
    is_protocol.then(|| module.to_owned())
}

/// C347: A protocol has at most 600 lines.
#[test]
fn each_protocol_is_small() {
    let mut lines: BTreeMap<String, usize> = BTreeMap::new();
    for file in rust_files() {
        if let Some(protocol) = protocol(&file) {
            *lines.entry(protocol).or_default() += without_tests(&read(&file)).lines().count();
        }
    }
    assert!(lines.len() > 3, "{lines:?}");
    lines.retain(|_, count| *count > MAX_LINES);
    assert_eq!(lines, BTreeMap::new());
}

/// C348: Protocols take from the core only events, messages and inputs; so they know no engine.
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
