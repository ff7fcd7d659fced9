//! `--pattern`: each pattern sends other requests. `/plan`: a plan first, with any pattern.

use loopwright_test_support::model_server::{Exchange, Server};
use loopwright_test_support::process::{Process, project};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;

/// Starts `run` with a pattern.
fn run(server: &Server, project: &TempDir, pattern: &str, prompt: &str) -> Process {
    let model = ["run", "--model", "openai/x", "--base-url", &server.url, "--session", "s"];
    BIN.start(project, &[&model[..], &["--pattern", pattern, prompt]].concat())
}

/// Returns the names of the tools that a request offers.
fn tools(request: &Exchange) -> Vec<String> {
    let tools = request.body["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    tools.iter().map(|tool| tool["function"]["name"].as_str().unwrap().to_owned()).collect()
}

/// Returns whether a request asks for a value with this property.
fn asks_for(request: &Exchange, property: &str) -> bool {
    let schema = &request.body["response_format"]["json_schema"]["schema"];
    !schema["properties"][property].is_null()
}

/// Answers a request with a value.
fn answer(request: Exchange, property: &str, value: Value) {
    assert!(asks_for(&request, property), "{property}: {}", request.body);
    request.say(&value.to_string());
}

#[test]
fn a_plan_that_is_executed_is_made_before_and_after_its_step() {
    let (server, project) = (Server::start(), project());
    let run = run(&server, &project, "plan-execute", "Count.");
    answer(server.request(), "steps", json!({ "steps": ["Count to 1."] }));
    let step = server.request();
    assert!(step.last().contains("Count to 1."), "{}", step.last());
    step.say("1");
    answer(server.request(), "steps", json!({ "steps": [] }));
    server.request().say("I counted.");
    assert!(run.end().out.ends_with("I counted.\n"));
}

#[test]
fn a_judge_sends_an_answer_back() {
    let (server, project) = (Server::start(), project());
    let run = run(&server, &project, "reflect", "Count.");
    server.request().say("1");
    answer(server.request(), "is_good", json!({ "is_good": false, "reason": "2 is missing." }));
    let better = server.request();
    assert!(better.last().contains("2 is missing."), "{}", better.last());
    better.say("1 2");
    answer(server.request(), "is_good", json!({ "is_good": true, "reason": "" }));
    let exit = run.end();
    assert!(exit.code == 0 && exit.out.ends_with("1 2\n"), "{exit:?}");
}

/// C196: The answer that won did not stream, and is printed.
#[test]
fn five_samples_vote() {
    let (server, project) = (Server::start(), project());
    let run = run(&server, &project, "self-consistency", "6 times 7?");
    for sample in ["41", "42", "43", "42", "44"] {
        answer(server.request(), "answer", json!({ "reasoning": "", "answer": sample }));
    }
    let exit = run.end();
    assert!(exit.code == 0 && exit.out.ends_with("42\n"), "{exit:?}");
}

#[test]
fn an_unclear_request_is_a_question_first() {
    let (server, project) = (Server::start(), project());
    let first = run(&server, &project, "clarify", "Delete it.");
    let check = json!({ "question": "Delete what?", "options": ["a", "b"] });
    answer(server.request(), "question", check);
    let exit = first.end();
    assert!(exit.code == 3 && exit.err.contains("Delete what?"), "{exit:?}");
    let actions = BIN.run(&project, &["actions", "--json"]);
    let action: Value = serde_json::from_str(actions.out.lines().next().unwrap()).unwrap();
    let call = action["call"].as_str().unwrap().to_owned();
    let second = BIN.start(&project, &["answer", "s", &call, "b"]);
    answer(server.request(), "question", json!({ "question": null, "options": [] }));
    let request = server.request();
    assert!(request.body["messages"].to_string().contains("Delete what?"));
    request.say("Deleted.");
    assert_eq!(second.end().code, 0);
}

#[test]
fn a_model_without_calls_acts_in_its_text() {
    let (server, project) = (Server::start(), project());
    let run = run(&server, &project, "react", "What is in Cargo.toml?");
    let request = server.request();
    assert!(tools(&request).is_empty(), "{:?}", tools(&request));
    assert!(request.body["messages"][0].to_string().contains("read_file"));
    request.say("Action: read_file\nAction Input: {\"path\": \"Cargo.toml\"}");
    let request = server.request();
    assert!(request.last().contains("Observation: "), "{}", request.last());
    request.say("Final Answer: a package.");
    assert!(run.end().out.ends_with("Final Answer: a package.\n"));
}

/// C193: A request that begins with `/plan` is planned first, with tools that only read. With
/// `--pattern plan-first`, every request is.
#[test]
fn a_plan_comes_first_and_only_reads() {
    for (pattern, prompt) in [("pi", "/plan Tidy up."), ("plan-first", "Tidy up.")] {
        let (server, project) = (Server::start(), project());
        let first = run(&server, &project, pattern, prompt);
        let request = server.request();
        let offered = tools(&request);
        assert!(offered.contains(&"read_file".into()), "{offered:?}");
        assert!(!offered.contains(&"write_file".into()), "{offered:?}");
        assert!(!offered.contains(&"execute_command".into()), "{offered:?}");
        request.say("1. Delete a.txt.");
        let exit = first.end();
        assert!(exit.code == 3 && exit.err.contains("Carry out this plan?"), "{exit:?}");
        let actions = BIN.run(&project, &["actions", "--json"]);
        let action: Value = serde_json::from_str(actions.out.lines().next().unwrap()).unwrap();
        let call = action["call"].as_str().unwrap().to_owned();
        let second = BIN.start(&project, &["answer", "s", &call, "yes"]);
        let request = server.request();
        assert!(tools(&request).contains(&"write_file".into()));
        request.say("Deleted.");
        assert_eq!(second.end().code, 0);
    }
    // Without either, no plan is made.
    let (server, project) = (Server::start(), project());
    let run = run(&server, &project, "pi", "Tidy up.");
    let request = server.request();
    assert!(tools(&request).contains(&"write_file".into()));
    request.say("Tidy.");
    assert_eq!(run.end().code, 0);
}

#[test]
fn a_chat_line_by_line_has_the_command_plan() {
    let (server, project) = (Server::start(), project());
    let model = ["--model", "openai/x", "--base-url", &server.url];
    let mut chat = BIN.start(&project, &model);
    chat.line("/plan Tidy up.");
    let request = server.request();
    assert!(!tools(&request).contains(&"write_file".into()));
    request.say("1. Delete a.txt.");
    chat.err.until("Carry out this plan?");
    chat.line("yes");
    server.request().say("Deleted.");
    chat.out.until("Deleted.");
    assert_eq!(chat.close().code, 0);
}
