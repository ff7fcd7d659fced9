//! `run --json`: one event per line.

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, project};
use serde_json::{Value, json};

use crate::BIN;

/// Checks what all events have in common, and returns them.
fn events(exit: &Exit) -> Vec<Value> {
    assert_eq!(exit.code, 0, "{exit:?}");
    let events: Vec<Value> =
        exit.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(events[0]["type"], "agent_start");
    assert_eq!(events.last().unwrap()["type"], "agent_end");
    let transient = |event: &Value, role: Option<&Value>| match event["type"].as_str().unwrap() {
        "message_update" | "tool_execution_update" => true,
        "message_start" => role == Some(&json!("assistant")),
        _ => false,
    };
    let mut before = 0;
    for event in &events {
        let seq = event["seq"].as_u64().unwrap();
        let same = transient(event, event.get("role"));
        assert_eq!(seq, before + u64::from(!same), "{event}");
        assert!(
            event["session_id"].is_string()
                && event["run_id"].is_string()
                && event["time"].is_u64(),
            "{event}"
        );
        before = seq;
    }
    events
}

fn types(events: &[Value]) -> Vec<&str> {
    let mut types: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    types.dedup();
    types
}

const A_TURN_WITH_A_TOOL_AND_ONE_WITHOUT: &[&str] = &[
    "agent_start",
    "turn_start",
    "message_start",
    "message_end", // the prompt
    "message_start",
    "message_update",
    "message_end", // the call
    "tool_execution_start",
    "tool_execution_end",
    "message_start",
    "message_end", // the result
    "turn_end",
    "turn_start",
    "message_start",
    "message_update",
    "message_end", // the answer
    "turn_end",
    "agent_end",
];

#[test]
fn offline() {
    let exit = BIN.run(&project(), &["run", "--json", "--model", "offline", "Read Cargo.toml"]);
    let events = events(&exit);
    assert_eq!(types(&events), A_TURN_WITH_A_TOOL_AND_ONE_WITHOUT);
    assert!(events.last().unwrap()["text"].as_str().unwrap().contains("Counts sheep"));
}

#[test]
fn against_a_server() {
    let (server, project) = (Server::start(), project());
    let run = BIN.start(
        &project,
        &["run", "--json", "--model", "openai/x", "--base-url", &server.url, "Read Cargo.toml"],
    );
    server.request().call(&[("read_file", json!({ "path": "Cargo.toml" }))]);
    let mut request = server.request();
    assert!(request.last().contains("Counts sheep for engineers"), "{}", request.body);
    request.begin();
    for word in ["It ", "counts ", "sheep."] {
        request.text(word);
    }
    request.end("stop");
    let events = events(&run.end());
    assert_eq!(types(&events), A_TURN_WITH_A_TOOL_AND_ONE_WITHOUT);
    assert_eq!(events.last().unwrap()["text"], "It counts sheep.");
    let streamed: String = events
        .iter()
        .filter(|e| e["kind"] == "text")
        .map(|e| e["delta"].as_str().unwrap())
        .collect();
    assert_eq!(streamed, "It counts sheep.");
}
