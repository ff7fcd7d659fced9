//! `/api/sessions`: live sessions, which stay when a connection closes; and `/api/actions`, what
//! waits for an answer in any of them.

mod actions;
pub(crate) mod agent;
mod bodies;
pub(crate) mod path;
pub(crate) mod refused;

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use loopwright_core::AgentHandle;
use loopwright_core::event::{InputEvent, Prompt, QueueKind};
use loopwright_core::log::{MemoryError, SessionLog};

pub(crate) use self::actions::{Actions, Answer, Decided};
pub(crate) use self::bodies::{
    Accepted, Compact, Compacted, Created, Listed, Messages, Nothing, Said, Session, Settings,
    Steered,
};
use self::path::Id;
use crate::body::JsonBody;
use crate::config::Server;
use crate::error::ApiError;
use crate::shares::Client;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/api/sessions", get(list).post(create))
        .route("/api/sessions/{id}", get(one).delete(delete))
        .route("/api/sessions/{id}/messages", get(messages))
        .route("/api/sessions/{id}/prompt", post(prompt))
        .route("/api/sessions/{id}/steer", post(steer))
        .route("/api/sessions/{id}/follow-up", post(follow_up))
        .route("/api/sessions/{id}/continue", post(go_on))
        .route("/api/sessions/{id}/abort", post(abort))
        .route("/api/sessions/{id}/compact", post(compact))
        .merge(actions::routes())
}

async fn create(
    State(server): State<Server>,
    JsonBody(settings): JsonBody<Settings>,
) -> Result<(StatusCode, Json<Created>), ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let settings = serde_json::to_value(settings).unwrap_or_default();
    let id = shared.live.create(&server, settings).await?;
    Ok((StatusCode::CREATED, Json(Created { id })))
}

async fn list(State(server): State<Server>) -> Result<Json<Listed>, ApiError> {
    let shared = server.shared();
    let mut sessions = Vec::new();
    for session in shared.store.sessions().await? {
        let interrupted = session.run.is_some() && !shared.live.is_running(&session.id).await;
        sessions.push(bodies::OfList { session, interrupted });
    }
    Ok(Json(Listed { sessions }))
}

async fn one(State(server): State<Server>, Id(id): Id) -> Result<Json<Session>, ApiError> {
    let shared = server.shared();
    let session = shared.store.session(&id).await?;
    if let Some(handle) = shared.live.peek(&id).await {
        let state = handle.state().await?;
        let texts = |queue: &[Arc<loopwright_core::Message>]| {
            queue.iter().map(|message| message.text()).collect()
        };
        let queue = bodies::Queue {
            steering: texts(&state.steering_queue),
            follow_up: texts(&state.follow_up_queue),
        };
        let (running, interrupted) = (state.is_running, state.interrupted_run.is_some());
        return Ok(Json(Session { session, running, interrupted, queue }));
    }
    let past = SessionLog::of(&shared.store.read(&id, 0).await?);
    let texts = |wanted| {
        let waiting = past.waiting().into_iter().filter(|(lane, _)| *lane == wanted);
        waiting.map(|(_, message)| message.text()).collect()
    };
    let queue = bodies::Queue {
        steering: texts(QueueKind::Steering),
        follow_up: texts(QueueKind::FollowUp),
    };
    Ok(Json(Session { session, running: false, interrupted: past.run().is_some(), queue }))
}

async fn delete(State(server): State<Server>, Id(id): Id) -> Result<StatusCode, ApiError> {
    server.shared().live.delete(&server, &id).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn messages(State(server): State<Server>, Id(id): Id) -> Result<Json<Messages>, ApiError> {
    let items = server.shared().store.read(&id, 0).await?;
    let (messages, seq) =
        (SessionLog::of(&items).messages(), SessionLog::events(id, &items).len() as u64);
    Ok(Json(Messages { messages, seq }))
}

async fn prompt(
    State(server): State<Server>,
    Id(id): Id,
    client: Client,
    JsonBody(said): JsonBody<Said>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    server.shared().drain.check()?;
    send(&server, &id, Some(client), InputEvent::UserRequest(said.prompt()?)).await
}

async fn steer(
    State(server): State<Server>,
    Id(id): Id,
    client: Client,
    JsonBody(said): JsonBody<Steered>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    // Where calls wait for an answer, it is one, and a run begins.
    send(&server, &id, Some(client), InputEvent::Steer(said.prompt()?)).await
}

async fn follow_up(
    State(server): State<Server>,
    Id(id): Id,
    JsonBody(said): JsonBody<Said>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    send(&server, &id, None, InputEvent::FollowUp(said.prompt()?)).await
}

async fn go_on(
    State(server): State<Server>,
    Id(id): Id,
    client: Client,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    server.shared().drain.check()?;
    send(&server, &id, Some(client), InputEvent::Continue(None::<Prompt>)).await
}

async fn abort(
    State(server): State<Server>,
    Id(id): Id,
    JsonBody(Nothing {}): JsonBody<Nothing>,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    send(&server, &id, None, InputEvent::Abort).await
}

async fn compact(
    State(server): State<Server>,
    Id(id): Id,
    client: Client,
    JsonBody(how): JsonBody<Compact>,
) -> Result<Json<Compacted>, ApiError> {
    server.shared().drain.check()?;
    let compactions = with_session(&server, &id, Some(client), async |handle| {
        handle.compact(how.instructions.as_deref()).await
    })
    .await?;
    Ok(Json(Compacted { compactions }))
}

/// Hands an input to a session. It is in the session's log when this resolves.
async fn send(
    server: &Server,
    id: &str,
    runs_for: Option<Client>,
    event: InputEvent,
) -> Result<(StatusCode, Json<Accepted>), ApiError> {
    let input = with_session(server, id, runs_for, async |handle| handle.send(event).await).await?;
    Ok((StatusCode::ACCEPTED, Json(Accepted { input })))
}

/// Does something with a session; what may begin a run takes one of those that the client may have.
/// A session that turns out to be another process's now is let go.
async fn with_session<T>(
    server: &Server,
    id: &str,
    runs_for: Option<Client>,
    work: impl AsyncFnOnce(&AgentHandle) -> Result<T, loopwright_core::agent::InputError>,
) -> Result<T, ApiError> {
    use loopwright_core::agent::InputError::{Gone, Memory};
    let live = &server.shared().live;
    let used = live.open(server, id).await?;
    let _begun = match runs_for {
        Some(client) => Some(used.begin(server, client).await?),
        None => None,
    };
    let done = work(&used.handle).await;
    if let Err(Gone | Memory(MemoryError::Conflict { .. })) = &done {
        live.let_go(id).await;
    }
    Ok(done?)
}
