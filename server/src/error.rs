//! The one shape of errors, for all routes.

use axum::Json;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use loopwright_core::model::{ModelError, ModelErrorKind};
use schemars::JsonSchema;
use serde::Serialize;

/// Why a request was refused.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ApiError {
    kind: Kind,
    /// A sentence: what was wrong, and what to do.
    message: String,
    /// Where in the body, as a JSON pointer.
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    /// Where that of the kind says less.
    #[serde(skip)]
    status: Option<StatusCode>,
}

/// What is told of an error.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Refused {
    pub(crate) error: ApiError,
}

/// The kinds of errors, each with its status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Kind {
    BadRequest,
    Unauthorized,
    Forbidden,
    /// The server's token is missing or wrong.
    Token,
    NotFound,
    Conflict,
    /// A reader names an event that the session does not have.
    AfterTheEnd,
    TooLarge,
    TooMany,
    Draining,
    Internal,
}

impl Kind {
    pub(crate) fn status(self) -> StatusCode {
        match self {
            Kind::BadRequest => StatusCode::BAD_REQUEST,
            Kind::Unauthorized => StatusCode::UNAUTHORIZED,
            Kind::Forbidden | Kind::Token => StatusCode::FORBIDDEN,
            Kind::NotFound => StatusCode::NOT_FOUND,
            Kind::Conflict | Kind::AfterTheEnd => StatusCode::CONFLICT,
            Kind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
            Kind::TooMany => StatusCode::TOO_MANY_REQUESTS,
            Kind::Draining => StatusCode::SERVICE_UNAVAILABLE,
            Kind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        }
    }
}

impl ApiError {
    /// An error of this kind; `message` is a sentence.
    pub(crate) fn new(kind: Kind, message: impl Into<String>) -> Self {
        ApiError { kind, message: message.into(), path: None, status: None }
    }

    /// A body that is wrong at `path`, a JSON pointer.
    pub(crate) fn at(path: impl Into<String>, message: impl Into<String>) -> Self {
        ApiError::new(Kind::BadRequest, message).with_path(path)
    }

    /// The same error with a status of its own, where that of its kind says less.
    pub(crate) fn with_status(mut self, status: StatusCode) -> Self {
        self.status = Some(status);
        self
    }

    /// The same error, at this place of the body.
    pub(crate) fn with_path(mut self, path: impl Into<String>) -> Self {
        self.path = Some(path.into());
        self
    }
}

/// What a model could not be made of is the client's to mend.
impl From<ModelError> for ApiError {
    fn from(error: ModelError) -> Self {
        let kind =
            if error.kind == ModelErrorKind::Auth { Kind::Unauthorized } else { Kind::BadRequest };
        ApiError::new(kind, error.message)
    }
}

impl IntoResponse for ApiError {
    fn into_response(self) -> Response {
        (self.status.unwrap_or(self.kind.status()), Json(Refused { error: self })).into_response()
    }
}

/// No such path.
pub(crate) async fn no_route() -> ApiError {
    ApiError::new(
        Kind::NotFound,
        "There is nothing at this address; /api/openapi.json lists what there is.",
    )
}

/// No such method of a path that there is.
pub(crate) async fn no_method() -> ApiError {
    let why = "This address does not take this method; /api/openapi.json lists them.";
    ApiError::new(Kind::BadRequest, why).with_status(StatusCode::METHOD_NOT_ALLOWED)
}
