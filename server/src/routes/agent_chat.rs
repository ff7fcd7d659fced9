//! `POST /api/agent-chat`: one request and the events of its run. Nothing is stored. When the
//! connection closes, the run is aborted, with its model request and its processes.

mod history;
mod request;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use loopwright_core::agent::Principal;
use loopwright_core::log::{InMemory, SessionInfo};
use loopwright_core::{AgentHandle, Memory, RunContext};

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
    let (agent, is_servers_model) = shared.agents.for_request(settings, options, principal).await?;
    // With the client's own key, the operator pays nothing.
    let payer = caller.named().filter(|_| is_servers_model);
    if let Some(payer) = payer {
        shared.daily_budget.check(payer).await?;
    }
    let entries = history::log_entries(&history)?;
    let first = entries.len() as u64;
    let memory: Arc<dyn Memory> = Arc::new(InMemory::from_entries(entries));
    let failed = |error: &dyn std::fmt::Display| {
        ApiError::new(ErrorKind::Internal, format!("The run could not be started: {error}."))
    };
    let mut context = RunContext::new().shared_memory(memory.clone());
    if let Some(principal) = principal {
        context = context.with(principal.clone());
    }
    let (handle, _) = agent.run(context).await.map_err(|error| failed(&error))?;
    // From here on, a client that disconnects ends the run, also while it is being started.
    let guard = RunGuard::new(handle.clone(), permit);
    let state = handle.state().await.map_err(|error| failed(&error))?;
    shared.telemetry.follow(&handle, &name, &state);
    let model = state.model;
    let mut prompt = caller.sends(message.into());
    shared.telemetry.start_trace(&mut prompt);
    let events = handle.prompt_stream(prompt).await.map_err(|error| failed(&error))?;
    if let Some(payer) = payer.cloned() {
        tokio::spawn(count(server.clone(), payer, handle, memory, first));
    }
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

/// Waits for the end of a run, also if its client has disconnected, and adds what it has used to
/// the use of the day. `first` is the number of entries of the history.
async fn count(
    server: Server,
    payer: Principal,
    handle: AgentHandle,
    memory: Arc<dyn Memory>,
    first: u64,
) {
    handle.wait_for_idle().await;
    let entries = memory.load(first).await.unwrap_or_default(); // in memory, it does not fail
    let mut used = SessionInfo::new("");
    entries.iter().for_each(|entry| used.apply(entry));
    server.shared().daily_budget.add(&payer, used.usage.total(), used.cost).await;
}
