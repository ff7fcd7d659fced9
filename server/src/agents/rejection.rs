//! [`AgentRejection`]: the reason that no agent can be built with a client's settings.

use std::fmt;

use loopwright_core::agent::AgentError;
use loopwright_core::model::ModelError;

use crate::error::{ApiError, ErrorKind};

/// The reason, for the client, that no agent can be built with its settings.
#[derive(Debug, Clone)]
pub struct AgentRejection(ApiError);

impl AgentRejection {
    /// Rejects a setting with status 400. `path` is a JSON pointer into the request's body, such as
    /// `/workDir`. `message` is a sentence that says what is wrong and what to do.
    pub fn bad_request(path: impl Into<String>, message: impl Into<String>) -> Self {
        AgentRejection(ApiError::at(path, message))
    }

    /// Rejects a key of a model, or its absence, with status 401.
    pub fn unauthorized(path: impl Into<String>, message: impl Into<String>) -> Self {
        AgentRejection(ApiError::new(ErrorKind::Unauthorized, message).with_path(path))
    }

    /// Rejects with status 403 a setting that the operator of the server does not allow.
    pub fn not_allowed(path: impl Into<String>, message: impl Into<String>) -> Self {
        AgentRejection(ApiError::new(ErrorKind::NotAllowed, message).with_path(path))
    }

    /// Returns the JSON pointer to the rejected setting, if there is one.
    pub fn path(&self) -> Option<&str> {
        self.0.path()
    }

    /// Returns the sentence that says what is wrong and what to do.
    pub fn message(&self) -> &str {
        self.0.message()
    }

    /// Reports with status 500 that the agent cannot be built with any settings.
    pub fn internal(message: impl Into<String>) -> Self {
        AgentRejection(ApiError::new(ErrorKind::Internal, message))
    }
}

impl fmt::Display for AgentRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for AgentRejection {}

impl From<AgentError> for AgentRejection {
    fn from(error: AgentError) -> Self {
        AgentRejection(error.into())
    }
}

/// Converts the error of a model that works with no settings.
impl From<ModelError> for AgentRejection {
    fn from(error: ModelError) -> Self {
        AgentRejection::internal(error.message)
    }
}

impl From<ApiError> for AgentRejection {
    fn from(error: ApiError) -> Self {
        AgentRejection(error)
    }
}

impl From<AgentRejection> for ApiError {
    fn from(rejection: AgentRejection) -> Self {
        rejection.0
    }
}
