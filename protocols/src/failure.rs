//! [`RunFailure`]: the reason why a run has no complete answer, for the user of a protocol.

use loopwright_core::event::{RunOutcome, RunStatus};
use serde::Serialize;
use serde_json::Value;

/// The reason why a run has no complete answer.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunFailure {
    /// The kind in `snake_case`: the model's error, the incomplete reply, or the end of the run.
    pub kind: String,
    /// A text for the user.
    pub message: String,
}

impl RunFailure {
    /// Builds a failure of this kind, with a text for the user.
    pub fn new(kind: impl Into<String>, message: impl Into<String>) -> Self {
        RunFailure { kind: kind.into(), message: message.into() }
    }

    /// Returns the failure of a run, or `None` if the run has a complete answer. Waiting for a
    /// decision counts as a failure, for protocols that cannot send one.
    pub fn of(outcome: &RunOutcome) -> Option<Self> {
        if let Some(incomplete) = &outcome.incomplete {
            return Some(RunFailure::new(name(incomplete), incomplete.to_string()));
        }
        let kind = match (outcome.end, outcome.model_error) {
            (RunStatus::Done | RunStatus::Sleeping, _) => return None,
            (RunStatus::Error, Some(kind)) => name(&kind),
            (RunStatus::Error, None) => "internal".to_owned(),
            (end, _) => name(&end),
        };
        let message = match (&outcome.error, outcome.end) {
            (Some(error), _) => error.to_string(),
            (None, RunStatus::Limit) => {
                "A limit of the run is reached; what was done so far remains.".to_owned()
            }
            (None, RunStatus::Aborted) => "The run was aborted.".to_owned(),
            (None, RunStatus::AwaitingAction) => {
                "The run waits for an approval, which cannot be given here.".to_owned()
            }
            (None, _) => "The run failed.".to_owned(),
        };
        Some(RunFailure { kind, message })
    }

    /// Returns the message with a capital letter and a full stop.
    pub(crate) fn sentence(&self) -> String {
        let mut letters = self.message.chars();
        let first = letters.next().into_iter().flat_map(char::to_uppercase);
        let mut text: String = first.chain(letters).collect();
        if !text.ends_with(['.', '!', '?']) {
            text.push('.');
        }
        text
    }
}

/// Returns the serialised name of a variant.
fn name(variant: &impl Serialize) -> String {
    match serde_json::to_value(variant) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}
