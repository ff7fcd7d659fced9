//! Plain values of a conversation: messages, their parts, usage.
//!
//! A [`Message`] is immutable once it is in a session and travels as `Arc<Message>`, so a
//! history is shared and never copied.

use std::borrow::Cow;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::encoded::Encoded;

pub use crate::ids::{CallId, InputId, MessageId, RunId};

/// A conversation as it is handed to a model: shared, never copied.
pub type History = Arc<Vec<Arc<Message>>>;

/// One message of a conversation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Message {
    /// Its number in the session.
    pub id: MessageId,
    /// What it says, and who says it.
    #[serde(flatten)]
    pub body: MessageKind,
    /// Bytes that a codec made of it; see [`Message::encode_once`].
    #[serde(skip)]
    encoded: Encoded,
}

/// Who speaks, and what is said. Serialised with `role`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "role", rename_all = "snake_case")]
pub enum MessageKind {
    /// The user, or the host on the user's behalf.
    User(UserMessage),
    /// The model.
    Assistant(AssistantMessage),
    /// The result of one tool call.
    ToolResult(ToolResult),
    /// A message of the application's own: kept in the history, not sent to a model unless
    /// `convert_to_llm` turns it into something else.
    Custom(CustomMessage),
}

impl Message {
    /// A message with the given number.
    pub fn new(id: MessageId, body: impl Into<MessageKind>) -> Self {
        Message { id, body: body.into(), encoded: Encoded::default() }
    }

    /// The message as `codec` writes it, encoded at most once per message.
    ///
    /// The first codec to ask has its bytes kept with the message; another codec (after a change
    /// of provider) encodes anew each time. `codec` names a wire format *and* every setting that
    /// changes its bytes.
    pub fn encode_once(
        &self,
        codec: &'static str,
        encode: impl FnOnce() -> Vec<u8>,
    ) -> Cow<'_, [u8]> {
        self.encoded.get(codec, encode)
    }

    /// All text of the message, its parts joined; empty if there is none.
    pub fn text(&self) -> String {
        match &self.body {
            MessageKind::User(m) => join_text(&m.content),
            MessageKind::Assistant(m) => m.text(),
            MessageKind::ToolResult(m) => m.text(),
            MessageKind::Custom(_) => String::new(),
        }
    }

    /// Whether its text contains all of these words, which are in small letters, whatever the case;
    /// never without a word.
    pub fn has_words(&self, words: &[String]) -> bool {
        if words.is_empty() {
            return false;
        }
        let text = self.text().to_lowercase();
        words.iter().all(|word| text.contains(word))
    }

    /// The assistant's message, if it is one.
    pub fn as_assistant(&self) -> Option<&AssistantMessage> {
        if let MessageKind::Assistant(m) = &self.body { Some(m) } else { None }
    }

    /// The tool result, if it is one.
    pub fn as_tool_result(&self) -> Option<&ToolResult> {
        if let MessageKind::ToolResult(m) = &self.body { Some(m) } else { None }
    }

    /// Whether a model is shown it by default: not the application's own messages, and not
    /// replies that were aborted or ended in an error.
    pub fn is_for_model(&self) -> bool {
        match &self.body {
            MessageKind::Custom(_) => false,
            MessageKind::Assistant(m) => !matches!(m.stop, StopReason::Aborted | StopReason::Error),
            _ => true,
        }
    }
}

/// A piece of user or tool content.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Content {
    /// Text.
    Text {
        /// The text.
        text: String,
    },
    /// An image.
    Image {
        /// Its media type, such as `image/png`.
        media_type: String,
        /// Its bytes in base64.
        data: String,
    },
}

impl Content {
    /// A piece of text.
    pub fn text(text: impl Into<String>) -> Self {
        Content::Text { text: text.into() }
    }

    /// An image of this media type, its bytes in base64.
    pub fn image(media_type: impl Into<String>, data: impl Into<String>) -> Self {
        Content::Image { media_type: media_type.into(), data: data.into() }
    }
}

fn join_text(content: &[Content]) -> String {
    let mut out = String::new();
    for piece in content {
        if let Content::Text { text } = piece {
            out.push_str(text);
        }
    }
    out
}

/// What the user says.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct UserMessage {
    /// Text and images, in order.
    pub content: Vec<Content>,
}

impl<T: Into<String>> From<T> for UserMessage {
    fn from(text: T) -> Self {
        UserMessage { content: vec![Content::text(text)] }
    }
}

impl UserMessage {
    /// Its text, pieces joined.
    pub fn text(&self) -> String {
        join_text(&self.content)
    }
}

