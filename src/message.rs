//! Values of a conversation: messages, their content, and usage.
//!
//! A [`Message`] in a session is immutable and shared as `Arc<Message>`, so a history is never
//! copied.

mod content;
mod ids;
mod tool;
mod usage;

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::encoded::Encoded;
use content::join_text;

pub use content::Content;
pub use ids::{CallId, InputId, MessageId, RunId, new_input_id};
pub use tool::{ResultStatus, ToolCall, ToolResult};
pub use usage::Usage;

/// A conversation, shared with models without copying.
pub type History = Arc<Vec<Arc<Message>>>;

/// A message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// The number of the message in its session.
    pub id: MessageId,
    /// The content, by role.
    #[serde(flatten)]
    pub body: MessageKind,
    /// The bytes that a codec produced for the message; see [`Message::encode_once`].
    #[serde(skip)]
    encoded: Encoded,
}

/// The content of a message, by role. Serialised with the tag `role`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
#[non_exhaustive]
pub enum MessageKind {
    /// A message of the user, or of the host on the user's behalf.
    User(UserMessage),
    /// A reply of the model.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    ToolResult(ToolResult),
    /// A message of the application. It is kept in the history, and sent to a model only if
    /// `convert_to_llm` turns it into another kind.
    Custom(CustomMessage),
    /// A reply to a detached request that is [shown](crate::Ask::shown). It is kept in the history,
    /// and is not part of the conversation: no model, hook or summary gets it.
    Detached(DetachedMessage),
}

impl Message {
    /// Builds a message with the given number.
    pub fn new(id: MessageId, body: impl Into<MessageKind>) -> Self {
        Message { id, body: body.into(), encoded: Encoded::default() }
    }

    /// Returns the message as encoded by `codec`, encoding it at most once per message.
    ///
    /// The bytes of the first codec are kept with the message. Any other codec (after a change of
    /// provider) encodes on each call. `codec` must name a wire format *and* every setting that
    /// changes its bytes.
    pub fn encode_once(
        &self,
        codec: &'static str,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Cow<'_, [u8]> {
        self.encoded.get(codec, encode)
    }

    /// Returns the text of the message, with its parts joined; empty without text.
    pub fn text(&self) -> String {
        match &self.body {
            MessageKind::User(m) => join_text(&m.content),
            MessageKind::Assistant(m) => m.text(),
            MessageKind::ToolResult(m) => m.text(),
            MessageKind::Detached(m) => m.reply.text(),
            MessageKind::Custom(_) => String::new(),
        }
    }

    /// Returns the number of bytes of a user message's texts and images.
    pub(crate) fn content_bytes(&self) -> usize {
        let bytes = |content: &Content| match content {
            Content::Text { text } => text.len(),
            Content::Image { data, .. } => data.len(),
        };
        match &self.body {
            MessageKind::User(m) => m.content.iter().map(bytes).sum(),
            _ => 0,
        }
    }

    /// Returns whether the text contains all of `words`, which must be in lower case. Ignores the
    /// case of the text. Returns `false` if `words` is empty.
    pub fn has_words(&self, words: &[String]) -> bool {
        if words.is_empty() {
            return false;
        }
        let text = self.text().to_lowercase();
        words.iter().all(|word| text.contains(word))
    }

    /// Returns the reply, if the message is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        if let MessageKind::Assistant(m) = &self.body { Some(m) } else { None }
    }

    /// Returns the tool result, if the message is one.
    pub fn as_tool_result(&self) -> Option<&ToolResult> {
        if let MessageKind::ToolResult(m) = &self.body { Some(m) } else { None }
    }

    /// Returns whether the message is a detached reply, which is not part of the conversation.
    pub fn is_detached(&self) -> bool {
        matches!(self.body, MessageKind::Detached(_))
    }

    /// Returns whether requests contain the message by default. Messages of the application, failed
    /// replies, and aborted replies without text are left out.
    pub fn is_for_model(&self) -> bool {
        match &self.body {
            MessageKind::Custom(_) | MessageKind::Detached(_) => false,
            MessageKind::Assistant(m) => match m.stop {
                StopReason::Error => false,
                StopReason::Aborted => m.has_text() && m.calls().next().is_none(),
                _ => true,
            },
            _ => true,
        }
    }
}

/// A message of the user. A string converts into one.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UserMessage {
    /// Text and images, in order.
    pub content: Vec<Content>,
}

impl<T: Into<String>> From<T> for UserMessage {
    fn from(text: T) -> Self {
        UserMessage::new(vec![Content::text(text)])
    }
}

impl UserMessage {
    /// Builds a message from text and images, in order.
    pub fn new(content: Vec<Content>) -> Self {
        UserMessage { content }
    }

