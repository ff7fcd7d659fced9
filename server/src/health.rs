//! `GET /healthz`: whether the server is there, and takes work.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;

use crate::config::Server;

/// Whether the server takes work.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, or `draining` when it is about to end.
    status: &'static str,
    /// Its version.
    version: &'static str,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/healthz", get(health))
}

async fn health(State(server): State<Server>) -> (StatusCode, Json<Health>) {
    let draining = server.shared().drain.is_draining();
    let (code, status) = if draining {
        (StatusCode::SERVICE_UNAVAILABLE, "draining")
    } else {
        (StatusCode::OK, "ok")
    };
    (code, Json(Health { status, version: env!("CARGO_PKG_VERSION") }))
}
