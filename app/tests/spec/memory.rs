//! Facts that outlive sessions: `--memory` and `/memory`.

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Process, project};
use serde_json::json;
use tempfile::TempDir;

use crate::BIN;

const ANSWERED: &str = "(Quoted by offline rules, which are not a language model.)";

fn start(project: &TempDir, args: &[&str]) -> Process {
    let data = project.path().join("data");
    BIN.start_with(project, args, &[("XDG_DATA_HOME", data.to_str().unwrap())])
}

/// C197: a fact from one session is used in another one. `/memory` lists, finds and deletes it.
/// Without `--memory` nothing is stored or used.
#[test]
fn a_fact_is_used_in_another_session_and_can_be_seen_and_deleted() {
    let (project, server) = (project(), Server::start());
    let model = ["--model", "openai/x", "--base-url", &server.url];
    let args = |more: &[&'static str]| [&["chat"], &model[..], more].concat();

    let mut chat = start(&project, &args(&["--memory", "--approve", "remember_fact"]));
    chat.line("/memory");
    chat.err.until("There are no remembered facts.");
    chat.line("My cat is called Minka.");
    let fact = json!({ "fact": "The user's cat is called Minka." });
    server.request().call(&[("remember_fact", fact)]);
    server.request().say("I will remember it.");
    chat.out.until("I will remember it.");
    assert_eq!(chat.close().code, 0);

    let mut chat = start(&project, &args(&["--memory"]));
    chat.line("What is my cat called?");
    let request = server.request();
    assert!(request.body["messages"].to_string().contains("Minka"), "{}", request.body);
    request.say("A fine name.");
    chat.out.until("A fine name.");
    chat.line("/memory");
    chat.err.until("    1  The user's cat is called Minka.");
    chat.line("/memory find dog");
    chat.err.until("There are no remembered facts that fit.");
    chat.line("/memory find cats");
    chat.err.until("    1  The user's cat is called Minka.");
    chat.line("/memory forget 7");
    chat.err.until("There is no fact 7");
    chat.line("/memory forget everything");
    chat.err.until("/memory forget all");
    assert_eq!(chat.close().code, 0);

    // Without the option, facts can be listed and deleted, but are neither stored nor used.
    let mut chat = start(&project, &args(&[]));
    chat.line("What is my cat called?");
    let request = server.request();
    let sent = request.body.to_string();
    assert!(!sent.contains("Minka") && !sent.contains("remember_fact"), "{sent}");
    request.say("I do not know.");
    chat.out.until("I do not know.");
    chat.line("/memory");
    chat.err.until("    1  The user's cat is called Minka.");
    chat.err.until("`--memory` switches that on");
    chat.line("/memory forget 1");
    chat.err.until("Fact 1 is deleted.");
    chat.line("/memory");
    chat.err.until("There are no remembered facts.");
    assert_eq!(chat.close().code, 0);
}

/// Looking does not create a file, and a file of something else is named and left alone.
#[test]
fn looking_creates_nothing_and_a_file_of_something_else_is_named() {
    let project = project();
    let file = project.path().join("data/loopwright/memory.db");
    let mut chat = start(&project, &["chat", "--model", "offline"]);
    chat.line("/memory forget all");
    chat.err.until("There are no remembered facts.");
    assert_eq!(chat.close().code, 0);
    assert!(!file.exists());

    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "my shopping list, which is not a database").unwrap();
    let mut chat = start(&project, &["chat", "--model", "offline"]);
    chat.line("/memory");
    chat.err.until("memory.db cannot be opened");
    chat.line("Read Cargo.toml");
    chat.out.until(ANSWERED);
    assert_eq!(chat.close().code, 0);
    let exit = start(&project, &["run", "--memory", "--model", "offline", "Read Cargo.toml"]).end();
    assert!(exit.code != 0 && exit.err.contains("memory.db cannot be opened"), "{exit:?}");
    let kept = std::fs::read_to_string(&file).unwrap();
    assert_eq!(kept, "my shopping list, which is not a database");
}

/// C269: `/memory distil` stores what the conversation says about the user. `--distil-at-end` does
/// so when the chat ends, once however often it ends. `/memory export` writes all facts to a file
/// that only the user can read.
#[test]
fn facts_are_distilled_on_request_and_at_the_end() {
    let (project, server) = (project(), Server::start());
    let model = ["--memory", "--model", "openai/x", "--base-url", &server.url];
    let args = |more: &[&'static str]| [&["chat"], &model[..], more].concat();
    let facts = |fact: &str| json!({ "facts": [fact] }).to_string();

    let mut chat = start(&project, &args(&["--session", "cats"]));
    chat.line("My cat is called Minka.");
    server.request().say("What a name.");
    chat.out.until("What a name.");
    chat.line("/memory distil");
    let request = server.request();
    assert!(request.body["messages"].to_string().contains("My cat is called Minka."));
    request.say(&facts("The user's cat is called Minka."));
    chat.out.until("1 fact was remembered");
    chat.line("/memory");
    chat.err.until("    1  The user's cat is called Minka.");
    chat.line("I have a boat.");
    server.request().say("How nice.");
    chat.out.until("How nice.");
    assert_eq!(chat.close().code, 0, "nothing is sent at the end by default");

    let mut chat = start(&project, &args(&["--session", "cats", "--distil-at-end"]));
    chat.line("/quit");
    chat.err.until("Ctrl-C skips that");
    let request = server.request();
    let sent = request.body["messages"].to_string();
    assert!(sent.contains("I have a boat.") && !sent.contains("Minka"), "{sent}");
    request.say(&facts("The user has a boat."));
    chat.err.until("1 fact was remembered");
    assert_eq!(chat.close().code, 0);
    assert_eq!(start(&project, &args(&["--session", "cats"])).close().code, 0, "not once more");

    let mut chat = start(&project, &args(&[]));
    chat.line("/memory export facts.jsonl");
    chat.err.until("2 facts are in facts.jsonl, as JSON Lines.");
    chat.line("/memory export facts.jsonl");
    chat.err.until("facts.jsonl cannot be written");
    assert_eq!(chat.close().code, 0);
    let export = std::fs::read_to_string(project.path().join("facts.jsonl")).unwrap();
    assert!(export.starts_with(r#"{"loopwright":"facts""#), "{export}");
    assert!(export.contains("The user's cat is called Minka.") && export.contains("a boat"));
}

/// C269: without `--memory` nothing is distilled, and the command says so.
#[test]
fn nothing_is_distilled_without_memory() {
    let project = project();
    let mut chat = start(&project, &["chat", "--model", "offline", "--distil-at-end"]);
    chat.line("Read Cargo.toml");
    chat.out.until(ANSWERED);
    chat.line("/memory distil");
    chat.err.until("`--memory` switches that on");
    let exit = chat.close();
    assert!(exit.code == 0 && !exit.err.contains("distilled"), "{exit:?}");
}
