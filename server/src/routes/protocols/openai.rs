//! The OpenAI API, with agents as models: `/v1/chat/completions`, `/v1/responses` and `/v1/models`.
//! As with `/api/agent-chat`, nothing is stored, and a run ends with its connection.

mod error_form;
mod models;

use std::collections::VecDeque;

use axum::Json;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use futures::StreamExt;
use loopwright_core::event::{AgentEvent, Envelope};
use loopwright_core::{Environment, SystemEnvironment};
use loopwright_host::{RequestOptions, SessionSettings};
use loopwright_protocols::openai::{
    AgentRequest, ChatCompletion, ChatCompletionRequest, ChatFrame, ChatStream, ErrorBody,
    ResponseHead, ResponseStream, ResponsesRequest,
};

pub(crate) use self::error_form::error_form;
pub(crate) use self::models::{Model, ModelPage};
use crate::access::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::json::JsonBytes;
use crate::limits::quota::Client;
use crate::server::Server;
use crate::streams::request_run::{CutOff, Encoder, RequestRun, RunRequest};
use crate::streams::sse_frames::SseFrame;

/// The header that stops the official clients from repeating a run, whose calls can have had
/// effects.
const NO_RETRY: (HeaderName, HeaderValue) =
    (HeaderName::from_static("x-should-retry"), HeaderValue::from_static("false"));

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/v1/chat/completions", post(chat_completions))
        .route("/v1/responses", post(responses))
        .route("/v1/models", get(models::list))
        .route("/v1/models/{model}", get(models::retrieve))
}

async fn chat_completions(
    State(server): State<Server>,
    client: Client,
    caller: Caller,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    let request = ChatCompletionRequest::from_json(&body)?;
    let includes_usage = request.includes_usage();
    let request = request.decode()?;
    let (is_stream, has_schema) = (request.stream, request.prompt.output.is_some());
    let (head, run) = start(&server, client, &caller, request).await?;
    if is_stream {
        return Ok(run.into_response(ChatStream::new(head, has_schema, includes_usage)));
    }
    let mut stream = ChatStream::new(head, has_schema, true);
    let mut frames = VecDeque::from([stream.start()]);
    match read(run, |event| stream.encode(event, &mut frames)).await {
        Ok(()) => Ok(match ChatCompletion::of(frames) {
            Ok(completion) => Json(completion).into_response(),
            Err(error) => failed(StatusCode::INTERNAL_SERVER_ERROR, error),
        }),
        Err(why) => Ok(cut_off(why)),
    }
}

async fn responses(
    State(server): State<Server>,
    client: Client,
    caller: Caller,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    let request = ResponsesRequest::from_json(&body)?;
    let (echo, wants_reasoning) = (request.echo(), request.wants_reasoning());
    let request = request.decode()?;
    let (is_stream, has_schema) = (request.stream, request.prompt.output.is_some());
    let (head, run) = start(&server, client, &caller, request).await?;
    let mut stream = ResponseStream::new(head, echo, has_schema, wants_reasoning);
    if is_stream {
        return Ok(run.into_response(stream));
    }
    let mut events = VecDeque::new();
    if let Err(why) = read(run, |event| stream.encode(event, &mut events)).await {
        return Ok(cut_off(why));
    }
    let Some(response) = events.pop_back().and_then(|event| event.response) else {
        return Ok(cut_off(CutOff::Gone));
    };
    Ok(match &response.error {
        None => Json(response).into_response(),
        Some(error) => {
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            failed(status, ErrorBody::new(status.as_u16(), &error.message, error.code, ""))
        }
    })
}

/// Starts a run of the agent named as the request's model. The run uses the server's own model.
/// Calls that change something run only if the operator has approved their tools.
async fn start(
    server: &Server,
    client: Client,
    caller: &Caller,
    request: AgentRequest,
) -> Result<(ResponseHead, RequestRun), ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let mut settings = SessionSettings::new();
    settings.agent = Some(request.agent.clone());
    settings.thinking = request.thinking;
    if !shared.agents.has(&settings) {
        return Err(models::unknown("/model"));
    }
    let mut options = RequestOptions::default();
    options.temperature = request.temperature;
    options.max_tokens = request.max_tokens;
    options.instructions = request.instructions;
    options.confirm = true;
    let AgentRequest { agent, prompt, history, .. } = request;
    let head = ResponseHead {
        id: format!("{:016x}", SystemEnvironment.random()).into(),
        created: SystemEnvironment.now() / 1000,
        model: agent.into(),
    };
    let request = RunRequest { prompt, history, settings, options };
    // Paths in errors refer to fields that this API does not have.
    let run = RequestRun::start(server, client, caller, request).await;
    Ok((head, run.map_err(ApiError::without_path)?))
}

/// Reads the events of a run that is not streamed. Deltas are skipped, so that withdrawn text is
/// never sent.
async fn read(mut run: RequestRun, mut encode: impl FnMut(&Envelope)) -> Result<(), CutOff> {
    while let Some(event) = run.next().await {
        let event = event?;
        if !matches!(event.event, AgentEvent::MessageUpdate { .. }) {
            encode(&event);
        }
    }
    Ok(())
}

/// Returns the response for a run that the server has stopped.
fn cut_off(why: CutOff) -> Response {
    let kind = match why {
        CutOff::Draining => ErrorKind::Draining,
        CutOff::Lagged | CutOff::Gone => ErrorKind::Internal,
    };
    (([NO_RETRY]), ApiError::new(kind, why.failure().message)).into_response()
}

/// Returns the response for a run that has failed.
fn failed(status: StatusCode, error: ErrorBody) -> Response {
    (status, [NO_RETRY], Json(error)).into_response()
}

impl Encoder for ChatStream {
    fn start(&mut self, to: &mut VecDeque<SseFrame>) {
        to.push_back(SseFrame::new(None, &ChatStream::start(self)));
    }

    fn event(&mut self, event: &Envelope, to: &mut VecDeque<SseFrame>) {
        let mut frames = VecDeque::new();
        self.encode(event, &mut frames);
        to.extend(frames.iter().map(|frame| SseFrame::new(None, frame)));
        if event.parent.is_none() && matches!(event.event, AgentEvent::AgentEnd(_)) {
            to.push_back(SseFrame::text(DONE));
        }
    }

    fn cut_off(&mut self, why: CutOff, to: &mut VecDeque<SseFrame>) {
        let mut frames: VecDeque<ChatFrame> = VecDeque::new();
        self.fail(&why.failure(), &mut frames);
        to.extend(frames.iter().map(|frame| SseFrame::new(None, frame)));
        to.push_back(SseFrame::text(DONE));
    }
}

/// The last data of a stream of chunks.
const DONE: &str = "[DONE]";

impl Encoder for ResponseStream {
    fn start(&mut self, to: &mut VecDeque<SseFrame>) {
        let mut events = VecDeque::new();
        ResponseStream::start(self, &mut events);
        to.extend(events.iter().map(|event| SseFrame::new(Some(event.r#type), event)));
    }

    fn event(&mut self, event: &Envelope, to: &mut VecDeque<SseFrame>) {
        let mut events = VecDeque::new();
        self.encode(event, &mut events);
        to.extend(events.iter().map(|event| SseFrame::new(Some(event.r#type), event)));
    }

    fn cut_off(&mut self, why: CutOff, to: &mut VecDeque<SseFrame>) {
        let mut events = VecDeque::new();
        self.fail(why.failure(), &mut events);
        to.extend(events.iter().map(|event| SseFrame::new(Some(event.r#type), event)));
    }
}
