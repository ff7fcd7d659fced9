//! [`StepEnd`], the end of a pattern's step.

/// The way a pattern ends a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepEnd {
    /// The agent finished.
    Done,
    /// Tool calls wait for decisions.
    AwaitingAction,
    /// The agent continues when a timer rings or an event arrives; see
    /// [`StepContext::sleep_until`](crate::StepContext::sleep_until) and
    /// [`StepContext::wait_for_event`](crate::StepContext::wait_for_event).
    Sleeping,
}
