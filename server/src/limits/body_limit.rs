//! Limits of request bodies: size, time, and the total size of all bodies in memory.

use std::time::Duration;

use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::request::Parts;
use axum::http::{StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use loopwright_core::json::has_more_values;
use tokio::sync::{Semaphore, SemaphorePermit};

use crate::error::{ApiError, ErrorKind};
use crate::server::Server;

/// Maximum size of the headers and the address together.
const MAX_HEAD_BYTES: usize = 32 * 1024;
/// Maximum number of values in a body. Parsing so many takes some tens of milliseconds, during
/// which a worker thread of the runtime does nothing else. An image counts as one.
const MAX_VALUES: usize = 200_000;
/// Timeout for the arrival of a body.
const BODY_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads each body completely before its route is called. The total size of all bodies is bounded:
/// a body reserves its share as it arrives, and releases it when the route has returned.
pub(crate) async fn limit_bodies(
    State(server): State<Server>,
    request: Request,
    next: Next,
) -> Response {
    let shared = server.shared();
    let mut permit = None;
    match read(request, shared.limits.body, &shared.bodies, &mut permit).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn read<'a>(
    request: Request,
    limit: usize,
    bodies: &'a Semaphore,
    permit: &mut Option<SemaphorePermit<'a>>,
) -> Result<Request, ApiError> {
    let (head, body) = request.into_parts();
    check_head(&head, limit)?;
    let mut body = Limited::new(body, limit);
    let mut bytes = Vec::new();
    let reading = async {
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(|error| match error.is::<LengthLimitError>() {
                true => too_large(limit),
                false => ApiError::new(ErrorKind::BadRequest, "The body is incomplete."),
            })?;
            let Ok(chunk) = frame.into_data() else {
                continue;
            };
            let acquired = u32::try_from(chunk.len())
                .ok()
                .and_then(|length| bodies.try_acquire_many(length).ok());
            match (acquired, &mut *permit) {
                (Some(acquired), Some(permit)) => permit.merge(acquired),
                (Some(acquired), permit) => *permit = Some(acquired),
                (None, _) => {
                    let why = "Too many large requests come at once: try again in a moment.";
                    return Err(ApiError::new(ErrorKind::TooMany, why));
                }
            }
            bytes.extend_from_slice(&chunk);
        }
        Ok(())
    };
    tokio::time::timeout(BODY_TIMEOUT, reading)
        .await
        .map_err(|_| ApiError::new(ErrorKind::BadRequest, "The body took too long to arrive."))??;
    // RFC 8259, section 8.1, allows to ignore it. Alone it is no JSON, and not an empty body.
    let mark = "\u{feff}".as_bytes();
    if bytes.starts_with(mark) && bytes.len() > mark.len() {
        bytes.drain(..mark.len());
    }
    if has_more_values(&bytes, MAX_VALUES) {
        let why = format!("The body has more than {MAX_VALUES} JSON values.");
        return Err(ApiError::new(ErrorKind::TooLarge, why));
    }
    Ok(Request::from_parts(head, Body::from(bytes)))
}

/// Returns an error if the head is too large or announces a body that is too large.
fn check_head(head: &Parts, max_body: usize) -> Result<(), ApiError> {
    let headers = head.headers.iter().map(|(name, value)| name.as_str().len() + value.len());
    if headers.sum::<usize>() + head.uri.to_string().len() > MAX_HEAD_BYTES {
        let why = format!("The headers and the address are larger than {MAX_HEAD_BYTES} bytes.");
        return Err(ApiError::new(ErrorKind::TooLarge, why)
            .with_status(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE));
    }
    let length = head.headers.get(header::CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
    match length.is_some_and(|length| length > max_body as u64) {
        true => Err(too_large(max_body)),
        false => Ok(()),
    }
}

fn too_large(limit: usize) -> ApiError {
    ApiError::new(ErrorKind::TooLarge, format!("The body is larger than {limit} bytes."))
}
