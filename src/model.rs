//! The model seam: [`ChatModel`], what it is asked and what it streams.

pub(crate) mod assemble;
pub(crate) mod partial;
pub(crate) mod update;

pub use crate::error::{ModelError, ModelErrorKind};
pub use partial::PartialJson;
pub use update::Update;

use std::sync::Arc;

use futures_util::stream::BoxStream;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{History, MessageId, StopReason, Usage};
use crate::tool::ToolList;

/// A chat model: one request in, one stream of events out.
///
/// An adapter normalises a provider's protocol and does nothing else. Decorators implement the
/// trait they wrap. There is no second method that does not stream: whoever wants the whole reply
/// folds the stream.
pub trait ChatModel: Send + Sync {
    /// Which model this is, and what is known of it. One that asks several models says what holds
    /// whichever answers.
    fn info(&self) -> &ModelInfo;

    /// Sends a request and streams the reply.
    ///
    /// The stream must end with exactly one [`ModelEvent::Done`] or [`ModelEvent::Error`]; a
    /// stream that just ends counts as an error. Dropping the stream must cancel the request.
    /// It borrows the model, so that a decorator may hold its inner model by value.
    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent>;
}

impl<M: ChatModel + ?Sized> ChatModel for Arc<M> {
    fn info(&self) -> &ModelInfo {
        (**self).info()
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        (**self).stream(request)
    }
}

impl<M: ChatModel + ?Sized> ChatModel for Box<M> {
    fn info(&self) -> &ModelInfo {
        (**self).info()
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        (**self).stream(request)
    }
}

/// What is known of a model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ModelInfo {
    /// `provider/name`.
    pub id: Arc<str>,
    /// US dollars per million tokens, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prices: Option<Prices>,
    /// Tokens that fit into a request and its reply, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context_window: Option<u64>,
    /// Tokens that fit into a reply, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_output: Option<u64>,
    /// Whether it can think before it answers, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thinking: Option<bool>,
    /// Whether it takes images, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub images: Option<bool>,
}

impl ModelInfo {
    /// A model of which only the name is known, as `provider/name`.
    pub fn new(id: impl Into<Arc<str>>) -> Self {
        let id = id.into();
        ModelInfo {
            id,
            prices: None,
            context_window: None,
            max_output: None,
            thinking: None,
            images: None,
        }
    }

    /// With its prices.
    pub fn with_prices(mut self, prices: Prices) -> Self {
        self.prices = Some(prices);
        self
    }

    /// With its context window, in tokens.
    pub fn with_context_window(mut self, tokens: u64) -> Self {
        self.context_window = Some(tokens);
        self
    }

    /// With the most tokens of a reply.
    pub fn with_max_output(mut self, tokens: u64) -> Self {
        self.max_output = Some(tokens);
        self
    }

    /// What `usage` costs, in US dollars, if the prices are known.
    pub fn cost(&self, usage: &Usage) -> Option<f64> {
        self.prices.map(|prices| prices.cost(usage))
    }
}

/// US dollars per million tokens.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct Prices {
    /// Input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
    /// Other prices for a request whose input is long, if the provider has them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub long: Option<LongPrices>,
}

/// US dollars per million tokens of a request whose input is long.
///
/// What is compared is a reply's [`Usage`]. Where a provider paused the turn in its middle, and
/// several requests made one reply, that is their sum, though the provider compares each: such a
/// reply may be priced as long where none of them is, and so too high, but never too low.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
pub struct LongPrices {
    /// With more tokens of input than this, cached ones included, the whole request has these
    /// prices.
    pub over: u64,
    /// Input.
    pub input: f64,
    /// Output.
    pub output: f64,
    /// Input read from the cache.
    pub cache_read: f64,
    /// Input written to the cache.
    pub cache_write: f64,
}

