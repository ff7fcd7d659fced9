//! [`BatchOutcome`], the outcome of running a batch.

use crate::error::StepError;
use crate::step_end::StepEnd;

/// The outcome of a batch after [`StepContext::call_tools`](crate::StepContext::call_tools).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOutcome {
    /// There were no calls.
    NoCalls,
    /// Every call has its result, and the model should see them.
    Closed,
    /// Every call has its result, and all results ask for the end of the run.
    Terminated,
    /// Some calls wait for a decision.
    AwaitsUser,
}

impl BatchOutcome {
    /// Returns whether calls wait for a decision.
    pub fn awaits_user(self) -> bool {
        self == BatchOutcome::AwaitsUser
    }

    /// Returns the outcome, or ends the step while calls wait for a decision.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Ended`] if calls wait for a decision.
    pub fn or_end(self) -> Result<Self, StepError> {
        match self {
            BatchOutcome::AwaitsUser => Err(StepEnd::AwaitingAction.into()),
            outcome => Ok(outcome),
        }
    }

    /// Returns whether there are results that the model should see.
    pub fn wants_reply(self) -> bool {
        self == BatchOutcome::Closed
    }
}
