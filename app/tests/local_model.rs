//! Tests of the binary and the library with a real model on a local server.
//!
//! Needs two addresses in the environment, as `.ci/run` sets them: `LOOPWRIGHT_LOCAL_MODEL`, a
//! llama.cpp server up to `/v1`, and `LOOPWRIGHT_FORCED_MODEL`, the same behind a proxy that
//! honours a forced tool choice. The model is so small that the tests check the form of its replies
//! and not their contents.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::process::{Command, Output};

use loopwright_core::event::RunStatus;
use loopwright_core::{GenericAgent, RunContext};
use loopwright_patterns::PiPattern;
use loopwright_providers::OpenAiChat;
use serde_json::Value;

fn server(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: it holds the address of a model server"))
}

/// Returns the events of `loopwright run --json` in an empty directory, and its exit code.
fn run(url: &str, arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
    let root = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwright"));
    command.env("LOOPWRIGHT_CONFIG", ""); // ignores the settings of the current user
    command
        .args(["run", "--json", "--model", "local/smol", "--base-url", url])
        .args(["--max-attempts", "3", "--root"]) // the model is slow, and its server may fail
        .arg(root.path());
    let Output { status, stdout, stderr } = command.args(arguments).output().unwrap();
    let lines = String::from_utf8(stdout).unwrap();
    let events: Vec<Value> =
        lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(!events.is_empty(), "{}", String::from_utf8_lossy(&stderr));
    (events, status.code())
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[test]
fn a_chat_streams() {
    // A model this small may call tools or write endlessly; the limit on turns, or the one on the
    // length of its reply, then ends the run, which is no failure.
    let (events, code) =
        run(&server("LOOPWRIGHT_LOCAL_MODEL"), &["--max-turns", "2", "Say hello in one sentence."]);
    assert!(matches!(code, Some(0 | 3 | 4 | 6)), "exit code {code:?}: {:?}", events.last());
    assert!(of_type(&events, "message_update").len() > 3, "{events:#?}");
    let ends = of_type(&events, "message_end");
    let usage = ends.iter().find_map(|end| end["message"]["usage"]["output"].as_u64());
    assert!(usage.is_some_and(|tokens| tokens > 0), "{ends:#?}");
    assert_eq!(events.last().unwrap()["type"], "agent_end");
}

#[test]
fn a_forced_call_runs_its_tool() {
    let arguments =
        ["--tool-choice", "list_directory", "--max-turns", "2", "What is in this directory?"];
    let (events, code) = run(&server("LOOPWRIGHT_FORCED_MODEL"), &arguments);
    assert!(matches!(code, Some(0 | 3 | 4 | 6)), "exit code {code:?}: {:?}", events.last());
    let started = of_type(&events, "tool_execution_start");
    assert_eq!(
        started.first().map(|event| &event["name"]),
        Some(&"list_directory".into()),
        "{events:#?}"
    );
    assert_eq!(of_type(&events, "tool_execution_end").len(), started.len(), "{events:#?}");
    assert!(of_type(&events, "turn_start").len() > 1, "the model was not asked again: {events:#?}");
}

#[derive(Debug, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
    Blue,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
#[expect(dead_code, reason = "that it can be read is what is tested")]
struct Flag {
    colours: [Colour; 3],
    stripes: u8,
}

#[tokio::test]
async fn an_answer_that_must_fit_a_schema_is_a_value_of_its_type() {
    let model =
        OpenAiChat::builder("smol").base_url(server("LOOPWRIGHT_LOCAL_MODEL")).build().unwrap();
    let agent = GenericAgent::builder(model, PiPattern).output::<Flag>().build().unwrap();
    let (handle, _events) = agent.run(RunContext::new()).await.unwrap();
    let outcome = handle.prompt("Invent a flag with three colours.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
    let _fits: Flag = serde_json::from_value((*outcome.value.unwrap()).clone()).unwrap();
}
