//! `POST /api/agent-chat`: one request, the events of its run, nothing kept. When the connection
//! closes, the run is aborted, with its model request and its processes.

mod history;
mod request;
mod stream;

use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use axum::http::{HeaderValue, header};
use axum::response::Response;
use axum::routing::post;
use loopwright_core::hooks::BeforeToolCall;
use loopwright_core::log::InMemory;
use loopwright_core::tool::Effect;
use loopwright_core::{ChatModel, GenericAgent, RunContext};
use loopwright_memory::SummaryCompaction;
use loopwright_patterns::PiPattern;
use loopwright_tools::{Workspace, coding_tools_with};

pub(crate) use self::request::ChatRequest;
use self::stream::{Running, Session};
use crate::body::JsonBody;
use crate::config::Server;
use crate::error::{ApiError, Kind};
use crate::observe::Observer;
use crate::shares::Client;

/// The system prompt; `{workDir}` and `{platform}` are filled in.
const SYSTEM: &str = include_str!("agent_chat/system.md");

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/agent-chat", post(chat))
}

async fn chat(
    State(server): State<Server>,
    client: Client,
    JsonBody(request): JsonBody<ChatRequest>,
) -> Result<Response, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let ChatRequest { message, work_dir, history, llm_config, confirm, auto_approve } =
        request.checked()?;
    let share = shared.runs.begin(client, &shared.limits).await?;
    let model = shared
        .models
        .configured(&llm_config)
        .map_err(|why| ApiError::from(why).with_path("/llmConfig"))?;
    let workspace = shared.roots.workspace(work_dir).await?;
    let items = history::items(&history)?;

    let observer = Observer::new(shared.metrics.clone(), model.info().id.clone());
    let builder = GenericAgent::builder(model, PiPattern)
        .system(system(&workspace))
        .compaction(SummaryCompaction::new());
    let mut builder = builder.auto_all();
    if let Some(temperature) = llm_config.temperature {
        builder = builder.temperature(temperature);
    }
    if let Some(tokens) = llm_config.max_tokens {
        builder = builder.max_tokens(tokens);
    }
    if confirm || auto_approve.is_some() {
        let approved: Arc<[String]> = auto_approve.unwrap_or_default().into();
        builder = builder.before_tool_call(move |call| {
            let approved = call.tool.effect == Effect::ReadOnly
                || approved.iter().any(|name| **name == *call.tool.name);
            std::future::ready(if approved {
                BeforeToolCall::Proceed
            } else {
                BeforeToolCall::Block(refusal(&call.tool.name))
            })
        });
    }
    let failed = |why: &dyn std::fmt::Display| {
        ApiError::new(Kind::Internal, format!("The agent could not be started: {why}."))
    };
    let agent = builder.tools(coding_tools_with(workspace, shared.commands.clone())).build();
    let memory = InMemory::from_items(items);
    let (handle, _) = agent
        .map_err(|why| failed(&why))?
        .run(RunContext::new().memory(memory))
        .await
        .map_err(|why| failed(&why))?;
    // From here on a client that leaves ends the run, also while it is being begun.
    let session = Session::new(handle.clone(), share);
    let events = handle.prompt_stream(message).await.map_err(|why| failed(&why))?;
    let (over, open) = (Box::pin(shared.drain.over()), shared.metrics.open_stream());
    let mut response = Running { session, events, observer, over, _open: open }.into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    Ok(response)
}

pub(crate) fn system(workspace: &Workspace) -> String {
    SYSTEM
        .replace("{workDir}", &workspace.root().display().to_string())
        .replace("{platform}", std::env::consts::OS)
}

/// What the model is told of a call that needs a confirmation, which nobody can give while this
/// request streams.
fn refusal(tool: &str) -> String {
    format!(
        "`{tool}` needs the user's confirmation, and was not run. Say what you want to do with it and why; the user can \
         allow it with the next message."
    )
}
