//! All recorded tool sessions, replayed through a whole agent. Each request follows the rules of
//! its API, has the same contents as the recorded one, and returns signed data byte for byte.

mod recorded;
#[path = "../spec/server.rs"]
#[allow(dead_code, reason = "the other tests ask more of it")]
pub(crate) mod server;
mod signed;
mod transcript;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use loopwright_core::event::RunStatus;
use loopwright_core::message::{ContentPart, StopReason};
use loopwright_core::model::{OutputSchema, ThinkingLevel};
use loopwright_core::tool::{Effect, ToolSpec};
use loopwright_core::{
    BehaviorPattern, GenericAgent, Message, Tool, ToolContext, ToolError, ToolOutput,
};
use loopwright_patterns::{GenericPattern, PiPattern};
use loopwright_providers::anthropic::Messages;
use loopwright_providers::gemini::GenerateContent;
use loopwright_providers::openai_chat::ChatCompletions;
use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Model, WireFormat};
use serde_json::Value;

use self::recorded::{Session, sessions};
use self::server::Server;
use self::transcript::transcript;
use crate::formats::FORMATS;
use crate::recordings::verdict;
use crate::reply::{list, reported, words};
use crate::rules;

#[tokio::test]
async fn every_session_is_replayed_through_the_whole_agent() {
    let (sessions, mut wrong, mut signatures) = (sessions(), Vec::new(), 0);
    for (at, session) in sessions.iter().enumerate() {
        let outcome = match (session.format.as_str(), at % 2 == 0) {
            ("anthropic", true) => replay::<Messages>(session, PiPattern).await,
            ("anthropic", false) => replay::<Messages>(session, GenericPattern).await,
            ("gemini", true) => replay::<GenerateContent>(session, PiPattern).await,
            ("gemini", false) => replay::<GenerateContent>(session, GenericPattern).await,
            ("openai-chat", true) => replay::<ChatCompletions>(session, PiPattern).await,
            ("openai-chat", false) => replay::<ChatCompletions>(session, GenericPattern).await,
            ("openai-responses", true) => replay::<Responses>(session, PiPattern).await,
            ("openai-responses", false) => replay::<Responses>(session, GenericPattern).await,
            (other, _) => panic!("`{other}` is a format that is new to this test"),
        };
        match outcome {
            Ok(signed) => {
                signatures += signed;
                println!(
                    "ok    {}: {} turns, {signed} signatures",
                    session.name,
                    session.turns.len()
                );
            }
            Err(why) => wrong.push(format!("WRONG {}: {why}", session.name)),
        }
    }
    verdict("sessions", sessions.len(), &wrong);
    assert!(signatures > 0, "no session had a signature to hand back");
}

/// Runs the agent against a server that replays the recorded turns. Returns the number of
/// signatures sent back.
async fn replay<F: WireFormat>(
    session: &Session,
    pattern: impl BehaviorPattern + 'static,
) -> Result<usize, String> {
    let server = Server::start().await;
    let model = Model::<F>::builder(&session.model)
        .provider(&session.provider)
        .base_url(server.url())
        .profile(F::profile(session.host(), &session.model))
        .build()
        .map_err(|error| error.to_string())?;
    let mut agent =
        GenericAgent::builder(model, pattern).system(session.system()).tools(tools(session));
    if let Some(tokens) = session.max_tokens() {
        agent = agent.max_tokens(tokens);
    }
    if let Some(temperature) = session.temperature() {
        agent = agent.temperature(temperature);
    }
    if session.thinks() {
        agent = agent.thinking(ThinkingLevel::Low);
    }
    if let Some(schema) = session.output() {
        agent = agent.output_schema(OutputSchema::new("Out", schema));
    }
    let agent = agent.build().map_err(|error| error.to_string())?;
    let handle = agent.session().await.map_err(|error| error.to_string())?;
    let talk = async {
        for prompt in session.prompts() {
            let outcome = handle.prompt(prompt).await.map_err(|error| error.to_string())?;
            if outcome.end != RunStatus::Done {
                return Err(format!("a run ended {:?}: {:?}", outcome.end, outcome.error));
            }
        }
        Ok(())
    };
    let replies: Vec<String> = session.turns.iter().map(|turn| turn.reply.clone()).collect();
    let served = tokio::spawn(async move {
        let mut requests = Vec::new();
        for reply in replies {
            let mut http = server.accept().await;
            requests.push(std::mem::take(&mut http.raw));
            let headers = "content-type: text/event-stream\r\nconnection: close\r\n";
            http.answer("200 OK", headers, &reply).await;
        }
        requests
    });
    talk.await?;
    let requests = tokio::time::timeout(Duration::from_secs(60), served).await;
    let requests =
        requests.map_err(|_| "the agent sent fewer requests than there are turns")?.unwrap();
    let signed = check_requests(session, &requests)?;
    let messages = handle.state().await.map_err(|error| error.to_string())?.messages;
    check_messages(session, &messages)?;
    Ok(signed)
}

