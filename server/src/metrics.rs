//! `GET /metrics`: what the server has done, for Prometheus.

use axum::Router;

use crate::config::Server;

/// What is counted.
#[derive(Default)]
pub(crate) struct Metrics;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
}
