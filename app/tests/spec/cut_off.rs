//! Replies and commands that are cut off: what the user and the model get to see.

#![cfg(unix)]

use serde_json::json;

use crate::process::{Process, project};
use crate::server::Server;

/// C44: after Ctrl-C the model sees the reply as far as the user saw it.
#[test]
fn the_model_sees_a_reply_that_the_user_cut_off() {
    let (server, project) = (Server::start(), project());
    let run = |prompt| {
        let model = ["run", "--model", "openai/x", "--base-url", &server.url];
        Process::start(&project, &[&model[..], &["--session", "s", prompt]].concat())
    };
    let mut first = run("List them");
    let mut reply = server.request();
    reply.begin();
    reply.text("First, second");
    first.out.until("First, second");
    first.interrupt();
    assert_eq!(first.end().code, 130);
    let second = run("No, do the second one");
    let request = server.request();
    let messages = &request.body["messages"].as_array().unwrap()[1..];
    let texts: Vec<_> = messages.iter().map(|m| (&m["role"], m["content"].as_str())).collect();
    let noted = "[The user interrupted the reply above; it is incomplete.]\n\n\
                 No, do the second one";
    assert_eq!(
        texts,
        [
            (&json!("user"), Some("List them")),
            (&json!("assistant"), Some("First, second")),
            (&json!("user"), Some(noted)),
        ]
    );
    request.say("Done.");
    assert_eq!(second.end().code, 0);
}

/// C44: a command that Ctrl-C ends keeps its output, for the user and for the model.
#[test]
fn an_aborted_command_keeps_its_output() {
    let (server, project) = (Server::start(), project());
    let run = |more: &[&str]| {
        let model = ["run", "--model", "openai/x", "--base-url", &server.url, "--session", "s"];
        let commands = ["--unconfined", "--approve", "execute_command"];
        Process::start(&project, &[&model[..], &commands, more].concat())
    };
    let mut first = run(&["--json", "Test it"]);
    let command = json!({ "command": "echo tick 7; sleep 1000" });
    server.request().call(&[("execute_command", command)]);
    first.out.until("\"update\":{\"output\":\"tick 7");
    first.interrupt();
    let exit = first.end();
    assert_eq!(exit.code, 130, "{exit:?}");
    let end = exit.out.lines().find(|line| line.contains("tool_execution_end")).unwrap();
    let end: serde_json::Value = serde_json::from_str(end).unwrap();
    let shown = end["result"]["content"][0]["text"].as_str().unwrap();
    assert!(shown.starts_with("Aborted after it had started, since the user aborted"), "{shown}");
    assert!(shown.ends_with("\ntick 7\n"), "{shown}");
    let second = run(&["Why does it hang?"]);
    let request = server.request();
    let messages = request.body["messages"].as_array().unwrap();
    let result = messages.iter().find(|message| message["role"] == "tool").unwrap();
    assert_eq!(result["content"], shown);
    request.say("It sleeps.");
    assert_eq!(second.end().code, 0);
}
