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

impl StartError {
    /// Returns the error for what the program was built without.
    #[cfg(not(all(feature = "fleet", feature = "oidc", feature = "otel", feature = "postgres")))]
    pub(crate) fn without_feature(what: &str, feature: &str) -> StartError {
        StartError(format!(
            "{what} needs the feature `{feature}`, which this program was built without: start it \
             with `cargo run --features full -- …`, or use a released program, which has all \
             features."
        ))
    }
}

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
