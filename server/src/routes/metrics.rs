//! `GET /metrics`: the server's statistics for Prometheus.

use axum::Router;
use axum::extract::State;
use axum::http::header;
use axum::response::IntoResponse;
use axum::routing::get;

use crate::access::{Caller, check_metrics};
use crate::error::ApiError;
use crate::server::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/metrics", get(metrics))
}

async fn metrics(
    State(server): State<Server>,
    caller: Caller,
) -> Result<impl IntoResponse, ApiError> {
    check_metrics(&server, &caller).await?;
    let shared = server.shared();
    let content_type = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((content_type, shared.metrics.text(shared.live.count())))
}
