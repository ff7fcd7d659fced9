//! `chat` with its lines piped in.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Process, project};
use serde_json::json;

use crate::BIN;

const QUESTION: &str = "Run it? [y]es [n]o [e]dit [a]lways:";
/// The last words of each answer of the offline rules.
const ANSWERED: &str = "(Quoted by offline rules, which are not a language model.)";

#[test]
fn each_line_is_a_request_and_the_end_of_the_input_leaves_after_the_run() {
    let project = project();
    let mut chat = BIN.start(&project, &["chat", "--model", "offline"]);
    chat.line("Read Cargo.toml");
    chat.out.until("Counts sheep");
    chat.out.until(ANSWERED);
    let exit = chat.close();
    assert_eq!(exit.code, 0, "{exit:?}");

    let server = Server::start();
    // `chat` is the default command.
    let mut chat = BIN.start(&project, &["--model", "openai/x", "--base-url", &server.url]);
    chat.line("Hello");
    let request = server.request();
    let chat = std::thread::spawn(move || chat.close());
    request.say("Hi.");
    let exit = chat.join().unwrap();
    assert_eq!((exit.code, exit.out.as_str()), (0, "Hi.\n"), "{exit:?}");
}

#[test]
fn yes_runs_the_call() {
    let project = project();
    let mut chat = BIN.start(&project, &["chat", "--model", "offline"]);
    chat.line("Create a.txt with \"hi\"");
    chat.err.until("? write_file {\"content\":\"hi\",\"path\":\"a.txt\"}");
    chat.err.until(QUESTION);
    chat.line("perhaps");
    chat.err.until(QUESTION); // repeated until it is decided
    chat.line("yes but not now");
    chat.err.until(QUESTION);
    assert!(!project.path().join("a.txt").exists());
    chat.line("y");
    chat.err.until("✓ write_file: Created `a.txt`");
    chat.out.until(ANSWERED);
    assert_eq!(chat.close().code, 0);
    assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "hi");
}

#[test]
fn no_tells_the_model_why() {
    let project = project();
    let mut chat = BIN.start(&project, &["chat", "--model", "offline"]);
    chat.line("Create a.txt with \"hi\"");
    chat.err.until(QUESTION);
    chat.line("n not in this directory");
    chat.out.until("was denied");
    chat.out.until("not in this directory");
    let exit = chat.close();
    assert!(exit.code == 0 && exit.err.contains("✗ write_file: "), "{exit:?}");
    assert!(!project.path().join("a.txt").exists());
}

#[test]
fn edit_runs_other_arguments_and_repeats_the_question_until_they_are_valid() {
    let project = project();
    let mut chat = BIN.start(&project, &["chat", "--model", "offline"]);
    chat.line("Create a.txt with \"hi\"");
    chat.err.until(QUESTION);
    chat.line("e");
    chat.err.until("New arguments, as JSON on one line:");
    chat.line("{\"path\": ");
    chat.err.until("The new arguments are not JSON");
    chat.err.until(QUESTION);
    chat.line("e {\"path\": \"b.txt\"}");
    chat.err.until("This decision was refused");
    chat.err.until("content");
    chat.err.until(QUESTION);
    chat.line("e");
    chat.err.until("New arguments");
    chat.line("{\"path\": \"b.txt\", \"content\": \"edited\"}");
    chat.out.until(ANSWERED);
    assert_eq!(chat.close().code, 0);
    assert!(!project.path().join("a.txt").exists());
    assert_eq!(fs::read_to_string(project.path().join("b.txt")).unwrap(), "edited");
}

#[test]
fn always_asks_no_more_for_this_tool() {
    let project = project();
    let mut chat = BIN.start(&project, &["chat", "--model", "offline"]);
    chat.line("Create a.txt with \"one\"");
    chat.err.until(QUESTION);
    chat.line("a");
    chat.out.until(ANSWERED);
    chat.err.until("✓ write_file");
    chat.line("Create b.txt with \"two\"");
    let exit = chat.close();
    assert_eq!((exit.code, exit.err.matches(QUESTION).count()), (0, 1), "{exit:?}");
    assert_eq!(fs::read_to_string(project.path().join("b.txt")).unwrap(), "two");
}

