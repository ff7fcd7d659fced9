//! Events of a Responses stream, parsed leniently and without copies.
//!
//! Fields that only some events need are parsed in a second step. Most `response` fields are not
//! used, and an item of an unknown kind may have any shape.

use loopwright_core::message::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::formats::decoding::lenient::{Count, Text};
use crate::formats::decoding::reported_cost::ReportedCost;

/// Prefix of the signature of a text. The text's phase follows: commentary or final answer.
pub(super) const PHASE: &str = "phase:";

/// One event of the stream, or a whole response.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) output_index: Option<Count>,
    #[serde(borrow, default)]
    pub(super) item_id: Text<'a>,
    #[serde(default)]
    pub(super) summary_index: Option<Count>,
    #[serde(default)]
    pub(super) content_index: Option<Count>,
    #[serde(borrow, default)]
    pub(super) delta: Text<'a>,
    #[serde(borrow, default)]
    pub(super) item: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) response: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) message: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) detail: Option<&'a RawValue>,
    /// The object type of a whole response.
    #[serde(borrow, default)]
    pub(super) object: Text<'a>,
}

/// A response, as sent at its end.
#[derive(Deserialize, Default)]
pub(super) struct Response<'a> {
    #[serde(borrow, default)]
    pub(super) status: Text<'a>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) incomplete_details: Option<Incomplete<'a>>,
    #[serde(default)]
    pub(super) usage: Option<RawUsage>,
    #[serde(borrow, default)]
    output: Option<&'a RawValue>,
}

impl<'a> Response<'a> {
    /// Returns all items of the response.
    pub(super) fn items(&self) -> Vec<&'a RawValue> {
        read_or_default(self.output)
    }
}

/// The reason for an incomplete response.
#[derive(Deserialize)]
pub(super) struct Incomplete<'a> {
    #[serde(borrow, default)]
    pub(super) reason: Text<'a>,
}

/// An item of a response: a message, reasoning, or a call.
#[derive(Deserialize, Default)]
pub(super) struct Item<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) call_id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) arguments: Option<&'a RawValue>,
    /// The input of a custom tool call.
    #[serde(borrow, default)]
    pub(super) input: Text<'a>,
    #[serde(borrow, default)]
    pub(super) phase: Text<'a>,
    #[serde(borrow, default)]
    pub(super) encrypted_content: Text<'a>,
    #[serde(borrow, default)]
    summary: Option<&'a RawValue>,
    #[serde(borrow, default)]
    content: Option<&'a RawValue>,
}

impl<'a> Item<'a> {
    /// Returns the parts of a message, or of unsummarised reasoning.
    pub(super) fn content(&self) -> Vec<Part<'a>> {
        read_or_default(self.content)
    }

    /// Returns the parts of a reasoning summary.
    pub(super) fn summary(&self) -> Vec<Part<'a>> {
        read_or_default(self.summary)
    }
}

/// A part of an item.
#[derive(Deserialize)]
pub(super) struct Part<'a> {
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) refusal: Text<'a>,
}

/// Parses this JSON. Returns the default if it has another shape.
pub(super) fn read_or_default<'a, T: Deserialize<'a> + Default>(raw: Option<&'a RawValue>) -> T {
    raw.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default()
}

/// The token counts, as reported.
#[derive(Deserialize)]
pub(super) struct RawUsage {
    #[serde(default)]
    input_tokens: Count,
    #[serde(default)]
    output_tokens: Count,
    #[serde(default)]
    input_tokens_details: Option<InputDetails>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
    #[serde(flatten)]
    cost: ReportedCost,
}

/// The breakdown of the input tokens.
#[derive(Deserialize, Default, Clone, Copy)]
struct InputDetails {
    #[serde(default)]
    cached_tokens: Count,
    #[serde(default)]
    cache_write_tokens: Count,
}

/// The breakdown of the output tokens.
#[derive(Deserialize, Default, Clone, Copy)]
struct OutputDetails {
    #[serde(default)]
    reasoning_tokens: Count,
}

impl From<&RawUsage> for Usage {
    fn from(raw: &RawUsage) -> Usage {
        let input = raw.input_tokens_details.unwrap_or_default();
        let (cache_read, cache_write) = (input.cached_tokens.0, input.cache_write_tokens.0);
        let output = raw.output_tokens.0;
        let reasoning =
            raw.output_tokens_details.unwrap_or_default().reasoning_tokens.0.min(output);
        let input = raw.input_tokens.0.saturating_sub(cache_read.saturating_add(cache_write));
        Usage::new(input, output)
            .cache(cache_read, cache_write)
            .reasoning(reasoning)
            .reported_cost(raw.cost.dollars())
    }
}
