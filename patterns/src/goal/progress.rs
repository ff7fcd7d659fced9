//! The position of a goal in the log, and the events about its work.

use std::sync::Arc;

use loopwright_core::limits::Limit;
use loopwright_core::message::{MessageId, MessageKind};
use loopwright_core::{AgentEvent, StepContext, StepError};
use serde::{Deserialize, Serialize};

/// The kinds of the events at the end, and after a round that did not reach the goal.
const KIND: &str = "goal";
const PROGRESS: &str = "goal_progress";

/// The maximum number of notes on earlier rounds in a message.
const MAX_NOTES: usize = 10;
/// The length of a note that is cut: a command says at its end how it has failed.
const FIRST_CHARS: usize = 60;
const LAST_CHARS: usize = 140;

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

/// A round that did not reach the goal, as an event of kind `goal_progress`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct GoalProgress {
    /// The [key](crate::Goal::key) of the goal.
    pub goal: Arc<str>,
    /// The number of the round, counted from one for each request of the user.
    pub round: u32,
    /// The maximum number of rounds.
    pub rounds: u32,
    /// The parts that are missing, or the result of the call, on one line of about 200 characters.
    pub why: String,
}

impl GoalProgress {
    /// Reads the end of a round from an event, or returns `None` if the event says something else.
    pub fn of(event: &AgentEvent) -> Option<Self> {
        match event {
            AgentEvent::Custom { kind, data } if **kind == *PROGRESS => {
                GoalProgress::deserialize(&**data).ok()
            }
            _ => None,
        }
    }
}

/// The rounds so far, and the last message when the work was over, if it is.
#[derive(Default, Clone, Serialize, Deserialize)]
pub(crate) struct Progress {
    pub(crate) round: u32,
    pub(crate) over: Option<MessageId>,
    /// `true` if the goal was reached then.
    #[serde(default)]
    reached: bool,
    /// `true` once the event was emitted.
    #[serde(default)]
    is_emitted: bool,
    /// The last message when the event after a round was emitted.
    #[serde(default)]
    noted: Option<MessageId>,
    /// The notes on the last rounds, one line each.
    #[serde(default)]
    notes: Vec<String>,
}

/// Ends a round that did not reach the goal: emits the event, once, and begins another round with
/// the step's next entry. Returns the message that sends the other pattern back.
pub(crate) async fn note(
    step: &mut StepContext<'_>,
    key: &str,
    rounds: u32,
    why: &str,
) -> Result<String, StepError> {
    let mut progress: Progress = step.state(key).unwrap_or_default();
    let (round, note, noted) = (progress.round + 1, line(why), last_message(step));
    if progress.noted != noted {
        progress.noted = noted;
        step.set_state(key, &progress)?;
        let (goal, rounds, why) = (key.into(), rounds.max(round), note.clone());
        step.emit(PROGRESS, GoalProgress { goal, round, rounds, why }).await?;
    }
    let mut text = format!("The goal is not reached yet. Go on.\n\n{why}");
    let mut notes = progress.notes;
    if !notes.is_empty() {
        text.push_str(&format!("\n\nEarlier rounds:\n{}", notes.join("\n")));
    }
    notes.push(format!("{round}. {note}"));
    notes.drain(..notes.len().saturating_sub(MAX_NOTES));
    step.set_state(key, Progress { round, noted, notes, ..Progress::default() })?;
    Ok(text)
}

/// Returns a text on one line, without its middle if it is long.
fn line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let at = |char| line.char_indices().nth(char).map_or(line.len(), |(at, _)| at);
    let chars = line.chars().count();
    match chars > FIRST_CHARS + LAST_CHARS {
        true => format!("{} … {}", &line[..at(FIRST_CHARS)], &line[at(chars - LAST_CHARS)..]),
        false => line,
    }
}

fn last_message(step: &StepContext<'_>) -> Option<MessageId> {
    step.messages().next_back().map(|message| message.id)
}

/// Ends the work, with the step's next entry.
pub(crate) fn end(
    step: &mut StepContext<'_>,
    key: &str,
    round: u32,
    reached: bool,
) -> Result<(), StepError> {
    let (over, progress) = (last_message(step), step.state(key).unwrap_or_default());
    step.set_state(key, Progress { round, over, reached, is_emitted: false, ..progress })
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
