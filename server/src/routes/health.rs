//! `GET /healthz`: whether the server accepts work.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;

use crate::server::Server;

/// Whether the server accepts work.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, or `draining` while it shuts down.
    status: &'static str,
    /// Its version.
    version: &'static str,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/healthz", get(health))
}

async fn health(State(server): State<Server>) -> (StatusCode, Json<Health>) {
    let (code, status) = match server.shared().drain.is_draining() {
        true => (StatusCode::SERVICE_UNAVAILABLE, "draining"),
        false => (StatusCode::OK, "ok"),
    };
    (code, Json(Health { status, version: env!("CARGO_PKG_VERSION") }))
}
