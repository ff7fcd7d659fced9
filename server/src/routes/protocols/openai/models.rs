//! `GET /v1/models`: the agents of the server.

use axum::Json;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use loopwright_host::SessionSettings;
use schemars::JsonSchema;
use serde::Serialize;

use crate::access::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::server::Server;

/// The agents, as models of the OpenAI API.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OpenAiModels")]
pub(crate) struct ModelPage {
    object: &'static str,
    /// The agents, the default one first.
    data: Vec<Model>,
}

/// An agent, as a model of the OpenAI API.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "OpenAiModel")]
pub(crate) struct Model {
    /// The agent's name.
    id: String,
    object: &'static str,
    /// Always 0: the creation time of an agent is unknown.
    created: u64,
    owned_by: &'static str,
}

impl Model {
    fn named(name: &str) -> Self {
        Model { id: name.to_owned(), object: "model", created: 0, owned_by: "loopwright" }
    }
}

pub(super) async fn list(State(server): State<Server>, _: Caller) -> Json<ModelPage> {
    let data = server.shared().agents.names().map(Model::named).collect();
    Json(ModelPage { object: "list", data })
}

pub(super) async fn retrieve(
    State(server): State<Server>,
    _: Caller,
    name: Result<Path<String>, PathRejection>,
) -> Result<Json<Model>, ApiError> {
    let name = name.map_or(String::new(), |Path(name)| name); // an invalid name matches nothing
    let mut settings = SessionSettings::new();
    settings.agent = Some(name.clone());
    match server.shared().agents.has(&settings) {
        true => Ok(Json(Model::named(&name))),
        false => Err(unknown("")),
    }
}

/// Returns the error for a model that is no agent of the server. `path` is its position in the
/// request.
pub(super) fn unknown(path: &str) -> ApiError {
    let why = "There is no agent of this name: `GET /v1/models` lists them.";
    ApiError::new(ErrorKind::UnknownAgent, why).with_status(StatusCode::NOT_FOUND).with_path(path)
}
