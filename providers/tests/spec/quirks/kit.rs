//! Helpers: a body that is decoded at once, and an agent with a tool whose server has prepared
//! replies.

pub(crate) use std::sync::{Arc, Mutex};

use std::collections::VecDeque;

pub(crate) use loopwright_core::event::{RunOutcome, RunStatus};
pub(crate) use loopwright_core::message::{
    AssistantMessage, Content, ContentPart, MessageId, MessageKind, ResultStatus, StopReason,
    ToolCall, ToolResult, Usage, UserMessage,
};
pub(crate) use loopwright_core::model::{
    BlockKind, ChatRequest, ModelError, ModelErrorKind, ModelEvent,
};
pub(crate) use loopwright_core::tool::{Effect, ToolSpec};
pub(crate) use loopwright_core::{
    AgentBuilder, ChatModel, GenericAgent, Message, Tool, ToolContext, ToolError, ToolOutput,
};
use loopwright_patterns::PiPattern;
pub(crate) use loopwright_providers::anthropic::Messages;
pub(crate) use loopwright_providers::gemini::GenerateContent;
pub(crate) use loopwright_providers::openai_chat::ChatCompletions;
pub(crate) use loopwright_providers::openai_responses::Responses;
use loopwright_providers::{Endpoint, Model, ReplyBody, WireFormat};
pub(crate) use serde_json::{Value, json};

use crate::server::Server;

/// A decoded reply.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Decoded {
    pub(crate) text: String,
    pub(crate) thinking: String,
    /// The id, name and arguments of each call.
    pub(crate) calls: Vec<[String; 3]>,
    pub(crate) stop: Option<StopReason>,
    pub(crate) usage: Usage,
    pub(crate) error: Option<ModelError>,
}

impl Decoded {
    /// Returns the kind of error that ended the reply.
    pub(crate) fn error_kind(&self) -> Option<ModelErrorKind> {
        self.error.as_ref().map(|error| error.kind)
    }

    /// Returns the calls in short form.
    pub(crate) fn calls(&self) -> Vec<String> {
        self.calls.iter().map(|call| call.join(" ")).collect()
    }
}

/// Decodes a body that arrives in these chunks.
pub(crate) fn decode<F: WireFormat>(chunks: &[&[u8]]) -> Decoded {
    let endpoint =
        Arc::new(Endpoint { provider: "test".into(), host: "here".into(), key_var: None });
    let (mut body, mut out) = (ReplyBody::new(F::decoder(endpoint)), VecDeque::new());
    for chunk in chunks {
        body.push(chunk, &mut out);
    }
    body.finish(&mut out);
    let (mut decoded, mut kinds) = (Decoded::default(), Vec::new());
    for event in out {
        match event {
            ModelEvent::BlockStart { kind, .. } => {
                if let BlockKind::ToolCall { id, name } = &kind {
                    decoded.calls.push([id.clone(), name.clone(), String::new()]);
                }
                let call = decoded.calls.len();
                kinds.push((kind, call));
            }
            ModelEvent::Delta { block, delta } => match &kinds[block as usize] {
                (BlockKind::Text, _) => decoded.text += &delta,
                (BlockKind::Thinking, _) => decoded.thinking += &delta,
                (_, call) => decoded.calls[call - 1][2] += &delta,
            },
            ModelEvent::Done { stop, usage } => (decoded.stop, decoded.usage) = (Some(stop), usage),
            ModelEvent::Error(error) => decoded.error = Some(error),
            _ => {}
        }
    }
    decoded
}

/// Decodes these payloads, each as one event.
pub(crate) fn events<F: WireFormat>(payloads: &[&str]) -> Decoded {
    decode::<F>(&[stream(payloads).as_bytes()])
}

/// Returns an event stream of these payloads.
pub(crate) fn stream(payloads: &[&str]) -> String {
    payloads.iter().map(|payload| format!("data: {payload}\n\n")).collect()
}

/// Returns a chunk of Chat Completions.
pub(crate) fn chunk(delta: &str) -> String {
    format!("{{\"choices\":[{{\"index\":0,\"delta\":{delta}}}]}}")
}

/// Returns a chunk with this finish reason.
pub(crate) fn finish(reason: &str) -> String {
    format!("{{\"choices\":[{{\"index\":0,\"delta\":{{}},\"finish_reason\":\"{reason}\"}}]}}")
}

/// Returns a complete reply of Chat Completions with this delta and finish reason.
pub(crate) fn chat(delta: &str, reason: &str) -> String {
    stream(&[&chunk(delta), &finish(reason), "[DONE]"])
}

/// Returns a call of the tool `f` as a delta.
pub(crate) fn call_f(id: &str, arguments: &str) -> String {
    let function = json!({"name": "f", "arguments": arguments});
    json!({"tool_calls": [{"index": 0, "id": id, "function": function}]}).to_string()
}

