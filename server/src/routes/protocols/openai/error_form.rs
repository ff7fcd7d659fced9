//! [`error_form`]: OpenAI's error format for the paths of its API.

use axum::Json;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use loopwright_protocols::openai::ErrorBody;

use crate::error::{ApiError, ErrorKind};
use crate::telemetry::observer::enum_name;

/// Converts errors of `/v1/…` to the format of the API. The official clients take the message from
/// it. They derive the class of their exception from the status.
pub(crate) async fn error_form(request: Request, next: Next) -> Response {
    let is_ours = request.uri().path().starts_with("/v1/");
    let mut response = next.run(request).await;
    if !is_ours {
        return response;
    }
    let Some(error) = response.extensions_mut().remove::<ApiError>() else {
        return response;
    };
    let (status, code) = match error.kind() {
        ErrorKind::Token => (error.status(), "invalid_api_key".to_owned()),
        ErrorKind::UnknownAgent => (error.status(), "model_not_found".to_owned()),
        ErrorKind::TooMany => (error.status(), "rate_limit_exceeded".to_owned()),
        kind => (error.status(), enum_name(&kind)),
    };
    let path = error.path().unwrap_or_default();
    let body = ErrorBody::new(status.as_u16(), error.message(), &code, path);
    let (mut head, _) = response.into_parts();
    head.status = status;
    head.headers.remove(axum::http::header::CONTENT_LENGTH);
    head.headers.remove(axum::http::header::CONTENT_TYPE);
    (head, Json(body)).into_response()
}
