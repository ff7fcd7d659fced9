//! `/ag-ui/{agent}`: AG-UI, for any agent.

use std::collections::VecDeque;

use axum::extract::Path;
use axum::extract::State;
use axum::extract::rejection::PathRejection;
use axum::http::StatusCode;
use axum::response::Response;
use axum::routing::post;
use axum::{Json, Router};
use loopwright_host::SessionSettings;
use loopwright_protocols::ag_ui::{Encoder, Event, RunRequest};
use loopwright_protocols::{Awaited, Encode, ShownRuns};
use serde_json::json;

use crate::access::Caller;
use crate::error::ApiError;
use crate::json::{JsonBody, JsonBytes};
use crate::limits::quota::Client;
use crate::routes::sessions::{AbortBody, AcceptedInput};
use crate::server::Server;
use crate::streams::backlog::{RunStart, Start};
use crate::streams::conversation::{Conversation, Participant, no_conversation};
use crate::streams::protocol_stream::{ProtocolStream, complete, send_all};

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/ag-ui/{agent}", post(run))
        .route("/ag-ui/{agent}/{thread}/stop", post(stop))
}

async fn run(
    State(server): State<Server>,
    agent: Result<Path<String>, PathRejection>,
    client: Client,
    caller: Caller,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    server.shared().drain.check()?;
    let Path(agent) = agent.map_err(|_| no_conversation())?;
    let request = RunRequest::decode(&body)?;
    let participant = Participant { server, agent, caller, client };
    if request.inputs.is_empty() {
        return follow(participant, &request).await;
    }
    let conversation = participant.open(&request.thread, SessionSettings::new()).await?;
    let (awaited, inputs) = (request.awaited(), request.inputs);
    let (feed, awaited) = send_all(&conversation, inputs, awaited, true).await?;
    let mut ready = VecDeque::new();
    let is_idle = awaited.is_empty();
    let mut encoder = Encoder::new(request.thread, request.run, ShownRuns::of(awaited));
    encoder.start(metadata(&conversation), &mut ready);
    if is_idle {
        encoder.finish(&conversation.pending().await?, &mut ready);
        return Ok(complete(ready));
    }
    Ok(ProtocolStream::new(conversation, feed, encoder, ready).response())
}

/// Answers a client that sends no input, with the conversation and the run in progress.
async fn follow(participant: Participant, request: &RunRequest) -> Result<Response, ApiError> {
    let (thread, run) = (request.thread.as_str(), request.run.as_str());
    let mut ready: VecDeque<Event> = VecDeque::new();
    let encoder = |runs| Encoder::new(thread, run, runs).show_request();
    let Some(conversation) = participant.find(thread).await? else {
        let mut encoder = encoder(ShownRuns::of(Vec::new()));
        encoder.start(None, &mut ready);
        encoder.restate(&[], &mut ready);
        encoder.finish(&[], &mut ready);
        return Ok(complete(ready));
    };
    let in_progress = conversation.run_in_progress().await?;
    let mut events = conversation.history().await?;
    let Some(in_progress) = in_progress else {
        let mut encoder = encoder(ShownRuns::of(Vec::new()));
        encoder.start(metadata(&conversation), &mut ready);
        encoder.restate(&events, &mut ready);
        encoder.finish(&conversation.pending().await?, &mut ready);
        return Ok(complete(ready));
    };
    events.truncate(events.partition_point(|event| event.run_id < in_progress));
    let mut encoder = encoder(ShownRuns::of(vec![Awaited::Run(in_progress)]));
    encoder.start(metadata(&conversation), &mut ready);
    encoder.restate(&events, &mut ready);
    let feed = conversation.events(Start::Run(RunStart::InProgress), true).await?;
    Ok(ProtocolStream::new(conversation, feed, encoder, ready).response())
}

fn metadata(conversation: &Conversation) -> Option<serde_json::Value> {
    Some(json!({ "session": conversation.session() }))
}

async fn stop(
    State(server): State<Server>,
    path: Result<Path<(String, String)>, PathRejection>,
    client: Client,
    caller: Caller,
    JsonBody(body): JsonBody<AbortBody>,
) -> Result<(StatusCode, Json<AcceptedInput>), ApiError> {
    let Path((agent, thread)) = path.map_err(|_| no_conversation())?;
    let participant = Participant { server, agent, caller, client };
    let conversation = participant.find(&thread).await?.ok_or_else(no_conversation)?;
    let input = conversation.send(body.input()?).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedInput { input })))
}