/// What the model says: one reply.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct AssistantMessage {
    /// Text, thinking and tool calls, in the order in which they began.
    pub parts: Vec<ContentPart>,
    /// Why the reply ended.
    pub stop: StopReason,
    /// The model that said it, as `provider/name`; signatures are valid for this model only.
    pub model: Arc<str>,
    /// Tokens used by the request, as far as the provider told.
    #[serde(default)]
    pub usage: Usage,
}

impl AssistantMessage {
    /// Its text parts, joined.
    pub fn text(&self) -> String {
        let texts = self.parts.iter().filter_map(|p| {
            if let ContentPart::Text { text, .. } = p { Some(text.as_str()) } else { None }
        });
        texts.collect()
    }

    /// Its tool calls, in source order.
    pub fn calls(&self) -> impl Iterator<Item = &ToolCall> {
        self.parts
            .iter()
            .filter_map(|p| if let ContentPart::ToolCall(call) = p { Some(call) } else { None })
    }
}

/// A part of a reply. A `signature` is opaque data of the provider, to be sent back as it came
/// and to that provider's same model only.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ContentPart {
    /// Text for the user.
    Text {
        /// The text.
        text: String,
        /// The provider's signature, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Arc<str>>,
    },
    /// Reasoning.
    Thinking {
        /// What the provider shows of it; empty when it is redacted.
        text: String,
        /// The provider's signature, if any.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        signature: Option<Arc<str>>,
    },
    /// A call of a tool.
    ToolCall(ToolCall),
}

/// A tool call as the model wrote it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolCall {
    /// Unique in the session.
    pub id: CallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// The arguments' raw JSON text, exactly as it came; it may be malformed.
    pub arguments: Arc<str>,
    /// The provider's signature, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<Arc<str>>,
}

/// Why a reply ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum StopReason {
    /// The model had said what it wanted to say.
    #[default]
    Stop,
    /// The model wants tools to be called.
    ToolCalls,
    /// The token limit cut it off; none of its calls is run.
    Length,
    /// The provider's filter cut it off.
    ContentFilter,
    /// A steer with [`Urgency::Interrupt`](crate::event::Urgency::Interrupt) cut it off.
    Interrupted,
    /// An abort cut it off.
    Aborted,
    /// An error cut it off.
    Error,
}

/// The one result of one tool call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ToolResult {
    /// The call that it answers.
    pub call: CallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// How the call ended.
    pub status: ResultStatus,
    /// What the model is shown.
    pub content: Vec<Content>,
    /// Data for a user interface; never sent to a model.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<Arc<Value>>,
    /// The tool asks that the run ends after this batch, without a further request.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub terminate: bool,
}

impl ToolResult {
    /// Its text, pieces joined.
    pub fn text(&self) -> String {
        join_text(&self.content)
    }

    /// Whether the model is told that the call failed or did not run.
    pub fn is_error(&self) -> bool {
        self.status != ResultStatus::Ok
    }
}

/// How a tool call ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum ResultStatus {
    /// It ran, or the outside handed in its result.
    Ok,
    /// It could not run, or it failed.
    Error,
    /// The user, a hook or a later message of the user refused it.
    Denied,
    /// A steer or the end of the run came before it started.
    Skipped,
    /// It was cancelled.
    Aborted,
    /// A crash cut it off; it may have run.
    OutcomeUnknown,
}

/// A message of the application's own.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CustomMessage {
    /// The application's name for this kind of message.
    pub kind: String,
    /// Its data.
    pub data: Value,
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
body_from!(User: UserMessage, Assistant: AssistantMessage, ToolResult: ToolResult, Custom: CustomMessage);

/// Tokens of one request, or of many added up. `input` counts neither cache reads nor cache
/// writes, so [`Usage::total`] is the sum of the four; `reasoning` is a part of `output`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Usage {
    /// Input tokens at full price.
    pub input: u64,
    /// Output tokens, reasoning included.
    pub output: u64,
    /// Input tokens read from the provider's cache.
    pub cache_read: u64,
    /// Input tokens written to the provider's cache.
    pub cache_write: u64,
    /// Output tokens spent on reasoning.
    pub reasoning: u64,
}

impl Usage {
    /// Input, output, cache reads and cache writes together.
    pub fn total(&self) -> u64 {
        [self.output, self.cache_read, self.cache_write]
            .into_iter()
            .fold(self.input, u64::saturating_add)
    }
}

impl std::ops::AddAssign for Usage {
    fn add_assign(&mut self, more: Usage) {
        self.input = self.input.saturating_add(more.input);
        self.output = self.output.saturating_add(more.output);
        self.cache_read = self.cache_read.saturating_add(more.cache_read);
        self.cache_write = self.cache_write.saturating_add(more.cache_write);
        self.reasoning = self.reasoning.saturating_add(more.reasoning);
    }
}
