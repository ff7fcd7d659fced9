//! `/a2a/{agent}`: A2A 1.0 with JSON-RPC, for any agent, and the agents' cards.

use std::collections::VecDeque;
use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{OriginalUri, Path, State};
use axum::http::{HeaderMap, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use loopwright_core::event::{AbortRequest, AgentEvent, ExternalAction, Input, InputEvent};
use loopwright_core::log::{LogEntry, SessionInfo, SessionLog};
use loopwright_core::message::InputId;
use loopwright_core::{Environment, SystemEnvironment};
use loopwright_host::SessionSettings;
use loopwright_protocols::a2a::{
    AgentCard, Call, Encoder, ListTasks, Request, SendMessage, Task, TaskId, TaskState, agent_card,
    code, tasks,
};
use loopwright_protocols::{Awaited, Encode, Progress, RpcError, ShownRuns};
use serde_json::{Value, json};

use crate::access::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::json::JsonBytes;
use crate::limits::quota::Client;
use crate::server::Server;
use crate::streams::backlog::{RunStart, Start};
use crate::streams::conversation::{Conversation, Participant};
use crate::streams::feed::Feed;
use crate::streams::protocol_stream::{ProtocolStream, complete, send_all};

/// The name of the version header, and the supported version.
const VERSION: (&str, &str) = ("a2a-version", "1.0");

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/a2a/{agent}", post(call))
        .route("/a2a/{agent}/.well-known/agent-card.json", get(card))
        .route("/.well-known/agent-card.json", get(default_card))
}

/// Returns whether this is the path of an agent's card. Clients read the card without a token: it
/// tells them that they need one.
pub(crate) fn is_card(path: &str) -> bool {
    let agent = path.strip_suffix("/.well-known/agent-card.json");
    agent.is_some_and(|agent| match agent.strip_prefix("/a2a/") {
        Some(name) => !name.is_empty() && !name.contains('/'),
        None => agent.is_empty(),
    })
}

