//! [`StepEnd`]: how a pattern ends a step.

/// Says how a pattern ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepEnd {
    /// The agent finished.
    Done,
    /// Calls wait for decisions.
    AwaitingAction,
}
