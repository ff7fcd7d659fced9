//! A line for each request in the log, and its count in the metrics.

use std::net::SocketAddr;

use axum::extract::{ConnectInfo, Request, State};
use axum::middleware::Next;
use axum::response::Response;
use tokio::time::Instant;

use crate::error::ApiError;
use crate::server::Server;
use crate::telemetry::observer::enum_name;

/// Logs a request without its query when the head of its response is ready, and counts it.
pub(super) async fn log(State(server): State<Server>, request: Request, next: Next) -> Response {
    let start = Instant::now();
    let (method, path) = (request.method().clone(), request.uri().path().to_owned());
    let client = request.extensions().get::<ConnectInfo<SocketAddr>>();
    let client = client.map(|ConnectInfo(address)| address.ip());
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let error = response.extensions().get::<ApiError>();
    let kind = error.map(|error| enum_name(&error.kind()));
    let metrics = &server.shared().metrics;
    metrics.response(status);
    if let Some(kind) = &kind {
        metrics.refusal(kind);
    }
    let milliseconds = start.elapsed().as_millis();
    tracing::debug!(?client, %method, path, status, kind, milliseconds, "a request was answered");
    response
}
