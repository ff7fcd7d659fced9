//! Replies and commands that are cut off, as the user and the model see them.

#![cfg(unix)]

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::project;
use serde_json::json;

use crate::BIN;

/// C44: after Ctrl-C the model sees the reply as far as the user saw it.
#[test]
fn the_model_sees_a_reply_that_the_user_cut_off() {
    let (server, project) = (Server::start(), project());
    let run = |prompt| {
        let model = ["run", "--model", "openai/x", "--base-url", &server.url];
        BIN.start(&project, &[&model[..], &["--session", "s", prompt]].concat())
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
    let noted = "[The reply above was stopped; it is incomplete.]\n\n\
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
        BIN.start(&project, &[&model[..], &commands, more].concat())
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

/// The ends of incomplete replies, with the texts for users.
const INCOMPLETE: [(&str, &str, &str, &str); 3] = [
    ("half", "length", "length", "the model's limit of output tokens"),
    ("half", "content_filter", "content_filter", "the provider's content filter"),
    ("", "stop", "empty", "the model's reply is empty"),
];

/// C49: `run` reports a reply that was cut off, filtered or is empty, and exits with 6.
#[test]
fn an_incomplete_answer_is_6_and_says_why() {
    let (server, project) = (Server::start(), project());
    for (text, finish, incomplete, says) in INCOMPLETE {
        for flags in [&[][..], &["-q"], &["--json"]] {
            let model = ["run", "--model", "openai/x", "--base-url", &server.url, "Hello"];
            let run = BIN.start(&project, &[&model[..], flags].concat());
            let mut reply = server.request();
            reply.begin();
            reply.text(text);
            reply.end(finish);
            let exit = run.end();
            assert_eq!(exit.code, 6, "{flags:?} {exit:?}");
            assert!(exit.err.contains(says), "{flags:?} {exit:?}");
            if flags == ["--json"] {
                let end: serde_json::Value =
                    serde_json::from_str(exit.out.lines().last().unwrap()).unwrap();
                assert_eq!(
                    (&end["end"], &end["incomplete"]),
                    (&json!("incomplete"), &json!(incomplete))
                );
            } else {
                assert_eq!(exit.out.trim_end(), text, "{flags:?}");
            }
        }
    }
}

/// C49: the line chat says that an answer is incomplete, and takes the next request.
#[test]
fn the_line_chat_says_that_an_answer_is_incomplete() {
    let (server, project) = (Server::start(), project());
    let mut chat = BIN.start(&project, &["--model", "openai/x", "--base-url", &server.url]);
    for (text, finish, _, says) in INCOMPLETE {
        chat.line("Hello");
        let mut reply = server.request();
        reply.begin();
        reply.text(text);
        reply.end(finish);
        chat.err.until(says);
    }
    assert_eq!(chat.close().code, 0);
}
