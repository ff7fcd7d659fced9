//! Tests of the binary and the library with a real model on a local server.
//!
//! Needs two addresses in the environment, as `.ci/run` sets them: `LOOPWRIGHT_LOCAL_MODEL`, a
//! llama.cpp server up to `/v1`, and `LOOPWRIGHT_FORCED_MODEL`, the same behind a proxy that
//! honours a forced tool choice. The model is so small that the tests check the form of its replies
//! and not their contents.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use axum::body::{Body, Bytes};
use axum::extract::Request;
use axum::http::{HeaderValue, StatusCode, Uri};
use axum::response::IntoResponse;
use http_body_util::{BodyExt, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use loopwright_core::event::{RunOutcome, RunStatus};
use loopwright_core::limits::{Budget, Limits};
use loopwright_core::log::{InMemory, LogEntry};
use loopwright_core::message::MessageKind;
use loopwright_core::retrieval::{Passage, RetrievalError, Retriever};
use loopwright_core::{
    AgentBuilder, BehaviorPattern, GenericAgent, Message, RunContext, async_trait,
};
use loopwright_patterns::{Extract, PiPattern, Rag, SelfConsistency};
use loopwright_providers::{OpenAiChat, Retry};
use serde_json::{Value, json};
use tokio::process::Command;

/// The penalty that keeps this model from repeating a word until its reply is cut off.
const REPEAT_PENALTY: f64 = 1.3;
/// Maximum number of tokens of its replies to the binary.
const MAX_TOKENS: u32 = 200;

fn server(variable: &str) -> String {
    std::env::var(variable)
        .unwrap_or_else(|_| panic!("{variable} is not set: it holds the address of a model server"))
}

/// Returns the address of a proxy to a server. The proxy adds limits for the reply to each request,
/// and a new seed, so that a repeated request gets another reply.
async fn bounded(upstream: String) -> String {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let seeds = Arc::new(AtomicU64::new(1));
    let pass_on = async move |request: Request| {
        let (mut parts, body) = request.into_parts();
        let body = body.collect().await.unwrap().to_bytes();
        let mut body: Value = serde_json::from_slice(&body).unwrap();
        body["seed"] = json!(seeds.fetch_add(1, Relaxed));
        body["max_tokens"] = json!(MAX_TOKENS);
        body["repeat_penalty"] = json!(REPEAT_PENALTY);
        let body = Bytes::from(body.to_string());
        parts.uri = format!("{upstream}{}", parts.uri).parse::<Uri>().unwrap();
        parts.headers.insert("content-length", HeaderValue::from(body.len()));
        parts.headers.remove("host");
        match client.request(Request::from_parts(parts, Full::new(body))).await {
            Ok(response) => response.map(Body::new),
            // A forced call that was cut off leaves no reply.
            Err(why) => (StatusCode::BAD_GATEWAY, why.to_string()).into_response(),
        }
    };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = axum::Router::new().fallback(pass_on);
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    format!("http://{address}")
}

/// Returns the events of `loopwright run --json` in an empty directory, and its exit code.
async fn run(upstream: &str, arguments: &[&str]) -> (Vec<Value>, Option<i32>) {
    let url = bounded(server(upstream)).await;
    let root = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_loopwright"));
    command.env("LOOPWRIGHT_CONFIG", ""); // ignores the settings of the current user
    command
        .args(["run", "--json", "--model", "local/smol", "--base-url", &url])
        .args(["--max-attempts", "3", "--root"]) // the model is slow, and its server may fail
        .arg(root.path());
    let output = command.args(arguments).stderr(Stdio::inherit()).output().await.unwrap();
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let events: Vec<Value> = lines.map(|line| serde_json::from_slice(line).unwrap()).collect();
    let code = output.status.code();
    assert!(!events.is_empty(), "exit code {code:?}");
    (events, code)
}

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[tokio::test]
async fn a_chat_streams() {
    // A model this small may call tools or write endlessly. The limit on turns or on the length of
    // its reply then ends the run, which is not a failure.
    let arguments = ["--max-turns", "2", "Say hello in one sentence."];
    let (events, code) = run("LOOPWRIGHT_LOCAL_MODEL", &arguments).await;
    assert!(matches!(code, Some(0 | 3 | 4 | 6)), "exit code {code:?}: {:?}", events.last());
    assert!(of_type(&events, "message_update").len() > 3, "{events:#?}");
    let ends = of_type(&events, "message_end");
    let usage = ends.iter().find_map(|end| end["message"]["usage"]["output"].as_u64());
    assert!(usage.is_some_and(|tokens| tokens > 0), "{ends:#?}");
    assert_eq!(events.last().unwrap()["type"], "agent_end");
}

#[tokio::test]
async fn a_forced_call_runs_its_tool() {
    let arguments =
        ["--tool-choice", "list_directory", "--max-turns", "2", "What is in this directory?"];
    let (events, code) = run("LOOPWRIGHT_FORCED_MODEL", &arguments).await;
    assert!(matches!(code, Some(0 | 3 | 4 | 6)), "exit code {code:?}: {:?}", events.last());
    assert_eq!(events.last().unwrap()["type"], "agent_end");
    let started = of_type(&events, "tool_execution_start");
    assert_eq!(
        started.first().map(|event| &event["name"]),
        Some(&"list_directory".into()),
        "{events:#?}"
    );
    assert_eq!(of_type(&events, "tool_execution_end").len(), started.len(), "{events:#?}");
    assert!(of_type(&events, "turn_start").len() > 1, "the model was not asked again: {events:#?}");
}

/// Maximum number of runs until one is done.
const MAX_SEEDS: u32 = 10;

#[derive(Debug, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Colour {
    Red,
    Green,
    Blue,
}

