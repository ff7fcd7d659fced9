//! The extension point for models: [`ChatModel`], its requests and the events that it streams.

pub(crate) mod assemble;
pub(crate) mod info;
pub(crate) mod partial;
pub(crate) mod retry_notice;
pub(crate) mod update;

pub use crate::error::{ModelError, ModelErrorKind};
pub use info::{LongPrices, ModelInfo, Prices};
pub use partial::PartialJson;
pub use retry_notice::RetryNotice;
pub use update::Update;

pub use futures_util::stream::BoxStream;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{History, MessageId, StopReason, Usage};
use crate::tool::ToolList;
use crate::trace_context::TraceContext;

/// A model that streams replies to requests.
///
/// An adapter translates a provider's protocol into [`ModelEvent`]s. A decorator (retries, a rate
/// limit, a fallback) wraps another model and implements the trait too. There is no method without
/// streaming: to get a whole reply, fold the stream.
///
/// # Contract
///
/// - The stream must end with exactly one [`ModelEvent::Done`] or [`ModelEvent::Error`]. The
///   session treats a stream that ends without one as an error.
/// - Every [`ModelEvent::Delta`] must lie between the [`ModelEvent::BlockStart`] and the
///   [`ModelEvent::BlockEnd`] of its block. Blocks may interleave.
/// - [`info`](ChatModel::info) must return the same value each time.
/// - `stream` should do no work before the stream is polled, and must not block its thread.
/// - The stream may send [`ModelEvent::Withdrawn`] and start the reply again.
/// - If the provider reports usage before the end of a reply, the stream should send it as
///   [`ModelEvent::Usage`], so that a reply that fails or is cut off is counted.
/// - A decorator that waits before it retries must first withdraw what it has sent, and then
///   announce the retry with [`ModelEvent::Retry`].
///
/// # Cancellation
///
/// The session drops the stream when the run is aborted or interrupted, or a time limit is reached.
/// Dropping it must cancel the request. The events so far are kept as an incomplete reply.
///
/// # Example
///
/// A decorator that limits the length of every reply:
///
/// ```
/// use futures_util::stream::BoxStream;
/// use loopwright_core::ChatModel;
/// use loopwright_core::model::{ChatRequest, ModelEvent, ModelInfo};
///
/// struct ShortReplies<M> {
///     inner: M,
///     max_tokens: u32,
/// }
///
/// impl<M: ChatModel> ChatModel for ShortReplies<M> {
///     fn info(&self) -> &ModelInfo {
///         self.inner.info()
///     }
///
///     fn stream<'a>(&'a self, mut request: ChatRequest) -> BoxStream<'a, ModelEvent> {
///         request.max_tokens = Some(self.max_tokens);
///         self.inner.stream(request)
///     }
/// }
///
/// use futures_util::StreamExt;
/// use loopwright_core::Message;
/// use loopwright_core::message::{MessageId, UserMessage};
/// use loopwright_core::testing::{Script, ScriptedModel};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let inner = ScriptedModel::new([Script::text("Hello.")]);
/// let model = ShortReplies { inner: inner.clone(), max_tokens: 100 };
/// let mut request = ChatRequest::default();
/// let question = Message::new(MessageId(1), UserMessage::from("Hello?"));
/// request.messages = vec![question.into()].into();
/// let events: Vec<_> = model.stream(request).collect().await;
/// assert!(matches!(events.last(), Some(ModelEvent::Done { .. })));
/// assert_eq!(inner.requests()[0].max_tokens, Some(100));
/// # }
/// ```
pub trait ChatModel: Send + Sync {
    /// Returns the model's name and known properties. A decorator over several models returns
    /// values that are true for all of them.
    fn info(&self) -> &ModelInfo;

    /// Sends a request and streams the reply.
    ///
    /// Failures are reported in the stream, as [`ModelEvent::Error`]. The stream borrows the model,
    /// so that a decorator can own its inner model.
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

/// The amount of thinking before an answer. Each provider maps the levels to its own. The enum is
/// exhaustive, because a provider must know the meaning of each level.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Default, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum ThinkingLevel {
    /// Not at all, or the provider's default if thinking cannot be switched off.
    #[default]
    Off,
    /// The provider's minimum.
    Minimal,
    /// Little.
    Low,
    /// The provider's middle level.
    Medium,
    /// Much.
    High,
    /// The provider's maximum.
    XHigh,
}

impl ThinkingLevel {
    /// All levels, from the lowest to the highest.
    pub const ALL: [ThinkingLevel; 6] = [
        ThinkingLevel::Off,
        ThinkingLevel::Minimal,
        ThinkingLevel::Low,
        ThinkingLevel::Medium,
        ThinkingLevel::High,
        ThinkingLevel::XHigh,
    ];

    /// Returns the name of the level in JSON and on command lines, such as `medium`.
    pub const fn name(self) -> &'static str {
        match self {
            ThinkingLevel::Off => "off",
            ThinkingLevel::Minimal => "minimal",
            ThinkingLevel::Low => "low",
            ThinkingLevel::Medium => "medium",
            ThinkingLevel::High => "high",
            ThinkingLevel::XHigh => "xhigh",
        }
    }
}

