//! [`Entry`]: one block of the transcript.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{
    AssistantMessage, CallId, Content, ContentPart, MessageId, MessageKind, ToolResult,
};
use loopwright_core::tool::Progress;
use serde_json::Value;

use super::effect::{Choice, Tone};

/// Maximum number of bytes of a running tool's output that are retained. When it is full, half is
/// dropped.
const MAX_TAIL_BYTES: usize = 32 * 1024;

/// A block of the transcript. Its layout can be cached while `id` and `revision` are the same.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Unique within the process.
    pub(crate) id: u64,
    /// The number of changes of the content.
    pub(crate) revision: u32,
    /// The message that contains it.
    pub(crate) from: Option<MessageId>,
    /// The user's choice to open or close it; otherwise the setting for its kind applies.
    pub(crate) open: Option<bool>,
    pub(crate) kind: Kind,
}

/// The content of a block.
#[derive(Debug)]
pub(crate) enum Kind {
    /// A message of the user.
    User(Arc<Message>),
    /// The name of who speaks in the next block, a detached reply.
    Speaker(Arc<str>),
    /// Text of a reply.
    Text(ReplyText),
    /// Thinking of the model.
    Thinking(Thought),
    /// A call of a tool.
    Tool(Box<ToolEntry>),
    /// A notice of the application.
    Notice(Tone, String),
    /// Names with descriptions; an empty name is an empty line.
    Table(Vec<Choice>),
    /// The greeting of a new conversation, with the root directory.
    Welcome(String),
}

/// Text of a reply.
#[derive(Debug)]
pub(crate) enum ReplyText {
    /// The text received so far.
    Streaming(String),
    /// A part of a complete message.
    Complete(Arc<Message>, usize),
}

impl ReplyText {
    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        match self {
            ReplyText::Streaming(text) => text,
            ReplyText::Complete(message, part) => match &message.body {
                MessageKind::Assistant(reply) => text_of_part(reply, *part),
                MessageKind::Detached(shown) => text_of_part(&shown.reply, *part),
                _ => "",
            },
        }
    }

    /// Returns whether the message is complete.
    pub(crate) fn is_complete(&self) -> bool {
        matches!(self, ReplyText::Complete(..))
    }
}

fn text_of_part(reply: &AssistantMessage, part: usize) -> &str {
    match reply.parts.get(part) {
        Some(ContentPart::Text { text, .. } | ContentPart::Thinking { text, .. }) => text,
        _ => "",
    }
}

/// Thinking of the model.
#[derive(Debug)]
pub(crate) struct Thought {
    pub(crate) text: ReplyText,
    /// The times at which it started and last grew, in milliseconds; `None` if it was read from a
    /// log.
    pub(crate) time: Option<(u64, u64)>,
}

/// The phase of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The model is writing the arguments.
    Writing,
    /// Written and not started.
    Waiting,
    /// Pending: the user decides.
    Asking,
    Running,
    /// Ended with a result.
    Done,
}

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct ToolEntry {
    pub(crate) call: Option<CallId>,
    pub(crate) name: Arc<str>,
    /// The arguments as far as the model has written them.
    pub(crate) raw: String,
    /// The arguments as the model wrote them, from its message; `raw` is empty then.
    pub(crate) written: Option<Arc<str>>,
    /// The arguments that the call runs with, once known.
    pub(crate) arguments: Option<Arc<Value>>,
    pub(crate) phase: Phase,
    /// The end of its output.
    pub(crate) tail: String,
    pub(crate) progress: Option<Progress>,
    /// The pending actions of the sub-agent that works for it, each with its description.
    pub(crate) awaits: Vec<(CallId, String)>,
    pub(crate) result: Option<Arc<Message>>,
    /// The times at which it started and ended, in milliseconds.
    pub(crate) began: Option<u64>,
    pub(crate) ended: Option<u64>,
    /// `true` if a later call shows what this one did.
    pub(crate) is_hidden: bool,
}

impl ToolEntry {
    /// Creates a call that the model has begun to write.
    pub(crate) fn new(name: Arc<str>) -> Self {
        ToolEntry {
            call: None,
            name,
            raw: String::new(),
            written: None,
            arguments: None,
            phase: Phase::Writing,
            tail: String::new(),
            progress: None,
            awaits: Vec::new(),
            result: None,
            began: None,
            ended: None,
            is_hidden: false,
        }
    }

    /// Appends output.
    pub(crate) fn append_output(&mut self, text: &str) {
        self.tail.push_str(text);
        if self.tail.len() > MAX_TAIL_BYTES {
            let least = self.tail.len() - MAX_TAIL_BYTES / 2;
            let from = self.tail.as_bytes()[least..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map(|at| least + at + 1);
            let from = from.unwrap_or_else(|| self.tail.ceil_char_boundary(least));
            self.tail.drain(..from);
        }
    }

    /// Returns whether it is running, and not only waiting for decisions of the user.
    pub(crate) fn is_running(&self) -> bool {
        self.phase == Phase::Running && self.awaits.is_empty()
    }

    /// Returns the result, or `None` if the call has none yet.
    pub(crate) fn result(&self) -> Option<&ToolResult> {
        self.result.as_deref().and_then(Message::as_tool_result)
    }

    /// Returns the JSON of the arguments as far as the model has written it.
    pub(crate) fn raw(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.raw)
    }

    /// Returns the arguments as a value, if they are complete and valid JSON.
    pub(crate) fn value(&self) -> Option<Cow<'_, Value>> {
        match &self.arguments {
            Some(arguments) => Some(Cow::Borrowed(arguments)),
            None if self.phase == Phase::Writing => None,
            None => serde_json::from_str(self.raw()).ok().map(Cow::Owned),
        }
    }
}

impl Entry {
    /// Returns whether the block can be folded.
    pub(crate) fn folds(&self) -> bool {
        matches!(self.kind, Kind::Thinking(_) | Kind::Tool(_)) && !self.is_hidden()
    }

    /// Returns whether the block takes no place on the screen.
    pub(crate) fn is_hidden(&self) -> bool {
        matches!(&self.kind, Kind::Tool(tool) if tool.is_hidden)
    }

    /// Records a change of the content.
    pub(crate) fn changed(&mut self) {
        self.revision = self.revision.wrapping_add(1);
    }
}

/// Returns the text of a user message, with images as their media types.
pub(crate) fn user_text(message: &Message) -> String {
    let MessageKind::User(message) = &message.body else {
        return message.text();
    };
    let text = |content: &Content| match content {
        Content::Text { text } => text.clone(),
        Content::Image { media_type, .. } => format!("[{media_type}]"),
        _ => String::new(),
    };
    message.content.iter().map(text).collect()
}
