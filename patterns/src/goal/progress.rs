//! The position of a goal in the log, and the event at the end of its work.

use std::sync::Arc;

use loopwright_core::limits::Limit;
use loopwright_core::message::{MessageId, MessageKind};
use loopwright_core::{AgentEvent, StepContext, StepError};
use serde::{Deserialize, Serialize};

/// The kind of the event.
const KIND: &str = "goal";

/// The end of the work toward a goal, as an event of kind `goal`. A run that did not reach its goal
/// ends with [`RunStatus::Done`](loopwright_core::event::RunStatus::Done) as well, since the model
/// has answered.
///
/// ```
/// use loopwright_core::AgentEvent;
/// use loopwright_patterns::GoalEnd;
/// use serde_json::json;
///
/// let data = json!({ "goal": "goal", "reached": false, "rounds": 10 });
/// let event = AgentEvent::Custom { kind: "goal".into(), data: data.into() };
/// assert!(GoalEnd::of(&event).is_some_and(|end| !end.reached && end.rounds == 10));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GoalEnd {
    /// The [key](crate::Goal::key) of the goal.
    pub goal: Arc<str>,
    /// `true` if the goal is reached.
    pub reached: bool,
    /// The number of rounds so far, for this request of the user.
    pub rounds: u32,
}

impl GoalEnd {
    /// Reads the end of the work from an event, or returns `None` if the event says something else.
    pub fn of(event: &AgentEvent) -> Option<Self> {
        match event {
            AgentEvent::Custom { kind, data } if **kind == *KIND => {
                GoalEnd::deserialize(&**data).ok()
            }
            _ => None,
        }
    }
}

/// The rounds so far, and the last message when the work was over, if it is.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) round: u32,
    pub(crate) over: Option<MessageId>,
    /// `true` if the goal was reached then.
    #[serde(default)]
    reached: bool,
    /// `true` once the event was emitted.
    #[serde(default)]
    is_emitted: bool,
}

/// Begins another round, with the step's next entry.
pub(crate) fn next_round(
    step: &mut StepContext<'_>,
    key: &str,
    round: u32,
) -> Result<(), StepError> {
    step.set_state(key, Progress { round, ..Progress::default() })
}

/// Ends the work, with the step's next entry.
pub(crate) fn end(
    step: &mut StepContext<'_>,
    key: &str,
    round: u32,
    reached: bool,
) -> Result<(), StepError> {
    let over = step.messages().next_back().map(|message| message.id);
    step.set_state(key, Progress { round, over, reached, is_emitted: false })
}

/// Emits the event, once for each end of the work.
pub(crate) async fn emit(step: &mut StepContext<'_>, key: &str) -> Result<(), StepError> {
    let progress: Progress = step.state(key).unwrap_or_default();
    let Progress { round: rounds, reached, is_emitted, .. } = progress;
    if is_emitted {
        return Ok(());
    }
    step.set_state(key, Progress { is_emitted: true, ..progress })?;
    step.emit(KIND, GoalEnd { goal: key.into(), reached, rounds }).await
}

/// Returns whether the work has ended at the goal.
pub(crate) fn is_reached(step: &StepContext<'_>, key: &str) -> bool {
    step.state(key).is_some_and(|progress: Progress| progress.reached)
}

/// Returns whether the user has sent a message since this one.
pub(crate) fn is_new(step: &StepContext<'_>, at: MessageId) -> bool {
    let mut since = step.messages().rev().take_while(|message| message.id > at);
    since.any(|message| matches!(message.body, MessageKind::User(_)))
}

/// Returns whether the work is over at this limit, and the pattern can still answer.
pub(crate) fn is_over(limit: Limit) -> bool {
    matches!(limit, Limit::Part(_) | Limit::RepeatedCalls)
}
