//! The common error body of all routes.

mod from_core;

use std::fmt;

use axum::http::{StatusCode, header};
use axum::response::{AppendHeaders, IntoResponse, Response};
use axum::{Extension, Json};
use schemars::JsonSchema;
use serde::Serialize;

/// The default delay before a refused client tries again, in seconds.
pub(crate) const RETRY_AFTER_SECONDS: u64 = 2;

/// The reason that a request was refused.
#[derive(Debug, Clone, Serialize, JsonSchema)]
pub(crate) struct ApiError {
    kind: ErrorKind,
    /// A sentence: what was wrong, and what to do.
    message: String,
    /// The position in the body, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// The status, if it differs from the kind's default.
    #[serde(skip)]
    status: Option<StatusCode>,
    /// The delay before the next attempt, in seconds, if it is known.
    #[serde(skip)]
    retry_after: Option<u64>,
}

/// The body of a response that refuses a request.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ErrorBody {
    pub(crate) error: ApiError,
}

/// The kinds of errors, each with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum ErrorKind {
    BadRequest,
    Unauthorized,
    Forbidden,
    /// The operator's rules do not allow it.
    NotAllowed,
    /// The server's token is missing or wrong.
    Token,
    NotFound,
    Conflict,
    /// A run is in progress in the session.
    RunInProgress,
    /// The session's agent is not one of this server's.
    UnknownAgent,
    /// A reader names an event that the session does not have.
    AfterTheEnd,
    TooLarge,
    TooMany,
    Draining,
    /// The process that has the session open does not answer; the input waits for it.
    Unanswered,
    Internal,
}

impl ErrorKind {
    fn status(self) -> StatusCode {
        match self {
            ErrorKind::BadRequest => StatusCode::BAD_REQUEST,
            ErrorKind::Unauthorized | ErrorKind::Token => StatusCode::UNAUTHORIZED,
            ErrorKind::Forbidden | ErrorKind::NotAllowed => StatusCode::FORBIDDEN,
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Conflict
            | ErrorKind::RunInProgress
            | ErrorKind::UnknownAgent
            | ErrorKind::AfterTheEnd => StatusCode::CONFLICT,
            ErrorKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            ErrorKind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            ErrorKind::Draining => StatusCode::SERVICE_UNAVAILABLE,
            ErrorKind::Unanswered => StatusCode::GATEWAY_TIMEOUT,
            ErrorKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl ApiError {
    /// Returns an error of this kind; `message` is a sentence.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        ApiError { kind, message: message.into(), path: None, status: None, retry_after: None }
    }

    /// Returns the error of a body that is invalid at `path`, a JSON pointer.
    pub(crate) fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        ApiError::new(ErrorKind::BadRequest, message).with_path(path)
    }

    /// Returns whether the session can only be read here: its agent is unknown to this server, or
    /// its model is not allowed.
    pub(crate) fn is_read_only(&self) -> bool {
        matches!(self.kind, ErrorKind::UnknownAgent | ErrorKind::NotAllowed)
    }

    /// Returns the status of the response.
    pub(crate) fn status(&self) -> StatusCode {
        self.status.unwrap_or(self.kind.status())
    }

    pub(crate) fn kind(&self) -> ErrorKind {
        self.kind
    }

    pub(crate) fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    /// Replaces the default status of the error's kind.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// Sets the delay after which the request can be accepted, in seconds.
    pub(crate) fn with_retry_after(mut self, seconds: u64) -> Self {
        self.retry_after = Some(seconds);
        self
    }

    /// Returns the delay before the next attempt, in seconds, if the refusal is temporary.
    pub(crate) fn retry_after(&self) -> Option<u64> {
        let usual = (self.kind == ErrorKind::TooMany).then_some(RETRY_AFTER_SECONDS);
        self.retry_after.or(usual)
    }

    /// Removes the position in the body, as the body is of another protocol.
    pub(crate) fn without_path(mut self) -> Self {
        self.path = None;
        self
    }

    /// Adds the position in the body, as a JSON pointer.
    pub(crate) fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }
}

impl fmt::Display for ApiError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl IntoResponse for ApiError {
    /// Adds the error as an extension of the response, and a `Retry-After` header if the refusal is
    /// temporary.
    fn into_response(self) -> Response {
        let (status, error) = (self.status(), self.clone());
        let retry_after =
            self.retry_after().map(|after| [(header::RETRY_AFTER, after.to_string())]);
        let body = Json(ErrorBody { error: self });
        (status, retry_after.map(AppendHeaders), Extension(error), body).into_response()
    }
}
