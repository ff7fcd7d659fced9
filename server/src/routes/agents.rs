//! `GET /api/agents`: the agents of the server.

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;

use crate::server::Server;

/// The agents of the server, the default one first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentList {
    agents: Vec<AgentEntry>,
}

/// An agent of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct AgentEntry {
    /// The name, for `agent` of a new session.
    name: String,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/agents", get(list))
}

async fn list(State(server): State<Server>) -> Json<AgentList> {
    let names = server.shared().agents.names();
    Json(AgentList { agents: names.map(|name| AgentEntry { name: name.to_owned() }).collect() })
}
