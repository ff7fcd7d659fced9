//! The events of a Messages stream, parsed leniently and without copies.

use loopwright_core::message::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Count, Text};

/// Starts the signature of a redacted thinking block; its data follows.
pub(super) const REDACTED: &str = "redacted:";

/// One event of the stream, or a whole message.
#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Text<'a>,
    #[serde(default)]
    pub(super) index: Count,
    #[serde(default)]
    pub(super) message: Option<Box<Start>>,
    #[serde(borrow, default)]
    pub(super) content_block: Option<Box<Block<'a>>>,
    #[serde(borrow, default)]
    pub(super) delta: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) usage: Option<Box<RawUsage>>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
    /// The content of a server that does not stream.
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<Block<'a>>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
}

impl Event<'_> {
    /// Returns whether the event holds nothing but a delta.
    pub(super) fn is_delta(&self) -> bool {
        let silent = self.message.is_none() && self.usage.is_none() && self.error.is_none();
        silent
            && self.content_block.is_none()
            && self.content.is_none()
            && self.stop_reason.0.is_empty()
    }
}

/// The start of a message.
#[derive(Deserialize)]
pub(super) struct Start {
    #[serde(default)]
    pub(super) usage: Option<RawUsage>,
}

/// The start of a block.
#[derive(Deserialize)]
pub(super) struct Block<'a> {
    #[serde(borrow, rename = "type", default)]
    pub(super) kind: Text<'a>,
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    /// The data of a redacted block.
    #[serde(borrow, default)]
    pub(super) data: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// A fragment of a block, or an update of the message.
#[derive(Deserialize)]
pub(super) struct Delta<'a> {
    #[serde(borrow, default)]
    pub(super) text: Text<'a>,
    #[serde(borrow, default)]
    pub(super) thinking: Text<'a>,
    #[serde(borrow, default)]
    pub(super) signature: Text<'a>,
    #[serde(borrow, default)]
    pub(super) partial_json: Text<'a>,
    /// The source of a text.
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
}

/// Token counts so far, as reported; a missing field has not changed.
#[derive(Deserialize, Default, Clone, Copy)]
pub(super) struct RawUsage {
    #[serde(default)]
    input_tokens: Option<Count>,
    #[serde(default)]
    output_tokens: Option<Count>,
    #[serde(default)]
    cache_read_input_tokens: Option<Count>,
    #[serde(default)]
    cache_creation_input_tokens: Option<Count>,
    #[serde(default)]
    output_tokens_details: Option<OutputDetails>,
}

/// The breakdown of the output tokens.
#[derive(Deserialize, Default, Clone, Copy)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Count,
}

impl RawUsage {
    /// Updates `usage` with these counts.
    pub(super) fn merge_into(self, usage: &mut Usage) {
        let put = |into: &mut u64, count: Option<Count>| {
            if let Some(Count(count)) = count {
                *into = count;
            }
        };
        put(&mut usage.input, self.input_tokens);
        put(&mut usage.output, self.output_tokens);
        put(&mut usage.cache_read, self.cache_read_input_tokens);
        put(&mut usage.cache_write, self.cache_creation_input_tokens);
        put(
            &mut usage.reasoning,
            self.output_tokens_details.map(|details| details.thinking_tokens),
        );
        usage.reasoning = usage.reasoning.min(usage.output);
    }
}