impl fmt::Display for ThinkingLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A text that is not the name of a [`ThinkingLevel`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("there is no such level of thinking")]
pub struct InvalidThinkingLevel;

impl FromStr for ThinkingLevel {
    type Err = InvalidThinkingLevel;

    fn from_str(name: &str) -> Result<Self, InvalidThinkingLevel> {
        Self::ALL.into_iter().find(|level| level.name() == name).ok_or(InvalidThinkingLevel)
    }
}

/// The tool that the model must call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ToolChoice {
    /// The model decides.
    #[default]
    Auto,
    /// The model must not call a tool.
    None,
    /// The model must call at least one tool of its choice.
    Required,
    /// The model must call the tool of this name.
    Tool(String),
}

/// The JSON Schema that an answer must fit.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct OutputSchema {
    /// The schema's name, `[A-Za-z0-9_-]{1,64}`.
    pub name: String,
    /// The JSON Schema itself.
    pub schema: Value,
}

impl OutputSchema {
    /// Builds a schema with a name, which must be `[A-Za-z0-9_-]{1,64}`.
    pub fn new(name: impl Into<String>, schema: Value) -> Self {
        OutputSchema { name: name.into(), schema }
    }
}

/// A request to a model. Cheap to clone.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ChatRequest {
    /// The system prompt; empty for none.
    pub system: Arc<str>,
    /// The conversation. The results of a reply's calls follow the reply, in source order.
    pub messages: History,
    /// The tools that may be called.
    pub tools: Arc<ToolList>,
    /// The tool that must be called.
    pub tool_choice: ToolChoice,
    /// The amount of thinking.
    pub thinking: ThinkingLevel,
    /// The schema that the answer must fit, if any.
    pub output: Option<Arc<OutputSchema>>,
    /// The maximum number of output tokens.
    pub max_tokens: Option<u32>,
    /// The sampling temperature.
    pub temperature: Option<f32>,
    /// Texts before which the model must stop; empty for none. If the provider's API does not
    /// support them, the request must fail.
    pub stop: Vec<String>,
    /// The session's id, for providers that cache or trace by it.
    pub session: Arc<str>,
    /// The message that last replaced others, if the conversation was compacted. Replies with a
    /// smaller number were generated from messages that the request no longer contains. A provider
    /// that ties thoughts to the preceding messages must leave out the thoughts of these replies.
    pub compacted: Option<MessageId>,
    /// The trace context of the request, if the host gave one for the run. A provider sends it as
    /// the headers `traceparent` and `tracestate`.
    pub trace: Option<TraceContext>,
}

/// An event of a streaming reply.
///
/// The adapter numbers blocks from zero, in the order in which they start. Deltas of several open
/// blocks may interleave.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ModelEvent {
    /// The model that generates the following events; without it, the model of [`ChatModel::info`].
    /// A decorator over several models must send it at the start of each attempt, because
    /// signatures and prices belong to the model that replied.
    AnsweredBy(Arc<ModelInfo>),
    /// A block of the reply starts.
    BlockStart {
        /// The number of the block.
        block: u32,
        /// The kind of the block.
        kind: BlockKind,
    },
    /// A fragment of a block: text, thinking, or JSON text of a call's arguments.
    Delta {
        /// The number of the block.
        block: u32,
        /// The text to append.
        delta: String,
    },
    /// A block is complete.
    BlockEnd {
        /// The number of the block.
        block: u32,
        /// The provider's signature of the block, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Arc<str>>,
    },
    /// The tokens that the attempt has used so far, if the provider reports them before the end.
    /// Each report replaces the last one, and [`Done`](ModelEvent::Done) replaces them all. An
    /// attempt that fails, is [withdrawn](ModelEvent::Withdrawn) or is cut off is charged with the
    /// last report.
    Usage(Usage),
    /// The attempt is retried. All events since the start of the reply are void, except for the
    /// attempt's [usage](ModelEvent::Usage).
    Withdrawn,
    /// The request failed and will be sent again. The notice is not part of the reply.
    Retry(Arc<RetryNotice>),
    /// The reply is complete.
    Done {
        /// The reason why the reply ended.
        stop: StopReason,
        /// The tokens that the request used.
        usage: Usage,
    },
    /// The request failed. Its usage is the last [`Usage`](ModelEvent::Usage).
    Error(ModelError),
}

/// The kind of a block of a reply.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum BlockKind {
    /// Text for the user.
    Text,
    /// Reasoning.
    Thinking,
    /// A tool call of the reply.
    ToolCall {
        /// The provider's id. It may be empty or used twice; the session makes it unique.
        id: String,
        /// The tool's name.
        name: String,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thinking_level_is_read_as_it_is_written() {
        for level in ThinkingLevel::ALL {
            assert_eq!(level.to_string().parse(), Ok(level));
            assert_eq!(serde_json::to_value(level).unwrap(), level.name());
        }
        assert_eq!("High".parse::<ThinkingLevel>(), Err(InvalidThinkingLevel));
    }
}
