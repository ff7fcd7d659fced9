//! `/api/sessions`: live sessions, which continue when a connection closes. `/api/actions`: the
//! pending actions of all sessions.

mod actions;
mod bodies;
mod list;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Json, Router};
use loopwright_core::event::{Input, InputEvent, QueueKind, QueuedText};
use loopwright_core::log::SessionLog;
use loopwright_core::tool::TodoList;
use loopwright_host::{SessionSettings, SettingsChange};

pub(crate) use self::actions::{ActionPreview, Actions, DecisionBody};

pub(crate) use self::bodies::{
    AbortBody, AcceptedInput, CompactBody, Compacted, ContinueBody, CreatedSession, ForkBody,
    MessageBody, Messages, PageQuery, SessionStatus, SignalBody, SteerBody,
};
use self::bodies::{Queue, Setup, Wakes, input_id};
pub(crate) use self::list::SessionList;
use crate::access::{Caller, Change, Delete, Read, SessionFor, check_create};
use crate::error::{ApiError, ErrorKind};
use crate::inputs::{check_budget, check_content};
use crate::json::JsonBody;
use crate::limits::quota::Client;
use crate::server::Server;

type Accepted = Result<(StatusCode, Json<AcceptedInput>), ApiError>;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/api/sessions", get(list::list).post(create))
        .route("/api/sessions/{id}", get(status).patch(change).delete(delete))
        .route("/api/sessions/{id}/fork", post(fork))
        .route("/api/sessions/{id}/messages", get(messages))
        .route("/api/sessions/{id}/prompt", post(prompt))
        .route("/api/sessions/{id}/steer", post(steer))
        .route("/api/sessions/{id}/follow-up", post(follow_up))
        .route("/api/sessions/{id}/continue", post(continue_run))
        .route("/api/sessions/{id}/signal", post(signal))
        .route("/api/sessions/{id}/abort", post(abort))
        .route("/api/sessions/{id}/compact", post(compact))
        .merge(actions::routes())
}

async fn create(
    State(server): State<Server>,
    caller: Caller,
    JsonBody(settings): JsonBody<SessionSettings>,
) -> Result<(StatusCode, Json<CreatedSession>), ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    check_create(&server, &caller, &settings).await?;
    let id = shared.live.create(settings, caller.named()).await?;
    Ok((StatusCode::CREATED, Json(CreatedSession { id })))
}

async fn status(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Read>,
) -> Result<Json<SessionStatus>, ApiError> {
    status_of(&server, &id).await.map(Json)
}

async fn status_of(server: &Server, id: &str) -> Result<SessionStatus, ApiError> {
    let shared = server.shared();
    let session = shared.store.session(id).await?;
    let held = session.held.map(|held| held.to_string());
    let wakes = Wakes::of(&session);
    let setup = Setup::of(&shared.agents, &session);
    let settings = shared.agents.stored_settings(session.settings.as_deref());
    let commands = shared.agents.commands(&settings);
    if let Some(handle) = shared.live.peek(id).await
        && let Ok(state) = handle.state().await
    {
        let texts = |queue: Vec<QueuedText>| queue.into_iter().map(|queued| queued.text).collect();
        return Ok(SessionStatus {
            session,
            setup,
            commands,
            running: state.is_running,
            interrupted: state.interrupted_run.is_some(),
            held,
            wakes,
            queue: Queue {
                steering: texts(state.steering_queue),
                follow_up: texts(state.follow_up_queue),
            },
            stages: state.stages,
            todos: TodoList::of(&state.messages),
        });
    }
    let log = SessionLog::of(&shared.store.read(id, 0).await?);
    let texts = |kind| {
        let queued = log.waiting().into_iter().filter(|(queue, _)| *queue == kind);
        queued.map(|(_, message)| message.text()).collect()
    };
    let queue =
        Queue { steering: texts(QueueKind::Steering), follow_up: texts(QueueKind::FollowUp) };
    let running = log.run().is_some() && shared.live.is_running(id).await?;
    let interrupted = log.run().is_some() && !running;
    let (stages, todos) = (log.stages().to_vec(), TodoList::of(&log.messages()));
    Ok(SessionStatus {
        session,
        setup,
        commands,
        running,
        interrupted,
        held,
        wakes,
        queue,
        stages,
        todos,
    })
}

async fn change(
    State(server): State<Server>,
    SessionFor { id, caller, .. }: SessionFor<Change>,
    JsonBody(change): JsonBody<SettingsChange>,
) -> Result<Json<SessionStatus>, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let check = async |new: &SessionSettings| check_create(&server, &caller, new).await;
    shared.live.change(&id, change, check).await?;
    status_of(&server, &id).await.map(Json)
}

