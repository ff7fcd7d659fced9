//! The adapter against a local server: text, reasoning, calls, usage and errors.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "these are tests")]

use std::process::Command;
use std::time::Duration;

use genai_model::GenaiModel;
use genai_model::mock::Mock;
use loopwright::event::RunStatus;
use loopwright::message::{ContentPart, Usage};
use loopwright::model::{ModelErrorKind, Update};
use loopwright::patterns::PiPattern;
use loopwright::{AgentEvent, AgentHandle, GenericAgent, tool};

/// Returns the weather.
#[tool(read_only)]
fn weather(city: &str) -> String {
    format!("sunny in {city}")
}

async fn start() -> (Mock, AgentHandle) {
    let _ = rustls::crypto::ring::default_provider().install_default(); // by another test
    let (mock, client) = Mock::start().await.unwrap();
    let agent = GenericAgent::builder(GenaiModel::new(client, "mock"), PiPattern)
        .system("You look up the weather.")
        .tool(weather())
        .build()
        .unwrap();
    (mock, agent.session().await.unwrap())
}

#[tokio::test]
async fn a_reply_streams_and_its_call_runs() {
    let (mock, handle) = start().await;
    let mut run = handle.prompt_stream("What is the weather in Rome?").await.unwrap();
    let mut texts = Vec::new();
    let mut thoughts = Vec::new();
    while let Some(event) = run.next().await {
        match &event.event {
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                texts.push(delta.clone())
            }
            AgentEvent::MessageUpdate { update: Update::Thinking { delta, .. }, .. } => {
                thoughts.push(delta.clone())
            }
            AgentEvent::AgentEnd(outcome) => {
                assert_eq!(outcome.end, RunStatus::Done);
                assert_eq!(outcome.usage, Usage::new(40, 16).cache(20, 0)); // of two requests
            }
            _ => {}
        }
    }
    assert_eq!(texts.concat(), "Let me look.The tool says: sunny in Rome");
    assert_eq!(thoughts.concat(), "I have the result.");
    let messages = handle.state().await.unwrap().messages;
    let first = messages[1].as_assistant().unwrap();
    assert_eq!(&*first.model, "genai/mock");
    let ContentPart::ToolCall(call) = &first.parts[1] else { panic!("{first:?}") };
    assert_eq!((&*call.name, &*call.arguments), ("weather", r#"{"city":"Rome"}"#));

    let [first, second] = &mock.requests()[..] else { panic!("there are two requests") };
    assert_eq!(first["messages"][0]["content"], "You look up the weather.");
    assert_eq!(first["tools"][0]["function"]["name"], "weather");
    assert_eq!(second["messages"][2]["tool_calls"][0]["function"]["name"], "weather");
    assert_eq!(second["messages"][3]["content"], "sunny in Rome");
    assert_eq!(second["messages"][3]["tool_call_id"], second["messages"][2]["tool_calls"][0]["id"]);
}

#[tokio::test]
async fn an_http_error_has_its_kind_and_its_wait() {
    use futures::StreamExt;
    use loopwright::message::{MessageId, UserMessage};
    use loopwright::model::{ChatRequest, ModelEvent};
    use loopwright::{ChatModel, Message};

    let _ = rustls::crypto::ring::default_provider().install_default();
    let (_mock, client) = Mock::start().await.unwrap();
    let model = GenaiModel::new(client, "mock");
    let mut request = ChatRequest::default();
    request.messages = vec![Message::new(MessageId(1), UserMessage::from("fail")).into()].into();
    let events: Vec<_> = model.stream(request).collect().await;
    let [ModelEvent::Error(error)] = &events[..] else { panic!("{events:?}") };
    assert_eq!((error.kind, error.status), (ModelErrorKind::RateLimited, Some(429)));
    assert_eq!(error.retry_after, Some(Duration::from_secs(7)));
    assert!(error.message.contains("Slow down."), "{error}");
}

#[tokio::test]
async fn an_error_inside_the_stream_ends_the_reply() {
    let (_mock, handle) = start().await;
    let outcome = handle.prompt("break").await.unwrap();
    assert_eq!(
        (outcome.end, outcome.model_error),
        (RunStatus::Error, Some(ModelErrorKind::Overloaded))
    );
    assert!(outcome.error.unwrap().contains("The model has crashed."));
    let outcome = handle.prompt("What is the weather in Rome?").await.unwrap();
    assert_eq!(outcome.end, RunStatus::Done, "the session can be used afterwards");
}

#[test]
fn the_program_needs_no_key() {
    let run = Command::new(env!("CARGO_BIN_EXE_genai-model")).env_clear().output().unwrap();
    let out = String::from_utf8_lossy(&run.stdout);
    assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    assert_eq!(out, "The tool says: sunny in Rome (Done, 76 tokens)\n");
}
