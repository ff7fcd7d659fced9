//! [`AgentRejection`]: the reason that no agent can be built with a client's settings.

use std::fmt;

use loopwright_core::agent::AgentError;
use loopwright_core::model::ModelError;
use loopwright_protocols::DecodeError;

/// The reason, for the client, that no agent can be built with its settings.
#[derive(Debug, Clone)]
pub struct AgentRejection {
    kind: RejectionKind,
    /// The position in the settings, as a JSON pointer.
    path: Option<String>,
    message: String,
}

/// The kinds of rejections. A server answers each with a status. The enum is exhaustive, because a
/// front end must know each kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RejectionKind {
    /// A setting is invalid: status 400.
    BadRequest,
    /// The key of a model is wrong or missing: status 401.
    Unauthorized,
    /// The operator does not allow a setting: status 403.
    NotAllowed,
    /// The session's agent is not one of this host's: status 409.
    UnknownAgent,
    /// The agent cannot be built with any settings: status 500.
    Internal,
}

impl AgentRejection {
    fn new(kind: RejectionKind, path: Option<String>, message: impl Into<String>) -> Self {
        AgentRejection { kind, path, message: message.into() }
    }

    /// Rejects a setting with status 400. `path` is a JSON pointer into the request's body, such as
    /// `/workDir`. `message` is a sentence that says what is wrong and what to do.
    pub fn bad_request(path: impl Into<String>, message: impl Into<String>) -> Self {
        AgentRejection::new(RejectionKind::BadRequest, Some(path.into()), message)
    }

    /// Rejects a key of a model, or its absence, with status 401.
    pub fn unauthorized(path: impl Into<String>, message: impl Into<String>) -> Self {
        AgentRejection::new(RejectionKind::Unauthorized, Some(path.into()), message)
    }

    /// Rejects with status 403 a setting that the operator of the server does not allow.
    pub fn not_allowed(path: impl Into<String>, message: impl Into<String>) -> Self {
        AgentRejection::new(RejectionKind::NotAllowed, Some(path.into()), message)
    }

    /// Rejects with status 409 a session whose agent is not one of this host's.
    pub(crate) fn unknown_agent(message: impl Into<String>) -> Self {
        AgentRejection::new(RejectionKind::UnknownAgent, None, message)
    }

    /// Reports with status 500 that the agent cannot be built with any settings.
    pub fn internal(message: impl Into<String>) -> Self {
        AgentRejection::new(RejectionKind::Internal, None, message)
    }

    /// Returns the kind.
    pub fn kind(&self) -> RejectionKind {
        self.kind
    }

    /// Returns the JSON pointer to the rejected setting, if there is one.
    pub fn path(&self) -> Option<&str> {
        self.path.as_deref()
    }

    /// Returns the sentence that says what is wrong and what to do.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for AgentRejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.path {
            Some(path) => write!(f, "{path}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

impl std::error::Error for AgentRejection {}

/// Converts the error of an agent that cannot be built with any settings. Also a failed store has
/// status 500.
impl From<AgentError> for AgentRejection {
    fn from(error: AgentError) -> Self {
        tracing::error!(%error, "an agent cannot be built");
        AgentRejection::internal(format!("The agent cannot be built: {error}."))
    }
}

/// Converts the error of a model that works with no settings.
impl From<ModelError> for AgentRejection {
    fn from(error: ModelError) -> Self {
        AgentRejection::internal(error.message)
    }
}

/// Converts the error of settings of the wrong form.
impl From<DecodeError> for AgentRejection {
    fn from(error: DecodeError) -> Self {
        AgentRejection::bad_request(error.path, error.message)
    }
}
