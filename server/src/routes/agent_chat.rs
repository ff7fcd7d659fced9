//! `POST /api/agent-chat`: one request and the events of its run. Nothing is stored. When the
//! connection closes, the run is aborted, with its model request and its processes.

mod history;
mod request;
mod stream;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use loopwright_core::RunContext;
use loopwright_core::log::InMemory;

pub(crate) use self::request::ChatRequest;
use self::stream::{RunGuard, RunStream};
use crate::access::{Caller, check_create};
use crate::error::{ApiError, ErrorKind};
use crate::json::JsonBody;
use crate::metrics::Source;
use crate::observer::Observer;
use crate::quota::Client;
use crate::server::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/agent-chat", post(chat))
}

async fn chat(
    State(server): State<Server>,
    client: Client,
    caller: Caller,
    JsonBody(request): JsonBody<ChatRequest>,
) -> Result<Response, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    request.check()?;
    let (message, history, settings, options) = request.into_parts();
    check_create(&server, &caller, &settings).await?;
    let permit = shared.runs.acquire(client).await?;
    let principal = caller.principal();
    let name = shared.agents.name_of(&settings);
    let agent = shared.agents.for_request(settings, options, principal).await?;
    let memory = InMemory::from_entries(history::log_entries(&history)?);
    let failed = |error: &dyn std::fmt::Display| {
        ApiError::new(ErrorKind::Internal, format!("The run could not be started: {error}."))
    };
    let mut context = RunContext::new().memory(memory);
    if let Some(principal) = principal {
        context = context.with(principal.clone());
    }
    let (handle, _) = agent.run(context).await.map_err(|error| failed(&error))?;
    // From here on, a client that disconnects ends the run, also while it is being started.
    let guard = RunGuard::new(handle.clone(), permit);
    let model = handle.state().await.map_err(|error| failed(&error))?.model;
    let events = handle.prompt_stream(message).await.map_err(|error| failed(&error))?;
    let run = RunStream::new(
        guard,
        events,
        Observer::new(shared.metrics.clone(), Source { agent: name, model }),
        shared.drain.finished(),
        shared.metrics.open_stream(),
    );
    let mut response = run.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}
