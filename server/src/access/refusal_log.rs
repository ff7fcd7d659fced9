//! A warning for each refused request, with the caller, the client and the reason.

use std::fmt::Display;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::Response;

use crate::access::caller_of;
use crate::error::{ApiError, ErrorKind};
use crate::limits::quota::Client;
use crate::server::Server;
use crate::telemetry::observer::enum_name;

/// Warns of requests that are forbidden, exceed a quota, or are too large. It runs inside the
/// layers that identify the caller, including a host's layers.
pub(crate) async fn log_refusals(
    State(server): State<Server>,
    request: Request,
    next: Next,
) -> Response {
    let caller = caller_of(request.extensions(), &server).ok();
    let client = Client::of_request(request.extensions());
    let (method, uri) = (request.method().clone(), request.uri().clone());
    let response = next.run(request).await;
    if let Some(error) = response.extensions().get::<ApiError>().filter(|error| is_refusal(error)) {
        let caller = caller.as_ref().map_or(&"unnamed" as &dyn Display, |caller| caller);
        let (client, path, kind) = (client.0, uri.path(), enum_name(&error.kind()));
        tracing::warn!(%caller, ?client, %method, path, kind, %error, "a request was refused");
    }
    response
}

fn is_refusal(error: &ApiError) -> bool {
    matches!(
        error.kind(),
        ErrorKind::Forbidden | ErrorKind::NotAllowed | ErrorKind::TooMany | ErrorKind::TooLarge
    )
}