impl Prices {
    /// What one request with this `usage` costs, in US dollars.
    pub fn cost(&self, usage: &Usage) -> f64 {
        let prompt = usage.input.saturating_add(usage.cache_read).saturating_add(usage.cache_write);
        let [input, output, cache_read, cache_write] = match self.long {
            Some(long) if prompt > long.over => {
                [long.input, long.output, long.cache_read, long.cache_write]
            }
            _ => [self.input, self.output, self.cache_read, self.cache_write],
        };
        let parts = [
            (usage.input, input),
            (usage.output, output),
            (usage.cache_read, cache_read),
            (usage.cache_write, cache_write),
        ];
        parts.iter().map(|(tokens, price)| *tokens as f64 * price / 1e6).sum()
    }
}

/// How much a model should think before it answers. A provider maps it to what it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all, or the provider's default where it cannot be switched off.
    #[default]
    Off,
    /// As little as there is.
    Minimal,
    /// A little.
    Low,
    /// Some.
    Medium,
    /// Much.
    High,
    /// As much as there is.
    XHigh,
}

/// Which tool the model must call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// None.
    None,
    /// At least one, of its choice.
    Required,
    /// This one.
    Tool(String),
}

/// The JSON Schema that an answer must fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OutputSchema {
    /// The schema's name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The schema.
    pub schema: Value,
}

/// One request to a model. Cheap to clone.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The system prompt; empty for none.
    pub system: Arc<str>,
    /// The conversation. Every call has its result directly after its message, in source order.
    pub messages: History,
    /// The tools that may be called.
    pub tools: Arc<ToolList>,
    /// Which tool must be called.
    pub tool_choice: ToolChoice,
    /// How much to think.
    pub thinking: ThinkingLevel,
    /// The schema that the answer must fit, if any.
    pub output: Option<Arc<OutputSchema>>,
    /// At most this many output tokens.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// The session, for providers that cache or trace by it.
    pub session: Arc<str>,
    /// The message that last took the place of others, where the conversation was compacted. A
    /// reply with a smaller number was made of a past that the request does not show: a provider
    /// that binds thoughts to their past leaves its thoughts out.
    pub compacted: Option<MessageId>,
}

/// A piece of a reply as it streams.
///
/// Blocks are numbered by the adapter, from zero, in the order in which they begin; deltas of
/// several open blocks may interleave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelEvent {
    /// Which model says what follows, until another is named. A decorator over several models names
    /// the one that it asks at the beginning of each attempt, since replies go back with their
    /// signatures to the model that gave them, and cost what that one costs. Without it, it is that
    /// of [`ChatModel::info`].
    AnsweredBy(Arc<ModelInfo>),
    /// A block begins.
    BlockStart {
        /// Its number.
        block: u32,
        /// What it is.
        kind: BlockKind,
    },
    /// More of a block: text, thinking or raw JSON of a call's arguments.
    Delta {
        /// The block's number.
        block: u32,
        /// What is added.
        delta: String,
    },
    /// A block is complete.
    BlockEnd {
        /// Its number.
        block: u32,
        /// The provider's signature of it, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Arc<str>>,
    },
    /// The attempt is being retried: everything since the beginning of the reply is void.
    Withdrawn,
    /// The reply is complete.
    Done {
        /// Why it ended.
        stop: StopReason,
        /// Tokens used.
        usage: Usage,
    },
    /// The request failed. An error carries no usage: what the provider charges for a reply that
    /// fails, or that is [withdrawn](ModelEvent::Withdrawn), is counted nowhere.
    Error(ModelError),
}

/// What a block of a reply is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum BlockKind {
    /// Text for the user.
    Text,
    /// Reasoning.
    Thinking,
    /// A tool call.
    ToolCall {
        /// The provider's id; may be empty or used again, the session makes it unique.
        id: String,
        /// The tool's name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_request_has_prices_of_its_own() {
        let long =
            LongPrices { over: 100, input: 2e6, output: 20e6, cache_read: 0.2e6, cache_write: 4e6 };
        let prices = Prices {
            input: 1e6,
            output: 10e6,
            cache_read: 0.1e6,
            cache_write: 3e6,
            long: Some(long),
        };
        let cost = |cache_read| {
            prices.cost(&Usage { input: 40, output: 1, cache_read, cache_write: 10, reasoning: 0 })
        };
        assert_eq!(cost(50), 40.0 + 10.0 + 5.0 + 30.0);
        assert_eq!(cost(60), 80.0 + 20.0 + 12.0 + 40.0);
    }
}
