//! `--until`: the agent works until a command succeeds.

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::json;

use crate::BIN;

const NOT_YET: &str = "The goal is not reached yet. Go on.";

/// C499: `run --until` works until the command succeeds, without an approval of it, and exits with
/// 7 if it never does.
#[test]
fn run_works_until_a_command_succeeds() {
    let (folder, model) = (project(), Server::start());
    let args = ["run", "--model", "local/scripted", "--base-url", &model.url, "Write it."];
    let until = ["--until", "test -e done.txt", "--approve", "write_file"];
    let run = BIN.start(&folder, &[&args[..], &until].concat());
    model.request().say("It is done.");
    let request = model.request();
    assert!(request.last().contains(NOT_YET), "{}", request.last());
    assert!(request.last().contains("Exit code 1"), "{}", request.last());
    request.call(&[("write_file", json!({ "path": "done.txt", "content": "yes" }))]);
    model.request().say("Now it is.");
    let exit = run.end();
    assert_eq!((exit.code, &*exit.out), (0, "It is done.\nNow it is.\n"), "{exit:?}");
    assert!(exit.err.contains("→ execute_command"), "{exit:?}");
    assert!(exit.err.contains("(Round 1 of 10: Exit code 1."), "{exit:?}");
    assert!(exit.err.contains("(The goal is reached after 2 rounds.)"), "{exit:?}");

    let run = BIN.start(&folder, &[&args[..], &["--until", "false"]].concat());
    for _ in 0..10 {
        model.request().say("It is done.");
    }
    let request = model.request();
    assert_eq!(request.body["tool_choice"], "none");
    request.say("`false` never succeeds.");
    let exit = run.end();
    assert_eq!(exit.code, 7, "{exit:?}");
    assert!(exit.out.ends_with("`false` never succeeds.\n"), "{exit:?}");
    assert!(exit.err.contains("(The goal is not reached after 10 rounds.)"), "{exit:?}");
}

/// C499: The command belongs to the session, in any process; an empty one ends that. Only this
/// command needs no approval.
#[test]
fn the_command_is_stored_with_the_session() {
    let (folder, model) = (project(), Server::start());
    let args = |prompt| {
        ["run", "--model", "local/scripted", "--base-url", &model.url, "--session", "s", prompt]
    };
    let until = ["--until", "test -e done.txt"];
    let run = BIN.start(&folder, &[&args("Write it.")[..], &until].concat());
    model.request().call(&[("execute_command", json!({ "command": "touch done.txt" }))]);
    let exit = run.end();
    assert_eq!(exit.code, 3, "{exit:?}");
    let run = BIN.start(&folder, &["deny", "s", "call_0", "--reason", "Write a file."]);
    let request = model.request();
    assert!(request.last().contains("Write a file."), "{}", request.last());
    request.call(&[("write_file", json!({ "path": "done.txt", "content": "yes" }))]);
    assert_eq!(run.end().code, 3);
    let run = BIN.start(&folder, &["approve", "s", "call_0_2"]);
    model.request().say("Written.");
    let exit = run.end();
    assert_eq!(exit.code, 0, "{exit:?}");
    assert!(exit.err.contains("(The goal is reached after 1 round.)"), "{exit:?}");
    let run = BIN.start(&folder, &[&args("Thanks.")[..], &["--until", ""]].concat());
    model.request().say("You are welcome.");
    let exit = run.end();
    assert!(exit.code == 0 && !exit.err.contains("execute_command"), "{exit:?}");
}

/// C499: Neither the operator of a server nor a file chooses a command for every session.
#[test]
fn only_a_command_line_chooses_the_command() {
    let folder = project();
    let exit = BIN.run(&folder, &["serve", "--until", "true"]);
    assert!(exit.code == 2 && exit.err.contains("--until"), "{exit:?}");
    std::fs::write(folder.path().join("loopwright.toml"), "until = \"true\"").unwrap();
    let exit = BIN.run(&folder, &["run", "--model", "offline", "Hello"]);
    assert!(exit.code == 2 && exit.err.contains("until"), "{exit:?}");
}
