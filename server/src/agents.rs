//! [`Agents`]: where a server gets the agents from that it runs.

use std::fmt;

use async_trait::async_trait;
use loopwright_core::GenericAgent;
use loopwright_core::agent::AgentError;

use crate::error::{ApiError, ErrorKind};
use crate::settings::{ChatSettings, SessionSettings};

/// Builds the agents that a [`Server`](crate::Server) runs.
///
/// A [`GenericAgent`] implements it: then every session and every request has that one agent, and
/// what the client says of model, directory and approvals is ignored. `CodingAgents` (with the
/// feature `coding-agent`) builds an agent for each session from the client's settings.
///
/// Both methods may be called concurrently. Their futures are dropped when the client closes the
/// connection, so they must not leave anything behind that only a completed call cleans up.
#[async_trait]
pub trait Agents: Send + Sync {
    /// Builds the agent of a live session.
    ///
    /// It is called when the session is created, and each time it is opened again, possibly by
    /// another process. It should return an equivalent agent for equal settings.
    ///
    /// # Errors
    /// Returns an [`AgentRejection`] for the client if there is no agent with these settings.
    async fn for_session(&self, settings: &SessionSettings)
    -> Result<GenericAgent, AgentRejection>;

    /// Returns the settings of a live session with the defaults filled in that apply to it, for
    /// lists of sessions. It must not do I/O. By default the settings are returned unchanged.
    fn with_defaults(&self, settings: SessionSettings) -> SessionSettings {
        settings
    }

    /// Builds the agent that answers one request to `/api/agent-chat`.
    ///
    /// Nobody can approve a call while the request streams. The agent must therefore run or deny
    /// every call; a run that waits for an approval ends with an error.
    ///
    /// # Errors
    /// Returns an [`AgentRejection`] for the client if there is no agent with these settings.
    async fn for_chat(&self, settings: &ChatSettings) -> Result<GenericAgent, AgentRejection>;
}

#[async_trait]
impl Agents for GenericAgent {
    async fn for_session(&self, _: &SessionSettings) -> Result<GenericAgent, AgentRejection> {
        Ok(self.clone())
    }

    async fn for_chat(&self, _: &ChatSettings) -> Result<GenericAgent, AgentRejection> {
        Ok(self.clone())
    }
}

/// Describes to a client why there is no agent with the settings that it sent.
#[derive(Debug, Clone)]
pub struct AgentRejection(ApiError);

impl AgentRejection {
    /// Rejects a setting with status 400. `path` is a JSON pointer into the request's body, such as
    /// `/workDir`; `message` is a sentence that says what is wrong and what to do.
    pub fn bad_request(path: impl Into<String>, message: impl Into<String>) -> Self {
        AgentRejection(ApiError::at(path, message))
    }

    /// Rejects a key of a model, or its absence, with status 401.
    pub fn unauthorized(path: impl Into<String>, message: impl Into<String>) -> Self {
        AgentRejection(ApiError::new(ErrorKind::Unauthorized, message).with_path(path))
    }

    /// Reports with status 500 that the agent cannot be built, whatever the settings.
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

impl From<AgentRejection> for ApiError {
    fn from(rejection: AgentRejection) -> Self {
        rejection.0
    }
}