async fn card(
    State(server): State<Server>,
    agent: Result<Path<String>, PathRejection>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Result<Json<AgentCard>, ApiError> {
    let name = agent.map_or(String::new(), |Path(name)| name); // an invalid name matches nothing
    let mut settings = SessionSettings::new();
    settings.agent = Some(name.clone());
    if !server.shared().agents.has(&settings) {
        let why = "There is no agent of this name: `GET /api/agents` lists them.";
        return Err(ApiError::new(ErrorKind::NotFound, why));
    }
    let prefix = uri.path().split("/a2a/").next().unwrap_or_default();
    Ok(Json(card_of(&server, &name, prefix, &headers)))
}

async fn default_card(
    State(server): State<Server>,
    OriginalUri(uri): OriginalUri,
    headers: HeaderMap,
) -> Json<AgentCard> {
    let prefix = uri.path().split("/.well-known/").next().unwrap_or_default();
    let name = server.shared().agents.names().next().unwrap_or_default();
    Json(card_of(&server, name, prefix, &headers))
}

/// Returns the card of an agent, with the address under which the client has reached the server.
fn card_of(server: &Server, name: &str, prefix: &str, headers: &HeaderMap) -> AgentCard {
    let text = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let host = text(header::HOST.as_str()).unwrap_or("localhost");
    let scheme = if text("x-forwarded-proto") == Some("https") { "https" } else { "http" };
    let url = format!("{scheme}://{host}{prefix}/a2a/{name}");
    agent_card(name, &url, env!("CARGO_PKG_VERSION"), !server.shared().users.is_empty())
}

async fn call(
    State(server): State<Server>,
    agent: Result<Path<String>, PathRejection>,
    client: Client,
    caller: Caller,
    headers: HeaderMap,
    JsonBytes(body): JsonBytes,
) -> Result<Response, ApiError> {
    let agent = agent.map_or(String::new(), |Path(name)| name);
    let request = match Request::decode(&body) {
        Ok(request) => request,
        Err((id, error)) => return Ok(Json(error.response(&id)).into_response()),
    };
    let version = headers.get(VERSION.0).and_then(|version| version.to_str().ok());
    let participant = Participant { server, agent, caller, client };
    let id = request.id.clone();
    let answered = match version.unwrap_or_default().starts_with(VERSION.1) {
        true => answer(participant, request).await,
        false => {
            Err(RpcError::new(code::VERSION_NOT_SUPPORTED, "Send the header `A2A-Version: 1.0`.")
                .into())
        }
    };
    match answered {
        Ok(response) => Ok(response),
        Err(Refusal::Rpc(error)) => Ok(Json(error.response(&id)).into_response()),
        // For proxies and the server's log, a status is more useful than a JSON-RPC code.
        Err(Refusal::Api(error)) => Err(error),
    }
}

/// The refusal of a call, by the protocol or by the server.
enum Refusal {
    Rpc(RpcError),
    Api(ApiError),
}

impl From<RpcError> for Refusal {
    fn from(error: RpcError) -> Self {
        Refusal::Rpc(error)
    }
}

impl From<ApiError> for Refusal {
    /// Converts an error in the request itself to a code of the protocol.
    fn from(error: ApiError) -> Self {
        match error.kind() {
            ErrorKind::BadRequest => Refusal::Rpc(RpcError::invalid_params(error.to_string())),
            ErrorKind::Conflict | ErrorKind::RunInProgress => {
                Refusal::Rpc(RpcError::new(code::UNSUPPORTED_OPERATION, error.message()))
            }
            _ => Refusal::Api(error),
        }
    }
}

async fn answer(participant: Participant, request: Request) -> Result<Response, Refusal> {
    let id = request.id;
    let result = match request.call {
        Call::SendMessage { message, streams } => {
            return send(participant, id, *message, streams).await;
        }
        Call::SubscribeToTask(task) => return subscribe(participant, id, task).await,
        Call::GetTask(task) => {
            let conversation = find(participant, &task).await?;
            task_of(&conversation, &task).await?.to_json()
        }
        Call::ListTasks(list) => list_tasks(participant, list).await?,
        Call::CancelTask(task) => cancel(participant, task).await?.to_json(),
        _ => return Err(RpcError::unknown_method("There is no such method here.").into()),
    };
    Ok(Json(response(&id, result)).into_response())
}

fn response(id: &Value, result: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": result })
}

/// Sends a message to the session of its context, and answers with its task.
async fn send(
    participant: Participant,
    id: Value,
    message: SendMessage,
    streams: bool,
) -> Result<Response, Refusal> {
    participant.server.shared().drain.check()?;
    let returns_at_once = message.return_immediately;
    let (conversation, task, pending) = match &message.task {
        Some(task) => {
            let conversation = find(participant, task).await?;
            let log = Log::read(&conversation, &task.context).await?;
            let pending = match log.task(task)?.state {
                state if state.is_terminal() => {
                    let why = "The task has ended.";
                    return Err(RpcError::new(code::UNSUPPORTED_OPERATION, why).into());
                }
                TaskState::InputRequired => log.pending,
                _ => Vec::new(),
            };
            (conversation, task.clone(), pending)
        }
        None => {
            let context = message.context.clone().unwrap_or_else(new_context);
            let task = TaskId::new(message.id.clone(), context);
            let settings = SessionSettings::new();
            let conversation = participant.open(&task.context, settings).await?;
            (conversation, task, Vec::new())
        }
    };
    let inputs = message.inputs(&pending)?;
    let awaited = awaited(&inputs);
    let (feed, awaited) = send_all(&conversation, inputs, awaited, false).await?;
    let submitted = Task::submitted(task.clone(), SystemEnvironment.now());
    let is_idle = awaited.is_empty();
    let encoder = Encoder::new(id.clone(), task.clone(), ShownRuns::of(awaited));
    if streams {
        if is_idle {
            let current = task_of(&conversation, &task).await?;
            return Ok(complete(VecDeque::from([encoder.start(&current)])));
        }
        let ready = VecDeque::from([encoder.start(&submitted)]);
        return Ok(ProtocolStream::new(conversation, feed, encoder, ready).response());
    }
    if !returns_at_once && !is_idle {
        wait(&conversation, feed, encoder).await;
    }
    let task = task_of(&conversation, &task).await?;
    Ok(Json(response(&id, json!({ "task": task.to_json() }))).into_response())
}

/// Returns the key of a new context.
fn new_context() -> String {
    let random = || SystemEnvironment.random();
    format!("{:016x}{:016x}", random(), random())
}

/// Returns the requests and decisions that the response to these inputs waits for.
fn awaited(inputs: &[Input]) -> Vec<Awaited> {
    let awaited = |input: &Input| match &input.event {
        InputEvent::UserRequest(_) => input.id.clone().map(Awaited::Request),
        InputEvent::ExternalActionResult(result) => Some(Awaited::Decision(result.call.clone())),
        _ => None,
    };
    inputs.iter().filter_map(awaited).collect()
}

/// Resolves when the runs that the encoder shows have ended, or the server shuts down.
async fn wait(conversation: &Conversation, mut feed: Feed, mut encoder: Encoder) {
    let mut ready = VecDeque::new();
    let end = conversation.server().shared().drain.finished();
    tokio::pin!(end);
    loop {
        let event = tokio::select! { biased;
            event = feed.next_event() => event,
            () = &mut end => return, // the task is still working
        };
        let Some((_, event)) = event else { return };
        let progress = encoder.encode(&event, &mut ready);
        ready.clear();
        if progress == Progress::Finish {
            return;
        }
    }
}

/// Streams the rest of a task.
async fn subscribe(participant: Participant, id: Value, task: TaskId) -> Result<Response, Refusal> {
    let conversation = find(participant, &task).await?;
    let current = task_of(&conversation, &task).await?;
    if current.state.is_terminal() {
        return Err(RpcError::new(
            code::UNSUPPORTED_OPERATION,
            "The task has ended: get it with `GetTask`.",
        )
        .into());
    }
    let (runs, start) = match (current.state, conversation.run_in_progress().await?) {
        (TaskState::Working, Some(run)) => {
            (ShownRuns::up_to(run), Start::Run(RunStart::ReplyInProgress))
        }
        (TaskState::Submitted, _) => {
            let input = task.message.as_str().into();
            let start = Start::Run(RunStart::OfRequest(task.message.as_str().into()));
            (ShownRuns::of(vec![Awaited::Request(input)]), start)
        }
        _ => {
            let encoder = Encoder::new(id, task, ShownRuns::of(Vec::new()));
            return Ok(complete(VecDeque::from([encoder.start(&current)])));
        }
    };
    let encoder = Encoder::new(id, task, runs);
    // The stream repeats the artifacts.
    let ready = VecDeque::from([encoder.start(&current.without_artifacts())]);
    let feed = conversation.events(start, false).await?;
    Ok(ProtocolStream::new(conversation, feed, encoder, ready).response())
}

async fn list_tasks(participant: Participant, list: ListTasks) -> Result<Value, Refusal> {
    let mut found = match participant.find(&list.context).await? {
        None => Vec::new(),
        Some(conversation) => Log::read(&conversation, &list.context).await?.tasks,
    };
    found.reverse();
    found.retain(|task| list.status.is_none_or(|status| status == task.state));
    let total = found.len();
    let page: Vec<Value> = found
        .into_iter()
        .skip(list.skip)
        .take(list.page_size)
        .map(|task| if list.include_artifacts { task } else { task.without_artifacts() }.to_json())
        .collect();
    let next = list.skip.saturating_add(page.len());
    let next = if next < total { next.to_string() } else { String::new() };
    Ok(json!({
        "tasks": page, "nextPageToken": next, "pageSize": list.page_size, "totalSize": total,
    }))
}

/// Aborts the run of a task, or denies its pending actions. Returns the task at its end.
async fn cancel(participant: Participant, task: TaskId) -> Result<Task, Refusal> {
    let conversation = find(participant, &task).await?;
    // The state and the run are read at the same time, so that no other run is aborted.
    let events = conversation.history().await?;
    let Some(current) = tasks(&task.context, &events).into_iter().find(|known| known.id == task)
    else {
        task_of(&conversation, &task).await?; // queued, or unknown
        let why = "The task waits until an earlier one of its context has ended: cancel that one.";
        return Err(RpcError::new(code::TASK_NOT_CANCELABLE, why).into());
    };
    if current.state.is_terminal() {
        return Err(RpcError::new(code::TASK_NOT_CANCELABLE, "The task has ended.").into());
    }
    let (last, run) = events.last().map(|event| (event.seq, event.run_id)).unwrap_or_default();
    let mut abort = AbortRequest::new();
    if current.state == TaskState::Working {
        abort = abort.run(run);
    }
    conversation.send(InputEvent::Abort(abort).with_id(format!("cancel:{task}"))).await?;
    let mut feed = conversation.events(Start::After(last), false).await?;
    while let Some((_, event)) = feed.next_event().await {
        if matches!(event.event, AgentEvent::AgentEnd(_)) {
            let task = task_of(&conversation, &task).await?;
            if task.state.is_terminal() {
                return Ok(task);
            }
        }
    }
    task_of(&conversation, &task).await
}

async fn find(participant: Participant, task: &TaskId) -> Result<Conversation, Refusal> {
    Ok(participant.find(&task.context).await?.ok_or_else(TaskId::unknown)?)
}

/// Returns the state of a task, from the session's log.
async fn task_of(conversation: &Conversation, id: &TaskId) -> Result<Task, Refusal> {
    Log::read(conversation, &id.context).await?.task(id)
}

/// A snapshot of a session's log.
struct Log {
    entries: Vec<LogEntry>,
    /// The tasks, with their pending actions.
    tasks: Vec<Task>,
    pending: Vec<ExternalAction>,
}

impl Log {
    async fn read(conversation: &Conversation, context: &str) -> Result<Self, Refusal> {
        let session = conversation.session();
        let store = &conversation.server().shared().store;
        let entries = store.read(session, 0).await.map_err(ApiError::from)?;
        let info = SessionInfo::of(session.clone(), &entries);
        let pending = info.pending.into_iter().map(|pending| Arc::unwrap_or_clone(pending.action));
        let pending: Vec<_> = pending.collect();
        let tasks = tasks(context, &SessionLog::events(session.clone(), &entries));
        let tasks = tasks.into_iter().map(|task| task.pending(&pending)).collect();
        Ok(Log { entries, tasks, pending })
    }

    fn task(&self, id: &TaskId) -> Result<Task, Refusal> {
        if let Some(task) = self.tasks.iter().find(|task| task.id == *id) {
            return Ok(task.clone());
        }
        let is_message = |input: &InputId| **input == *id.message;
        match self.entries.iter().any(|entry| entry.input().is_some_and(is_message)) {
            true => Ok(Task::submitted(id.clone(), SystemEnvironment.now())),
            false => Err(TaskId::unknown().into()),
        }
    }
}