#[test]
fn each_call_of_a_reply_is_asked_for_until_always() {
    let (server, project) = (Server::start(), project());
    let mut chat = BIN.start(&project, &["chat", "--model", "openai/x", "--base-url", &server.url]);
    chat.line("Write four files");
    let write = |path: &str| ("write_file", json!({ "path": path, "content": "x" }));
    server.request().call(&[write("1"), write("2"), write("3"), write("4")]);
    for (path, answer) in [("1", "n"), ("2", "yes"), ("3", "a")] {
        chat.err
            .until(&format!("? write_file {{\"content\":\"x\",\"path\":\"{path}\"}}\n{QUESTION}"));
        chat.line(answer);
    }
    let request = server.request();
    let results: Vec<_> = request.body["messages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|m| m["role"] == "tool")
        .collect();
    assert_eq!(results.len(), 4);
    assert!(results[0]["content"].as_str().unwrap().contains("the user said no"), "{results:?}");
    request.say("Three are written.");
    chat.out.until("Three are written.");
    assert_eq!(chat.close().code, 0);
    let there = ["1", "2", "3", "4"].map(|path| project.path().join(path).exists());
    assert_eq!(there, [false, true, true, true]);
}

#[test]
fn the_end_of_the_input_runs_nothing_that_waits() {
    let project = project();
    let mut chat = BIN.start(&project, &["chat", "--model", "offline"]);
    chat.line("Create a.txt with \"hi\"");
    let exit = chat.close();
    assert!(
        exit.code == 0
            && exit.err.contains("so the call waits")
            && exit.err.contains("loopwright approve s"),
        "{exit:?}"
    );
    assert!(!project.path().join("a.txt").exists());
}

#[test]
fn a_line_typed_while_it_works_steers() {
    let (server, project) = (Server::start(), project());
    let mut chat = BIN.start(&project, &["chat", "--model", "openai/x", "--base-url", &server.url]);
    chat.line("Count sheep");
    let mut first = server.request();
    first.begin();
    first.text("One sheep");
    chat.out.until("One sheep");
    chat.line("Goats, please");
    chat.err.until("Queued for the next model request.");
    first.end("stop");
    let second = server.request();
    assert_eq!(second.last(), "\"Goats, please\"");
    second.say("One goat.");
    chat.out.until("\nOne goat.\n");
    assert_eq!(chat.close().code, 0);
}

/// Sends a follow-up and then a steer during the first reply.
fn queue_a_follow_up_and_a_steer(server: &Server, chat: &mut Process) {
    chat.line("Count sheep");
    let mut first = server.request();
    first.begin();
    first.text("Hm.");
    chat.out.until("Hm.");
    chat.line("/later Now goats");
    chat.err.until("Queued as a follow-up.");
    chat.line("Louder");
    chat.err.until("Queued for the next model request.");
    first.end("stop");
}

#[test]
fn what_is_for_later_waits_until_the_agent_would_stop() {
    let (server, project) = (Server::start(), project());
    let mut chat = BIN.start(&project, &["chat", "--model", "openai/x", "--base-url", &server.url]);
    queue_a_follow_up_and_a_steer(&server, &mut chat);
    let second = server.request();
    assert_eq!(second.last(), "\"Louder\"");
    second.say("ONE SHEEP.");
    let third = server.request();
    assert_eq!(third.last(), "\"Now goats\"");
    third.say("One goat.");
    chat.out.until("One goat.");
    chat.line("/later At rest it is a request");
    let fourth = server.request();
    assert_eq!(fourth.last(), "\"At rest it is a request\"");
    fourth.say("Fine.");
    let exit = chat.close();
    assert!(exit.code == 0 && exit.out.ends_with("Fine.\n"), "{exit:?}");
}

/// Queues a follow-up and a steer in a chat with `--pattern PATTERN`, and returns the user messages
/// of each model request after the first.
fn requests_after_a_follow_up_and_a_steer(pattern: &str) -> Vec<Vec<String>> {
    let (server, project) = (Server::start(), project());
    let model = ["--model", "openai/x", "--base-url", &server.url];
    let mut chat = BIN.start(&project, &[&model[..], &["--pattern", pattern]].concat());
    queue_a_follow_up_and_a_steer(&server, &mut chat);
    let mut requests = Vec::new();
    let mut is_delivered = false;
    while !is_delivered {
        let request = server.request();
        let messages = request.body["messages"].as_array().unwrap();
        let user = messages.iter().filter(|message| message["role"] == "user");
        let texts: Vec<_> =
            user.map(|message| message["content"].as_str().unwrap().to_owned()).collect();
        is_delivered = texts.iter().any(|text| text == "Now goats");
        requests.push(texts);
        request.say("Fine.");
        chat.out.until("Fine.");
    }
    let exit = chat.close();
    assert_eq!(exit.code, 0, "{exit:?}");
    requests
}

/// C22: the generic pattern delivers all messages before its next request.
#[test]
fn the_generic_pattern_delivers_a_follow_up_with_the_next_request() {
    assert_eq!(
        requests_after_a_follow_up_and_a_steer("generic"),
        [["Count sheep", "Now goats", "Louder"]]
    );
}

/// C22: the pi pattern delivers a steer before its next request and a follow-up when it would
/// otherwise stop.
#[test]
fn the_pi_pattern_delivers_a_follow_up_when_the_agent_would_stop() {
    let requests = requests_after_a_follow_up_and_a_steer("pi");
    assert_eq!(
        requests,
        [vec!["Count sheep", "Louder"], vec!["Count sheep", "Louder", "Now goats"]]
    );
}

#[test]
#[cfg(unix)]
fn ctrl_c_aborts_the_run_and_at_rest_leaves() {
    let (server, project) = (Server::start(), project());
    let mut chat = BIN.start(&project, &["chat", "--model", "openai/x", "--base-url", &server.url]);
    chat.line("Count sheep");
    for word in ["One", "Two"] {
        let mut stalled = server.request();
        stalled.begin();
        stalled.text(word);
        chat.out.until(word);
        chat.interrupt();
        chat.err.until("Aborted.");
        if word == "One" {
            chat.line("Count again"); // the session is still open
        }
    }
    chat.interrupt();
    let exit = chat.end();
    assert_eq!((exit.code, exit.out.as_str()), (0, "One\nTwo\n"), "{exit:?}");
}

#[test]
#[cfg(unix)]
fn ctrl_c_at_a_question_answers_it_with_an_abort() {
    let project = project();
    let mut chat = BIN.start(&project, &["chat", "--model", "offline"]);
    chat.line("Create a.txt with \"hi\"");
    chat.err.until(QUESTION);
    chat.interrupt();
    chat.err.until("Aborted.");
    chat.line("Read Cargo.toml");
    chat.out.until("Counts sheep");
    chat.line("/quit");
    assert_eq!(chat.end().code, 0);
    assert!(!project.path().join("a.txt").exists());
}

#[test]
fn compact_summarises_older_turns() {
    let (project, server) = (project(), Server::start());
    let mut chat = BIN.start(&project, &["--model", "openai-chat/x", "--base-url", &server.url]);
    chat.line("/compact");
    chat.err.until("There is nothing to summarise yet.");
    for n in 0..12 {
        chat.line(&format!("Question {n}"));
        server.request().say(&format!("Answer {n}."));
        chat.out.until(&format!("Answer {n}."));
    }
    chat.line("/compact mind the numbers");
    let request = server.request();
    assert!(request.body.to_string().contains("mind the numbers"));
    request.say("Numbers were asked for.");
    chat.err.until("older messages are summarised for the model");
    chat.line("Go on");
    let request = server.request();
    let body = request.body.to_string();
    assert!(
        body.contains("Question 0")
            && body.contains("Numbers were asked for.")
            && body.contains("Answer 11.")
    );
    assert!(!body.contains("Answer 1."), "{body}");
    request.say("Gone on.");
    chat.out.until("Gone on.");
    assert_eq!(chat.close().code, 0);
}
