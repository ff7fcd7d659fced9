//! Details of a run's outcome that both APIs report.

use loopwright_core::event::{IncompleteReply, RunOutcome};
use loopwright_core::message::Usage;
use schemars::JsonSchema;
use serde::Serialize;

/// The details of the input tokens.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "OpenAiInputTokens")]
pub(super) struct InputTokens {
    cached_tokens: u64,
}

/// The details of the output tokens.
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

/// Returns the reason why the answer was cut off, if the run failed because of that.
pub(super) fn incomplete(outcome: &RunOutcome) -> Option<&'static str> {
    match outcome.incomplete {
        Some(IncompleteReply::Length) => Some("max_output_tokens"),
        Some(IncompleteReply::ContentFilter) => Some("content_filter"),
        _ => None,
    }
}

/// Returns the answer of a run with a schema: the value, or the text if the value is missing.
pub(super) fn typed_answer(outcome: &RunOutcome) -> String {
    outcome.value.as_ref().map_or_else(|| outcome.text.clone(), |value| value.to_string())
}

/// Returns the number of input tokens, including tokens read from and written to the cache.
pub(super) fn input_tokens(usage: &Usage) -> u64 {
    usage.total().saturating_sub(usage.output)
}
