//! What both APIs read of the outcome of a run.

use loopwright_core::event::{IncompleteReply, RunOutcome};
use loopwright_core::message::Usage;
use schemars::JsonSchema;
use serde::Serialize;

/// What a part of the input tokens is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiInputTokens")]
pub(super) struct InputTokens {
    cached_tokens: u64,
}

/// What a part of the output tokens is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiOutputTokens")]
pub(super) struct OutputTokens {
    reasoning_tokens: u64,
}

impl From<&Usage> for InputTokens {
    fn from(usage: &Usage) -> Self {
        InputTokens { cached_tokens: usage.cache_read }
    }
}

impl From<&Usage> for OutputTokens {
    fn from(usage: &Usage) -> Self {
        OutputTokens { reasoning_tokens: usage.reasoning }
    }
}

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
