//! `/api/agents`: the agents of the server and their parts. `/api/models`: the models.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::get;
use axum::{Json, Router};
use loopwright_core::model::ModelInfo;
use loopwright_core::tool::{Effect, NeedsApproval, ToolSpec};
use loopwright_core::{GenericAgent, Principal};
use loopwright_host::{RejectionKind, SessionSettings};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::access::{Caller, Read, SessionFor, check_create};
use crate::error::{ApiError, ErrorKind};
use crate::server::Server;

/// The agents of the server, the default one first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentList {
    agents: Vec<AgentEntry>,
    /// `true` if the server keeps facts about the caller, under `/api/memory`.
    memory: bool,
}

/// An agent of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentEntry {
    /// The name, for `agent` of a new session.
    name: String,
    /// The agent's commands, such as `/plan`. A request that begins with one runs it.
    commands: Vec<&'static str>,
}

/// An agent, built from the settings of a session or from the server's.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentDescription {
    name: Arc<str>,
    /// The agent's own model. A pattern can use others.
    model: ModelInfo,
    /// The agent's tools, except tools of sources that are asked for each run.
    tools: Vec<ToolDescription>,
}

/// A tool of an agent.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ToolDescription {
    name: Arc<str>,
    /// The title that front ends show.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    /// The description that the model reads.
    description: String,
    /// The JSON Schema of the arguments.
    schema: Value,
    effect: Effect,
    /// The calls that need the user's approval.
    approval: NeedsApproval,
}

/// The models that sessions can name.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ModelList {
    /// The model of sessions that name none, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    default: Option<String>,
    /// The models; the server may know others. Unknown values are missing. Prices are in US dollars
    /// per million tokens.
    models: Vec<ModelInfo>,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/api/agents", get(list))
        .route("/api/agents/{name}", get(describe))
        .route("/api/sessions/{id}/agent", get(of_session))
        .route("/api/models", get(models))
}

async fn list(State(server): State<Server>, caller: Caller) -> Json<AgentList> {
    let shared = server.shared();
    let entry = |name: &str| {
        let mut settings = SessionSettings::new();
        settings.agent = Some(name.to_owned());
        AgentEntry { name: name.to_owned(), commands: shared.agents.commands(&settings) }
    };
    let agents = shared.agents.names().map(entry).collect();
    Json(AgentList { agents, memory: shared.remembers() && caller.principal().is_some() })
}

async fn models(State(server): State<Server>) -> Json<ModelList> {
    let (models, default) = server.shared().agents.models();
    Json(ModelList { default, models })
}

async fn describe(
    State(server): State<Server>,
    caller: Caller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<AgentDescription>, ApiError> {
    let mut settings = SessionSettings::new();
    settings.agent = Some(name.map_or(String::new(), |Path(name)| name)); // invalid: no such agent
    if !server.shared().agents.has(&settings) {
        let why = "There is no agent of this name: `GET /api/agents` lists them.";
        return Err(ApiError::new(ErrorKind::NotFound, why));
    }
    check_create(&server, &caller, &settings).await?;
    built(&server, caller.principal(), settings).await
}

async fn of_session(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Read>,
) -> Result<Json<AgentDescription>, ApiError> {
    let shared = server.shared();
    let session = shared.store.session(&id).await?;
    let settings = shared.agents.stored_settings(session.settings.as_deref());
    built(&server, session.owner.as_ref().or(shared.principal.as_ref()), settings).await
}

/// Builds an agent and describes it. An error in its settings is a conflict, since the request
/// itself is valid.
async fn built(
    server: &Server,
    principal: Option<&Principal>,
    settings: SessionSettings,
) -> Result<Json<AgentDescription>, ApiError> {
    let agents = &server.shared().agents;
    let name = agents.name_of(&settings);
    match agents.for_session(settings, principal).await {
        Ok(agent) => Ok(Json(AgentDescription::of(name, &agent))),
        Err(error) if error.kind() == RejectionKind::BadRequest => {
            Err(ApiError::new(ErrorKind::Conflict, error.message()))
        }
        Err(error) => Err(error.into()),
    }
}

impl AgentDescription {
    fn of(name: Arc<str>, agent: &GenericAgent) -> Self {
        let tool = |tool: &Arc<ToolSpec>| ToolDescription {
            name: tool.name.clone(),
            title: tool.title.clone(),
            description: tool.description.clone(),
            schema: tool.schema.clone(),
            effect: tool.effect,
            approval: agent.needs_approval(tool),
        };
        let tools = agent.tool_specs().map(tool).collect();
        AgentDescription { name, model: agent.model().clone(), tools }
    }
}
