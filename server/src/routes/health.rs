//! `GET /healthz` and `GET /readyz`: whether the server is alive, and whether it accepts work.

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use schemars::JsonSchema;
use serde::Serialize;

use crate::server::Server;

/// The state of the server.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Health {
    /// `ok`, `draining` while it shuts down, or `store` while sessions cannot be stored.
    status: &'static str,
    /// The version of the server.
    version: &'static str,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/healthz", get(health)).route("/readyz", get(ready))
}

/// Returns whether a path is one of these routes. They are public, and also answered for clients
/// that have used up their connections.
pub(crate) fn is_health_path(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Reports that the process is alive. It still is while it shuts down or its disk is full.
async fn health() -> Json<Health> {
    Json(Health::of("ok"))
}

async fn ready(State(server): State<Server>) -> (StatusCode, Json<Health>) {
    let shared = server.shared();
    if shared.drain.is_draining() {
        return (StatusCode::SERVICE_UNAVAILABLE, Json(Health::of("draining")));
    }
    match shared.readiness.is_writable(&*shared.store).await {
        true => (StatusCode::OK, Json(Health::of("ok"))),
        false => (StatusCode::SERVICE_UNAVAILABLE, Json(Health::of("store"))),
    }
}

impl Health {
    fn of(status: &'static str) -> Self {
        Health { status, version: env!("CARGO_PKG_VERSION") }
    }
}
