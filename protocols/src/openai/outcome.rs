//! What both APIs read of the outcome of a run.

use loopwright_core::event::{IncompleteReply, RunOutcome};
use loopwright_core::message::Usage;

/// Returns why an answer is cut off, if that is why its run failed.
pub(super) fn incomplete(outcome: &RunOutcome) -> Option<&'static str> {
    match outcome.incomplete {
        Some(IncompleteReply::Length) => Some("max_output_tokens"),
        Some(IncompleteReply::ContentFilter) => Some("content_filter"),
        _ => None,
    }
}

/// Returns the answer of a run that has a schema: its value, or what there is of it.
pub(super) fn typed_answer(outcome: &RunOutcome) -> String {
    outcome.value.as_ref().map_or_else(|| outcome.text.clone(), |value| value.to_string())
}

/// Returns the tokens of the input, with those that the cache has read and written.
pub(super) fn input_tokens(usage: &Usage) -> u64 {
    usage.total().saturating_sub(usage.output)
}
