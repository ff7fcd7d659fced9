//! The error of a command that cannot start or continue: one sentence for the user.

use std::fmt;

use loopwright_core::agent::AgentError;
use loopwright_core::log::MemoryError;
use loopwright_core::model::ModelError;
use loopwright_tools::WorkspaceError;

use crate::wording::sentence;

/// A sentence that says what is wrong and what the user can do about it.
#[derive(Debug)]
pub(crate) struct StartError(pub(crate) String);

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<ModelError> for StartError {
    fn from(error: ModelError) -> Self {
        StartError(error.message)
    }
}

impl From<AgentError> for StartError {
    fn from(error: AgentError) -> Self {
        StartError(format!("The agent could not be started: {error}."))
    }
}

impl From<WorkspaceError> for StartError {
    fn from(error: WorkspaceError) -> Self {
        StartError(format!("{error}. Give an existing directory with --root DIR."))
    }
}

impl From<MemoryError> for StartError {
    fn from(error: MemoryError) -> Self {
        StartError(sentence(&error.to_string()))
    }
}