    /// Returns its texts, joined.
    pub fn text(&self) -> String {
        join_text(&self.content)
    }
}

/// A reply of the model. A string converts into one, for a pattern that answers itself.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AssistantMessage {
    /// Text, thinking and tool calls, in the order in which they started.
    pub parts: Vec<ContentPart>,
    /// The reason why the reply ended.
    pub stop: StopReason,
    /// The model that generated the reply, as `provider/name`. Signatures are valid only for this
    /// model.
    pub model: Arc<str>,
    /// The tokens that the request used, as far as the provider reported them.
    #[serde(default)]
    pub usage: Usage,
}

impl<T: Into<String>> From<T> for AssistantMessage {
    fn from(text: T) -> Self {
        AssistantMessage::new(vec![ContentPart::Text { text: text.into(), signature: None }])
    }
}

impl AssistantMessage {
    /// Builds a reply that ended with [`StopReason::Stop`], from an unnamed model, without usage.
    pub fn new(parts: Vec<ContentPart>) -> Self {
        AssistantMessage { parts, ..Self::default() }
    }

    /// Sets why the reply ended.
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = stop;
        self
    }

    /// Sets the model that generated the reply, as `provider/name`.
    pub fn model(mut self, model: impl Into<Arc<str>>) -> Self {
        self.model = model.into();
        self
    }

    /// Sets the tokens that the request used.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Returns the text parts, joined.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|p| {
            if let ContentPart::Text { text, .. } = p { Some(text.as_str()) } else { None }
        });
        texts.collect()
    }

    /// Returns whether the reply has text other than white space.
    pub fn has_text(&self) -> bool {
        let is_shown = |part: &ContentPart| match part {
            ContentPart::Text { text, .. } => !text.trim().is_empty(),
            _ => false,
        };
        self.parts.iter().any(is_shown)
    }

    /// Iterates over the tool calls in source order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts
            .iter()
            .filter_map(|p| if let ContentPart::ToolCall(call) = p { Some(call) } else { None })
    }
}

/// A part of a reply. A `signature` is opaque data of the provider. It must be sent back unchanged,
/// and only to the same model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentPart {
    /// Text for the user.
    Text {
        /// Text of the reply, without the reasoning.
        text: String,
        /// The provider's signature, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Arc<str>>,
    },
    /// Reasoning.
    Thinking {
        /// The visible part of the reasoning; empty if it is redacted.
        text: String,
        /// The provider's signature, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Arc<str>>,
    },
    /// A tool call of the reply.
    ToolCall(ToolCall),
}

/// The reason why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model finished its answer.
    #[default]
    Stop,
    /// The model calls tools.
    ToolCalls,
    /// The token limit cut off the reply. None of its calls runs.
    Length,
    /// The provider's content filter cut off the reply.
    ContentFilter,
    /// A steer with [`Urgency::Interrupt`](crate::event::Urgency::Interrupt) cut off the reply.
    Interrupted,
    /// An abort, or the end of the time of a [part](crate::StepContext::with_budget), cut off the
    /// reply.
    Aborted,
    /// An error cut off the reply.
    Error,
}

impl StopReason {
    /// Returns whether the reply was stopped from outside: by a steer, an abort or the end of the
    /// time of a part.
    pub fn is_cut_off(self) -> bool {
        matches!(self, StopReason::Interrupted | StopReason::Aborted)
    }
}

/// A message of the application.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct CustomMessage {
    /// The application's name for this kind of message.
    pub kind: String,
    /// The data of the message, defined by the application.
    pub data: Value,
}

impl CustomMessage {
    /// Builds a message of this kind.
    pub fn new(kind: impl Into<String>, data: impl Into<Value>) -> Self {
        CustomMessage { kind: kind.into(), data: data.into() }
    }
}

/// A reply to a detached request that is [shown](crate::Ask::shown).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct DetachedMessage {
    /// The pattern's name for who speaks, such as `critic`.
    pub speaker: Arc<str>,
    /// The reply. Its calls do not run.
    #[serde(flatten)]
    pub reply: AssistantMessage,
}

impl DetachedMessage {
    /// Builds the shown form of a reply.
    pub fn new(speaker: impl Into<Arc<str>>, reply: AssistantMessage) -> Self {
        DetachedMessage { speaker: speaker.into(), reply }
    }
}

macro_rules! body_from {
    ($($variant:ident: $type:ty),*) => {$(
        impl From<$type> for MessageKind {
            fn from(message: $type) -> Self {
                MessageKind::$variant(message)
            }
        }
    )*};
}
body_from!(
    User: UserMessage,
    Assistant: AssistantMessage,
    ToolResult: ToolResult,
    Custom: CustomMessage,
    Detached: DetachedMessage
);
