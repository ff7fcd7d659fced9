//! The events of a Messages stream as they come, read leniently and without copies.

use loopwright_core::message::Usage;
use serde::Deserialize;
use serde_json::value::RawValue;

use crate::lenient::{Count, Text};

/// Marks the signature of a block of thinking that is redacted: what follows is all there is of it.
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
    /// What a server that does not stream sends instead of events.
    #[serde(borrow, default)]
    pub(super) content: Option<Vec<Block<'a>>>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
}

impl Event<'_> {
    /// Whether it has nothing to tell but a delta.
    pub(super) fn is_delta(&self) -> bool {
        let silent = self.message.is_none() && self.usage.is_none() && self.error.is_none();
        silent
            && self.content_block.is_none()
            && self.content.is_none()
            && self.stop_reason.0.is_empty()
    }
}

/// How a message begins.
#[derive(Deserialize)]
pub(super) struct Start {
    #[serde(default)]
    pub(super) usage: Option<RawUsage>,
}

/// A block as it begins.
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
    /// All of a redacted block.
    #[serde(borrow, default)]
    pub(super) data: Text<'a>,
    #[serde(borrow, default)]
    pub(super) id: Text<'a>,
    #[serde(borrow, default)]
    pub(super) name: Text<'a>,
    #[serde(borrow, default)]
    pub(super) input: Option<&'a RawValue>,
}

/// More of a block, or of the message.
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
    /// Where a text is from.
    #[serde(borrow, default)]
    pub(super) citation: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) stop_reason: Text<'a>,
}

/// Tokens used so far, as reported; what is left out has not changed.
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

/// What the output tokens are made of.
#[derive(Deserialize, Default, Clone, Copy)]
struct OutputDetails {
    #[serde(default)]
    thinking_tokens: Count,
}

impl RawUsage {
    /// Puts what it tells into `usage`.
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
