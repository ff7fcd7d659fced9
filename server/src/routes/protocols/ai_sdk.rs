//! `/ai-sdk/{agent}`: the UI message stream of the AI SDK, for any agent.

use std::collections::VecDeque;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loopwright_host::SessionSettings;
use loopwright_protocols::ShownRuns;
use loopwright_protocols::ai_sdk::{ChatRequest, Encoder, ui_messages};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Value, json};

use crate::access::Caller;
use crate::error::ApiError;
use crate::json::{JsonBody, JsonBytes};
use crate::limits::quota::Client;
use crate::routes::sessions::{AbortBody, AcceptedInput};
use crate::server::Server;
use crate::streams::backlog::{RunStart, Start};
use crate::streams::conversation::{Conversation, Participant, no_conversation};
use crate::streams::feed::Feed;
use crate::streams::protocol_stream::{ProtocolStream, complete, send_all};
use crate::streams::sse_frames::SseFrame;

/// The data after the last chunk.
const DONE: &str = "[DONE]";

/// The messages of a chat.
#[derive(Serialize, JsonSchema)]
pub(crate) struct UiMessages {
    /// The `messages` option of `useChat`.
    messages: Vec<Value>,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/ai-sdk/{agent}", post(chat))
        .route("/ai-sdk/{agent}/{chat}/stream", get(resume))
        .route("/ai-sdk/{agent}/{chat}/messages", get(messages))
        .route("/ai-sdk/{agent}/{chat}/stop", post(stop))
}

async fn chat(
    State(server): State<Server>,
    agent: Result<Path<String>, PathRejection>,
    client: Client,
    caller: Caller,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    server.shared().drain.check()?;
    let Path(agent) = agent.map_err(|_| no_conversation())?;
    let request = ChatRequest::decode(&body)?;
    let participant = Participant { server, agent, caller, client };
    let conversation = participant.open(&request.chat, SessionSettings::new()).await?;
    let (awaited, inputs) = (request.awaited(), request.inputs);
    let (feed, awaited) = send_all(&conversation, inputs, awaited, false).await?;
    if awaited.is_empty() {
        let mut ready = VecDeque::from([json!({ "type": "start" })]);
        ready.push_back(json!({ "type": "finish", "finishReason": "tool-calls" }));
        return Ok(as_ui_messages(complete(ready)));
    }
    let encoder = Encoder::new(ShownRuns::of(awaited), metadata(&conversation));
    Ok(respond(conversation, feed, encoder.known_calls(request.known_calls)))
}

async fn resume(
    State(server): State<Server>,
    path: Result<Path<(String, String)>, PathRejection>,
    client: Client,
    caller: Caller,
) -> Result<Response, ApiError> {
    server.shared().drain.check()?;
    let Some(conversation) = find(server, path, client, caller).await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let Some(run) = conversation.run_in_progress().await? else {
        return Ok(StatusCode::NO_CONTENT.into_response());
    };
    let encoder = Encoder::new(ShownRuns::up_to(run), metadata(&conversation));
    let feed = conversation.events(Start::Run(RunStart::ReplyInProgress), false).await?;
    Ok(respond(conversation, feed, encoder))
}

async fn messages(
    State(server): State<Server>,
    path: Result<Path<(String, String)>, PathRejection>,
    client: Client,
    caller: Caller,
) -> Result<Json<UiMessages>, ApiError> {
    let messages = match find(server, path, client, caller).await? {
        Some(conversation) => ui_messages(&conversation.history().await?),
        None => Vec::new(),
    };
    Ok(Json(UiMessages { messages }))
}

async fn stop(
    State(server): State<Server>,
    path: Result<Path<(String, String)>, PathRejection>,
    client: Client,
    caller: Caller,
    JsonBody(body): JsonBody<AbortBody>,
) -> Result<(StatusCode, Json<AcceptedInput>), ApiError> {
    let conversation = find(server, path, client, caller).await?.ok_or_else(no_conversation)?;
    let input = conversation.send(body.input()?).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedInput { input })))
}

async fn find(
    server: Server,
    path: Result<Path<(String, String)>, PathRejection>,
    client: Client,
    caller: Caller,
) -> Result<Option<Conversation>, ApiError> {
    let Path((agent, chat)) = path.map_err(|_| no_conversation())?;
    Participant { server, agent, caller, client }.find(&chat).await
}

fn metadata(conversation: &Conversation) -> Value {
    json!({ "session": conversation.session() })
}

fn respond(conversation: Conversation, feed: Feed, encoder: Encoder) -> Response {
    let stream = ProtocolStream::new(conversation, feed, encoder, VecDeque::new());
    as_ui_messages(stream.last(SseFrame::text(DONE)).response())
}

fn as_ui_messages(mut response: Response) -> Response {
    let name = HeaderName::from_static("x-vercel-ai-ui-message-stream");
    response.headers_mut().insert(name, HeaderValue::from_static("v1"));
    response
}
