//! [`StepEnd`], the end of a pattern's step.

/// The way a pattern ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepEnd {
    /// The agent finished.
    Done,
    /// Tool calls wait for decisions.
    AwaitingAction,
    /// The agent continues when a timer rings; see
    /// [`StepContext::sleep_until`](crate::StepContext::sleep_until).
    Sleeping,
}
