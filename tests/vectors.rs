//! Tool calls of a public benchmark against the validator: `cargo test --test vectors`, not part of plain `cargo test`.
//!
//! Reads `$LOOPWRIGHT_SHARED/vectors/toolcalls.jsonl` (by default `shared` beside the repository) and fails without it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed check is a failed test")]

use std::path::PathBuf;
use std::sync::Arc;

use loopwright::testing::TestTool;
use loopwright::{Tool, ToolSpec, Toolbox};
use serde_json::Value;

/// A tool name as a source would make it legal.
fn legal(name: &str) -> String {
    name.replace(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-'), "_")
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn toolbox(line: &Value) -> Toolbox {
    let tools = list(line, "tools").iter().map(|tool| {
        let spec = ToolSpec::with_schema(legal(tool["name"].as_str().unwrap()), "", tool["parameters"].clone());
        Arc::new(TestTool::new("x").spec(|_| spec)) as Arc<dyn Tool>
    });
    Toolbox::new().with_all(tools).unwrap_or_else(|why| panic!("{}: {why}", line["id"]))
}

/// What the validator says of a call, as a model would write it.
fn validated(tools: &Toolbox, call: &Value) -> Result<Value, String> {
    tools.validate(&legal(call["name"].as_str().unwrap()), &call["arguments"].to_string())
}

/// The property that a call was spoilt at: the word in backticks.
fn property(call: &Value) -> &str {
    call["why"].as_str().and_then(|why| why.split('`').nth(1)).unwrap_or_else(|| panic!("no property in {call}"))
}

#[test]
fn calls_validate_invalid_ones_are_refused_and_coercible_ones_become_what_is_meant() {
    let shared = std::env::var_os("LOOPWRIGHT_SHARED")
        .map_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")), PathBuf::from);
    let path = shared.join("vectors/toolcalls.jsonl");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
    let (mut valid, mut invalid, mut coerced, mut wrong) = (0, 0, 0, Vec::new());
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let line: Value = serde_json::from_str(line).unwrap();
        let tools = toolbox(&line);
        let mut say = |what: &str, call: &Value, got: &dyn std::fmt::Debug| {
            wrong.push(format!("{} {what}: {call}\n  {got:?}", line["id"]));
        };
        for call in list(&line, "calls") {
            valid += 1;
            match validated(&tools, call) {
                Ok(arguments) if arguments == call["arguments"] => {}
                got => say("does not validate as it is", call, &got),
            }
        }
        for call in list(&line, "invalid") {
            invalid += 1;
            match validated(&tools, call) {
                Err(why) if why.contains(&format!("/{}: ", property(call))) => {}
                got => say("is not refused with its path", call, &got),
            }
        }
        for call in list(&line, "coercible") {
            coerced += 1;
            match validated(&tools, call) {
                Ok(arguments) if arguments == call["coerced"] => {}
                got => say("does not become what is meant", call, &got),
            }
        }
    }
    println!(
        "{valid} calls validate, {invalid} are refused with their path, {coerced} are coerced; {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(valid > 0 && invalid > 0 && coerced > 0, "{} holds nothing of some kind", path.display());
}