fn check_requests(session: &Session, requests: &[String]) -> Result<usize, String> {
    let (mut given, mut replayed) = (Vec::new(), 0);
    for (number, (request, turn)) in (1..).zip(requests.iter().zip(&session.turns)) {
        let body = request.as_bytes();
        let legal = match session.format.as_str() {
            "anthropic" => rules::anthropic::check(body),
            "gemini" => rules::gemini::check(body, &session.model),
            "openai-chat" => rules::openai_chat::check(body, session.server()),
            _ => rules::openai_responses::check(body),
        };
        legal.map_err(|why| format!("request {number} breaks the rules: {why}\n{request}"))?;
        let sent = transcript(
            &session.format,
            &serde_json::from_str(request).map_err(|why| why.to_string())?,
        );
        let recorded = transcript(&session.format, &turn.request);
        if sent != recorded {
            return Err(format!("request {number} says {sent:#?}, the recorded one {recorded:#?}"));
        }
        if let Some(lost) =
            given.iter().find(|signature: &&String| !request.contains(signature.as_str()))
        {
            return Err(format!("request {number} does not hand back {lost}"));
        }
        replayed += given.len();
        given.extend(signed::signed(&session.format, &turn.reply));
    }
    Ok(replayed)
}

/// Checks the replies in the session's final state.
fn check_messages(session: &Session, messages: &[Arc<Message>]) -> Result<(), String> {
    let format =
        FORMATS.iter().find(|format| format.name == session.format).ok_or("no such format")?;
    let replies: Vec<_> = messages.iter().filter_map(|message| message.as_assistant()).collect();
    if replies.len() != session.turns.len() {
        return Err(format!("{} replies to {} turns", replies.len(), session.turns.len()));
    }
    for (number, (reply, turn)) in (1..).zip(replies.iter().zip(&session.turns)) {
        let expected = &turn.expected;
        let mut differs = Vec::new();
        let mut check = |what: &str, got: String, want: String| {
            if got != want {
                differs.push(format!("{what} is {got}, expected {want}"));
            }
        };
        let thinking = reply.parts.iter().filter_map(|part| match part {
            ContentPart::Thinking { text, .. } => Some(text.as_str()),
            _ => None,
        });
        check("text", reply.text(), words(&expected["text"]));
        check("thinking", thinking.collect(), words(&expected["thinking"]));
        let calls = list(expected, "tool_calls");
        let got = reply.calls().zip(calls).map(|(call, expected)| {
            let arguments: Value = serde_json::from_str(&call.arguments).unwrap_or_default();
            // If the provider gave no id, any id is correct.
            let id = if expected["id"].is_string() { &*call.id } else { "" };
            format!("{id} {} {arguments}", call.name)
        });
        let want = calls.iter().map(|call| {
            format!("{} {} {}", words(&call["id"]), words(&call["name"]), call["arguments"])
        });
        check(
            "calls",
            format!("{:?}", got.collect::<Vec<_>>()),
            format!("{:?}", want.collect::<Vec<_>>()),
        );
        check("number of calls", reply.calls().count().to_string(), calls.len().to_string());
        let stop = if calls.is_empty() { StopReason::Stop } else { StopReason::ToolCalls };
        check("stop", format!("{:?}", reply.stop), format!("{stop:?}"));
        let usage = (format.usage)(&reported(&expected["usage"]));
        // Recordings do not list the cost that some servers report.
        check("usage", format!("{:?}", reply.usage.reported_cost(0.0)), format!("{usage:?}"));
        if !differs.is_empty() {
            return Err(format!("reply {number}: {}", differs.join("\n  ")));
        }
    }
    Ok(())
}

/// Returns the recorded tools, which return the recorded results in order.
fn tools(session: &Session) -> Vec<Arc<dyn Tool>> {
    let results: Arc<Mutex<VecDeque<String>>> = Arc::new(Mutex::new(session.results().into()));
    let tools = session.tools().into_iter().map(|(name, description, schema)| {
        let spec =
            ToolSpec::with_schema(name, description, schema).effect(Effect::ReadOnly).sequential();
        Arc::new(RecordedTool { spec: Arc::new(spec), results: results.clone() }) as Arc<dyn Tool>
    });
    tools.collect()
}

struct RecordedTool {
    spec: Arc<ToolSpec>,
    results: Arc<Mutex<VecDeque<String>>>,
}

#[async_trait::async_trait]
impl Tool for RecordedTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, _: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        let result = self.results.lock().unwrap().pop_front();
        result
            .map(ToolOutput::from)
            .ok_or_else(|| ToolError::failed("there is no recorded result left"))
    }
}