#[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
#[schemars(deny_unknown_fields)]
struct Flag {
    colours: [Colour; 3],
    stripes: u8,
}

fn agent(pattern: impl BehaviorPattern + 'static) -> AgentBuilder {
    agent_with_seed(0, pattern)
}

fn agent_with_seed(seed: u32, pattern: impl BehaviorPattern + 'static) -> AgentBuilder {
    let model = OpenAiChat::builder("smol")
        .base_url(server("LOOPWRIGHT_LOCAL_MODEL"))
        .option("seed", json!(seed))
        .option("repeat_penalty", json!(REPEAT_PENALTY))
        .build()
        .unwrap();
    // The server may close a connection while a request is on its way.
    GenericAgent::builder(Retry::new(model), pattern)
}

/// Runs an agent, and returns the outcome of the run and its log.
async fn log(agent: AgentBuilder, prompt: &str) -> (RunOutcome, Vec<LogEntry>) {
    let memory = InMemory::new();
    let cx = RunContext::new().memory(memory.clone());
    let (handle, _events) = agent.build().unwrap().run(cx).await.unwrap();
    let outcome = handle.prompt(prompt).await.unwrap();
    (outcome, memory.entries())
}

/// Asks with other seeds until a run is done, as this model often writes without an end. Every run
/// must pass the check.
async fn until_done(
    agent: impl Fn(u32) -> AgentBuilder,
    prompt: &str,
    check: impl Fn(&RunOutcome, &[LogEntry]),
) -> (RunOutcome, Vec<LogEntry>) {
    for seed in 1..=MAX_SEEDS {
        let (outcome, log) = log(agent(seed), prompt).await;
        println!("seed {seed}: {:?}, {:?}", outcome.end, outcome.text);
        check(&outcome, &log);
        if outcome.end == RunStatus::Done {
            return (outcome, log);
        }
    }
    panic!("no run of {MAX_SEEDS} is done");
}

#[tokio::test]
async fn an_answer_that_must_fit_a_schema_is_a_value_of_its_type() {
    let (outcome, _) =
        log(agent(PiPattern).output::<Flag>(), "Invent a flag with three colours.").await;
    assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
    let _fits: Flag = serde_json::from_value((*outcome.value.unwrap()).clone()).unwrap();
}

#[tokio::test]
async fn a_value_is_extracted() {
    let pattern = Extract::<Flag>::with_instruction("Describe the flag.");
    let (outcome, _) = log(agent(pattern), "Red, green and blue, with 3 stripes.").await;
    assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
    let _fits: Flag = serde_json::from_str(&outcome.text).unwrap();
}

/// The model is too small for more than the form: each sample is a value, or is retried because its
/// length cut it off.
#[tokio::test]
async fn samples_vote() {
    let mut limits = Limits::default();
    limits.output_retries = 9;
    let agent = |seed| {
        let pattern = SelfConsistency::new(3).temperature(1.0);
        agent_with_seed(seed, pattern).limits(limits.clone()).max_tokens(150)
    };
    let check = |outcome: &RunOutcome, log: &[LogEntry]| {
        // The model may vote for an empty answer.
        assert!(matches!(outcome.end, RunStatus::Done | RunStatus::Incomplete), "{outcome:?}");
        let is_sample = |entry: &&LogEntry| matches!(entry, LogEntry::Detached { .. });
        assert!(log.iter().filter(is_sample).count() >= 3, "{log:?}");
    };
    let (outcome, _) = until_done(agent, "What is 2 + 2? Reason in five words.", check).await;
    assert!(!outcome.text.trim().is_empty(), "{outcome:?}");
}

struct Handbook;

#[async_trait]
impl Retriever for Handbook {
    async fn retrieve(&self, _: &str, _: usize) -> Result<Vec<Passage>, RetrievalError> {
        Ok(vec![Passage::new("The office opens at nine.").source("hours")])
    }
}

#[tokio::test]
async fn an_answer_follows_from_passages() {
    let agent = |seed| {
        agent_with_seed(seed, Rag::new(Handbook, PiPattern))
            .limits(Budget::default().turns(3))
            .max_tokens(100)
    };
    let check = |outcome: &RunOutcome, log: &[LogEntry]| {
        // It may write or search endlessly, which is not a failure of the pattern.
        let ends = [RunStatus::Done, RunStatus::Limit, RunStatus::Incomplete];
        assert!(ends.contains(&outcome.end), "{outcome:?}");
        let found = log.iter().any(|entry| match entry {
            LogEntry::CallFinished { result } => result.text().contains("opens at nine"),
            _ => false,
        });
        assert!(found, "{log:?}");
    };
    let (outcome, log) = until_done(agent, "When does the office open?", check).await;
    assert!(!outcome.text.trim().is_empty(), "{outcome:?}");
    let is_citations = |message: &Message| match &message.body {
        MessageKind::Custom(message) => *message.kind == *"citations",
        _ => false,
    };
    let cited = log
        .iter()
        .any(|entry| matches!(entry, LogEntry::Remembered { message } if is_citations(message)));
    assert!(cited, "{log:?}");
}
