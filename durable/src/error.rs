//! Errors.

use loopwright_core::agent::{AgentError, InputError};
use loopwright_core::log::{InvalidSchedule, MemoryError};

/// The error of an operation of a cluster.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum ClusterError {
    /// The store failed, or refused the operation.
    #[error(transparent)]
    Memory(#[from] MemoryError),
    /// The session refused the input.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The agent could not open the session.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The session has no agent, for this reason.
    #[error("the session has no agent here: {0}")]
    NoAgent(String),
    /// The placement failed.
    #[error(transparent)]
    Placement(#[from] PlacementError),
    /// The input is durable, but the placement could not be asked to handle it.
    #[error("the input was posted, but no worker could be woken for it: {0}; send it again")]
    NotWoken(PlacementError),
    /// The application could not open the session, for this reason.
    #[error("{0}")]
    Host(String),
    /// The worker is shutting down and opens no more sessions.
    #[error("this worker shuts down: another one opens the session")]
    Draining,
    /// The worker has its maximum of open sessions.
    #[error("this worker has {0} sessions open already: another one opens the session")]
    Full(usize),
    /// The schedule cannot be carried out.
    #[error(transparent)]
    Schedule(#[from] InvalidSchedule),
}

/// The error of a placement.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PlacementError(String);

impl PlacementError {
    /// Returns an error with this text, which says what failed, where, and what to do.
    pub fn new(why: impl Into<String>) -> Self {
        PlacementError(why.into())
    }
}