async fn fork(
    State(server): State<Server>,
    SessionFor { id, caller, .. }: SessionFor<Change>,
    JsonBody(body): JsonBody<ForkBody>,
) -> Result<(StatusCode, Json<CreatedSession>), ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let change = body.name.map(SettingsChange::name).unwrap_or_default();
    let check = async |new: &SessionSettings| check_create(&server, &caller, new).await;
    let id = shared.live.fork(&id, body.message, change, check).await?;
    Ok((StatusCode::CREATED, Json(CreatedSession { id })))
}

async fn delete(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Delete>,
) -> Result<StatusCode, ApiError> {
    let shared = server.shared();
    shared.live.delete(&id, &shared.daily_budget).await?;
    Ok(StatusCode::NO_CONTENT)
}

async fn messages(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Read>,
    query: Result<Query<PageQuery>, QueryRejection>,
) -> Result<Json<Messages>, ApiError> {
    let Query(query) =
        query.map_err(|why| ApiError::new(ErrorKind::BadRequest, why.body_text()))?;
    let entries = server.shared().store.read(&id, 0).await?;
    let log = SessionLog::of(&entries);
    Ok(Json(query.page(&log.messages(), log.last_seq())?))
}

async fn prompt(
    State(server): State<Server>,
    SessionFor { id, caller, owner, .. }: SessionFor<Change>,
    client: Client,
    JsonBody(body): JsonBody<MessageBody>,
) -> Accepted {
    check_budget(&server, owner.as_ref()).await?;
    server.shared().drain.check()?;
    let (prompt, input) = body.prompt()?;
    let prompt = caller.sends(check_content(&server, &id, prompt).await?);
    send(&server, &id, Some(client), Input { id: input, event: InputEvent::UserRequest(prompt) })
        .await
}

async fn steer(
    State(server): State<Server>,
    SessionFor { id, owner, .. }: SessionFor<Change>,
    client: Client,
    JsonBody(mut body): JsonBody<SteerBody>,
) -> Accepted {
    check_budget(&server, owner.as_ref()).await?;
    let call = body.call.take();
    let (prompt, input) = body.prompt()?;
    if let Some(call) = call {
        let event = InputEvent::SteerTo { call, prompt };
        return send(&server, &id, None, Input { id: input, event }).await;
    }
    // A steer may start a run: if actions are pending, it denies them.
    let event = InputEvent::Steer(check_content(&server, &id, prompt).await?);
    send(&server, &id, Some(client), Input { id: input, event }).await
}

async fn follow_up(
    State(server): State<Server>,
    SessionFor { id, owner, .. }: SessionFor<Change>,
    JsonBody(body): JsonBody<MessageBody>,
) -> Accepted {
    check_budget(&server, owner.as_ref()).await?;
    let (prompt, input) = body.prompt()?;
    let event = InputEvent::FollowUp(check_content(&server, &id, prompt).await?);
    send(&server, &id, None, Input { id: input, event }).await
}

async fn continue_run(
    State(server): State<Server>,
    SessionFor { id, owner, .. }: SessionFor<Change>,
    client: Client,
    JsonBody(body): JsonBody<ContinueBody>,
) -> Accepted {
    check_budget(&server, owner.as_ref()).await?;
    server.shared().drain.check()?;
    let input = Input { id: input_id(body.id)?, event: InputEvent::Continue(None) };
    send(&server, &id, Some(client), input).await
}

async fn signal(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Change>,
    client: Client,
    JsonBody(body): JsonBody<SignalBody>,
) -> Accepted {
    // Like a decision, it is taken although the budget is used up: the sender may not try again.
    send(&server, &id, Some(client), body.input()?).await
}

async fn abort(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Change>,
    JsonBody(body): JsonBody<AbortBody>,
) -> Accepted {
    send(&server, &id, None, body.input()?).await
}

async fn compact(
    State(server): State<Server>,
    SessionFor { id, owner, .. }: SessionFor<Change>,
    client: Client,
    JsonBody(body): JsonBody<CompactBody>,
) -> Result<Json<Compacted>, ApiError> {
    check_budget(&server, owner.as_ref()).await?;
    let shared = server.shared();
    shared.drain.check()?;
    let input = input_id(body.id)?;
    let compactions = shared.live.compact(&id, client, input, body.instructions).await?;
    Ok(Json(Compacted { compactions }))
}

/// Sends an input to a session, wherever it is open. On return, the input is in the session's log.
/// With a client, its run quota must allow a run.
async fn send(server: &Server, id: &str, client: Option<Client>, input: Input) -> Accepted {
    let sent = server.shared().live.send(id, client, input).await?;
    Ok((StatusCode::ACCEPTED, Json(AcceptedInput { input: sent? })))
}
