//! The model's todo list on the command line.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, project};
use serde_json::{Value, json};

use crate::BIN;

fn list(first: &str, second: &str) -> Value {
    json!({ "todos": [{ "content": "Read it", "status": first },
        { "content": "Fix it", "status": second }] })
}

/// Runs a model that writes two lists, the second after an invalid one.
fn run(more: &[&str]) -> Exit {
    let (server, project) = (Server::start(), project());
    let args = ["run", "--model", "openai/x", "--base-url", &server.url, "Fix it."];
    let run = BIN.start(&project, &[&args, more].concat());
    server.request().call(&[("write_todos", list("in_progress", "pending"))]);
    server.request().call(&[("write_todos", list("done", "pending"))]);
    server.request().call(&[("write_todos", list("completed", "in_progress"))]);
    server.request().say("It is fixed.");
    run.end()
}

/// C518: `run` prints each list below its call, with what is done, and needs no approval. With
/// `--json` the result has the list.
#[test]
fn the_list_is_printed() {
    let exit = run(&[]);
    assert_eq!((exit.code, exit.out.as_str()), (0, "It is fixed.\n"), "{exit:?}");
    let (first, second) = (
        "→ write_todos 0 of 2 done: Read it\n✓ write_todos:\n  [>] Read it\n  [ ] Fix it\n",
        "→ write_todos 1 of 2 done: Fix it\n✓ write_todos:\n  [x] Read it\n  [>] Fix it\n",
    );
    assert!(exit.err.contains(first) && exit.err.contains(second), "{exit:?}");
    assert!(exit.err.contains("✗ write_todos: The arguments do not fit"), "{exit:?}");

    let exit = run(&["--json"]);
    let events = exit.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let last = events.rev().find(|event| event["type"] == "tool_execution_end").unwrap();
    assert_eq!(last["result"]["details"], list("completed", "in_progress"));
}

/// C518: `--todos=false`, or the setting, leaves the tool out.
#[test]
fn models_keep_a_list_unless_it_is_switched_off() {
    for (settings, more, expected) in [
        ("", &[][..], true),
        ("", &["--todos=false"], false),
        ("todos = false", &[], false),
        ("todos = false", &["--todos"], true),
    ] {
        let (server, project) = (Server::start(), project());
        fs::write(project.path().join("loopwright.toml"), settings).unwrap();
        let args = ["run", "--model", "openai/x", "--base-url", &server.url, "Hello."];
        let run = BIN.start(&project, &[&args, more].concat());
        let request = server.request();
        assert_eq!(request.body["tools"].to_string().contains("\"write_todos\""), expected);
        request.say("Hello.");
        assert_eq!(run.end().code, 0);
    }
}
