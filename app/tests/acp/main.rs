//! `loopwright acp`, driven by the protocol's own client library for Node.js.
//!
//! Each test runs a function of `client.mjs`, which starts the binary, while this process is the
//! model. `.ci/clients/install` installs the library; without it the tests fail.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::path::Path;
use std::process::{Command, Stdio};

use loopwright_test_support::clients::clients;
use loopwright_test_support::model_server::{Exchange, Server};
use loopwright_test_support::process::{Binary, STORE, project};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The binary that is tested.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_loopwright"));

/// Runs a function of `client.mjs` while `reply` is the model.
fn run(test: &str, dir: &TempDir, reply: impl FnOnce(&Server)) {
    let model = Server::start();
    let clients = clients();
    // Node.js looks for packages beside the script.
    let script = clients.join(format!("acp-{test}.mjs"));
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/acp/client.mjs");
    std::fs::copy(source, &script).unwrap();
    let directory = dir.path().canonicalize().unwrap();
    let mut command = Command::new("node");
    command
        .arg(script)
        .args([test, BIN.path()])
        .arg(&directory)
        .arg(&model.url)
        .current_dir(&directory);
    command.env("LOOPWRIGHT_STORE", directory.join(STORE)).env("LOOPWRIGHT_CONFIG", "");
    let mut client = command.stdin(Stdio::null()).spawn().unwrap();
    reply(&model);
    let status = client.wait().unwrap();
    assert!(status.success(), "{test} failed with {status}");
}

/// Returns a project with a file that the model edits.
fn with_notes() -> TempDir {
    let dir = project();
    std::fs::write(dir.path().join("notes.txt"), "one\ntwo\nthree\n").unwrap();
    dir
}

fn notes(dir: &TempDir) -> String {
    std::fs::read_to_string(dir.path().join("notes.txt")).unwrap()
}

fn edit(request: Exchange, old: &str, new: &str) {
    let arguments = json!({ "path": "notes.txt", "old_string": old, "new_string": new });
    request.call(&[("edit_file", arguments)]);
}

/// C382: An editor sees text, reasoning and tool calls while they happen, and each turn ends with
/// its reason.
#[test]
fn a_turn_streams_text_reasoning_and_tool_calls() {
    run("turn", &project(), |model| {
        let mut request = model.request();
        assert!(request.last().contains("Read it: [Cargo.toml]("), "{}", request.last());
        request.begin();
        request.delta(json!({ "reasoning_content": "A manifest." }), Value::Null);
        request.text("I read ");
        request.text("it.");
        let function = json!({ "name": "read_file", "arguments": "{\"path\":\"Cargo.toml\"}" });
        let call = json!({ "index": 0, "id": "c", "type": "function", "function": function });
        request.delta(json!({ "tool_calls": [call] }), Value::Null);
        request.end("tool_calls");
        model.request().say("It counts sheep.");
        let mut request = model.request();
        request.begin();
        request.text("It cou");
        request.end("length");
    });
}

/// C383: A change of a file is shown as a diff before it is made. It is made if the user allows it,
/// and not if the user rejects it.
#[test]
fn a_change_is_made_only_if_the_user_allows_it() {
    let dir = with_notes();
    run("permission", &dir, |model| {
        edit(model.request(), "two", "zwei");
        edit(model.request(), "three", "drei");
        let request = model.request();
        assert!(request.last().contains("the user said no"), "{}", request.last());
        request.say("Done.");
    });
    assert_eq!(notes(&dir), "one\nzwei\nthree\n");
}

/// C485: An approval of a change that is no longer the one shown does not run the call.
#[test]
fn a_change_that_is_not_the_one_shown_is_not_made() {
    let dir = with_notes();
    run("changed", &dir, |model| {
        edit(model.request(), "two", "zwei");
        let request = model.request();
        assert!(request.last().contains("It has not run"), "{}", request.last());
        assert_eq!(notes(&dir), "one\ntwo, theirs\nthree\n");
        edit(request, "two", "zwei");
        model.request().say("Done.");
    });
    assert_eq!(notes(&dir), "one\nzwei, theirs\nthree\n");
}

/// C383: In the mode that accepts edits, files are changed without asking, and commands still ask.
/// A tool that is always allowed no longer asks.
#[test]
fn modes_and_permissions_for_good_stop_the_questions() {
    let dir = with_notes();
    run("modes", &dir, |model| {
        edit(model.request(), "two", "zwei");
        model.request().call(&[("execute_command", json!({ "command": "true" }))]);
        model.request().say("Done.");
        edit(model.request(), "one", "eins");
        edit(model.request(), "three", "drei");
        model.request().say("Done.");
        let request = model.request();
        assert!(request.last().contains("Do it."), "{}", request.last());
        request.say("1. Write.");
    });
    assert_eq!(notes(&dir), "eins\nzwei\ndrei\n");
}

/// C385: Cancelling a turn stops its running tool, or its wait for a permission, and the turn ends
/// as cancelled.
#[test]
fn a_cancelled_turn_stops_its_tool() {
    let dir = with_notes();
    run("cancel", &dir, |model| {
        model.request().call(&[("execute_command", json!({ "command": "sleep 1000" }))]);
        edit(model.request(), "two", "zwei");
        model.request().say("Still here.");
    });
    assert_eq!(notes(&dir), "one\ntwo\nthree\n");
}

/// C386: A new process lists, loads and resumes a session; loading sends its conversation. A killed
/// process loses nothing.
#[test]
fn a_new_process_loads_what_a_killed_one_has_left() {
    let dir = with_notes();
    run("load", &dir, |model| {
        edit(model.request(), "two", "zwei");
        model.request().say("Edited.");
        edit(model.request(), "three", "drei");
        model.request().say("Edited, too.");
        model.request().say("Hello.");
    });
    assert_eq!(notes(&dir), "one\nzwei\ndrei\n");
}

/// C521: The model's todo list is the editor's plan, also of a loaded session.
#[test]
fn a_todo_list_is_the_plan() {
    run("plan", &project(), |model| {
        let todos = |first: &str, second: &str| {
            json!({ "todos": [{ "content": "Read", "status": first },
                { "content": "Fix", "status": second }] })
        };
        model.request().call(&[("write_todos", todos("in_progress", "pending"))]);
        model.request().call(&[("write_todos", todos("completed", "in_progress"))]);
        model.request().say("Read.");
    });
}

/// Questions of the model are forms, and choices for an editor without forms.
#[test]
fn questions_are_forms_or_choices() {
    for test in ["forms", "choices"] {
        run(test, &project(), |model| {
            let question = json!({ "question": "Which colour?", "options": ["red", "blue"] });
            model.request().call(&[("ask_user", question)]);
            let request = model.request();
            assert!(request.last().contains("blue"), "{}", request.last());
            request.say("Blue it is.");
        });
    }
}