/// The run of an agent with the read-only tool `f`, whose server sent these replies.
pub(crate) struct Run {
    pub(crate) outcome: RunOutcome,
    pub(crate) messages: Vec<Arc<Message>>,
    /// The request bodies.
    pub(crate) requests: Vec<Value>,
    /// The request bodies, as received.
    pub(crate) raw: Vec<String>,
    /// The arguments of each run of the tool.
    pub(crate) ran: Vec<Value>,
}

impl Run {
    /// Returns the results of the calls.
    pub(crate) fn results(&self) -> Vec<&ToolResult> {
        self.messages.iter().filter_map(|message| message.as_tool_result()).collect()
    }
}

/// Runs an agent with a model in the format `F`, on a server with the profile of `host`.
pub(crate) async fn run<F: WireFormat>(host: &str, model: &str, replies: &[String]) -> Run {
    run_with(|url| of::<F>(host, model, url), |agent| agent, replies).await
}

/// Returns a model in the format `F` at `url`.
pub(crate) fn of<F: WireFormat>(host: &str, model: &str, url: &str) -> Model<F> {
    Model::<F>::builder(model).base_url(url).profile(F::profile(host, model)).build().unwrap()
}

/// Runs any model and agent. A reply that starts with `HTTP/` is a complete response. Other replies
/// are bodies.
pub(crate) async fn run_with<M: ChatModel + 'static>(
    model: impl FnOnce(&str) -> M,
    agent: impl FnOnce(AgentBuilder) -> AgentBuilder,
    replies: &[String],
) -> Run {
    let (server, ran) = (Server::start().await, Arc::new(Mutex::new(Vec::new())));
    let model = model(&server.url());
    let replies = replies.to_vec();
    let serve = tokio::spawn(async move {
        let mut raw = Vec::new();
        for reply in replies {
            let mut http = server.accept().await;
            raw.push(std::mem::take(&mut http.raw));
            match reply.strip_prefix("HTTP/1.1 ").and_then(|answer| answer.split_once('\n')) {
                Some((status, body)) => http.answer(status, "connection: close\r\n", body).await,
                None => {
                    http.answer(
                        "200 OK",
                        "connection: close\r\ncontent-type: text/event-stream\r\n",
                        &reply,
                    )
                    .await
                }
            }
        }
        raw // the server is closed: further requests fail
    });
    let spec =
        ToolSpec::with_schema("f", "Does f.", json!({"type": "object"})).effect(Effect::ReadOnly);
    let tool = Noting { spec: Arc::new(spec), ran: ran.clone() };
    let agent = agent(GenericAgent::builder(model, PiPattern).tool(tool)).build().unwrap();
    let handle = agent.session().await.unwrap();
    let outcome = handle.prompt("go").await.unwrap();
    let messages = handle.state().await.unwrap().messages.to_vec();
    serve.abort(); // it still waits if there were fewer requests than replies
    let raw = serve.await.unwrap_or_default();
    let requests = raw.iter().map(|body| serde_json::from_str(body).unwrap()).collect();
    let ran = ran.lock().unwrap().clone();
    Run { outcome, messages, requests, raw, ran }
}

struct Noting {
    spec: Arc<ToolSpec>,
    ran: Arc<Mutex<Vec<Value>>>,
}

#[async_trait::async_trait]
impl Tool for Noting {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, arguments: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        self.ran.lock().unwrap().push(arguments.clone());
        Ok("done".into())
    }
}

/// Returns a conversation for the encoders.
pub(crate) fn request(bodies: Vec<MessageKind>) -> ChatRequest {
    let mut request = ChatRequest::default();
    let messages = (1..).zip(bodies).map(|(id, body)| Arc::new(Message::new(MessageId(id), body)));
    request.messages = Arc::new(messages.collect());
    request
}

/// Returns a call of `f`.
pub(crate) fn call(id: &str, arguments: &str) -> ContentPart {
    ContentPart::ToolCall(ToolCall::new(id, "f", arguments))
}

/// Returns a result of `f`.
pub(crate) fn result(id: &str, text: &str) -> MessageKind {
    let content = vec![Content::text(text)];
    MessageKind::ToolResult(ToolResult::new(id, "f", ResultStatus::Ok, content))
}

/// Returns a reply of this model.
pub(crate) fn by(model: &str, parts: Vec<ContentPart>) -> MessageKind {
    AssistantMessage::new(parts).model(model).into()
}

/// Returns a user message.
pub(crate) fn user(text: &str) -> MessageKind {
    UserMessage::from(text).into()
}

/// Returns the body of a request for the server at `host`. The model's id is its name.
pub(crate) fn encoded<F: WireFormat>(request: &ChatRequest, host: &str, model: &str) -> Vec<u8> {
    let mut settings = loopwright_providers::Settings::new(model);
    settings.profile = F::profile(host, model);
    F::encode(request, &settings)
}
