//! One block of the transcript.

use std::borrow::Cow;
use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{CallId, Content, ContentPart, MessageId, MessageKind, ToolResult};
use loopwright_core::tool::Progress;
use serde_json::Value;

use super::effect::{Choice, Tone};

/// The most of a running tool's output that is kept, in bytes; half of it stays when it is full.
const TAIL: usize = 32 * 1024;

/// One block of the transcript. A view may keep what it made of it for as long as `id` and
/// `revision` are the same.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Never given twice.
    pub(crate) id: u64,
    /// Counts the changes of its content.
    pub(crate) revision: u32,
    /// The message that it is a part of.
    pub(crate) from: Option<MessageId>,
    /// Opened or closed by hand; otherwise it is as all of its kind are.
    pub(crate) open: Option<bool>,
    /// What it is.
    pub(crate) kind: Kind,
}

/// What a block is.
#[derive(Debug)]
pub(crate) enum Kind {
    /// What the user said.
    User(Arc<Message>),
    /// What the model says.
    Text(Said),
    /// What the model thinks.
    Thinking(Thought),
    /// A call of a tool.
    Tool(Box<ToolEntry>),
    /// Something that the application says.
    Notice(Tone, String),
    /// Names, and what is to be said of each; nothing stands for an empty line.
    Table(Vec<Choice>),
    /// How a new conversation begins: the directory.
    Welcome(String),
}

/// Text of a reply.
#[derive(Debug)]
pub(crate) enum Said {
    /// As far as it has come.
    Streaming(String),
    /// A part of a message.
    Whole(Arc<Message>, usize),
}

impl Said {
    /// The text.
    pub(crate) fn text(&self) -> &str {
        match self {
            Said::Streaming(text) => text,
            Said::Whole(message, part) => match &message.body {
                MessageKind::Assistant(reply) => match reply.parts.get(*part) {
                    Some(ContentPart::Text { text, .. } | ContentPart::Thinking { text, .. }) => {
                        text
                    }
                    _ => "",
                },
                _ => "",
            },
        }
    }

    /// No more will come.
    pub(crate) fn is_whole(&self) -> bool {
        matches!(self, Said::Whole(..))
    }
}

/// What the model thinks.
#[derive(Debug)]
pub(crate) struct Thought {
    pub(crate) said: Said,
    /// When it began and when more of it came last, in milliseconds; not known of what was read
    /// from a log.
    pub(crate) time: Option<(u64, u64)>,
}

/// How far a call is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// The model writes its arguments.
    Writing,
    /// It was written and does not run yet.
    Waiting,
    /// The user is asked.
    Asking,
    /// It runs.
    Running,
    /// It has its result.
    Done,
}

/// A call of a tool.
#[derive(Debug)]
pub(crate) struct ToolEntry {
    pub(crate) call: Option<CallId>,
    pub(crate) name: Arc<str>,
    /// The arguments as far as the model has written them.
    pub(crate) raw: String,
    /// The arguments as it wrote them, in its message; `raw` is empty then.
    pub(crate) written: Option<Arc<str>>,
    /// What runs, once that is known.
    pub(crate) arguments: Option<Arc<Value>>,
    pub(crate) phase: Phase,
    /// The last of what it has put out.
    pub(crate) tail: String,
    pub(crate) progress: Option<Progress>,
    pub(crate) result: Option<Arc<Message>>,
    /// When it began and ended to run, in milliseconds.
    pub(crate) began: Option<u64>,
    pub(crate) ended: Option<u64>,
}

impl ToolEntry {
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
            result: None,
            began: None,
            ended: None,
        }
    }

    /// More output.
    pub(crate) fn put_out(&mut self, text: &str) {
        self.tail.push_str(text);
        if self.tail.len() > TAIL {
            let least = self.tail.len() - TAIL / 2;
            let from = self.tail.as_bytes()[least..]
                .iter()
                .position(|byte| *byte == b'\n')
                .map(|at| least + at + 1);
            let from = from.unwrap_or_else(|| self.tail.ceil_char_boundary(least));
            self.tail.drain(..from);
        }
    }

    /// The result, if it has one.
    pub(crate) fn result(&self) -> Option<&ToolResult> {
        self.result.as_deref().and_then(Message::as_tool_result)
    }

    /// The arguments as the model wrote them, or as far as it has.
    pub(crate) fn raw(&self) -> &str {
        self.written.as_deref().unwrap_or(&self.raw)
    }

    /// The arguments as a value, where they are one.
    pub(crate) fn value(&self) -> Option<Cow<'_, Value>> {
        match &self.arguments {
            Some(arguments) => Some(Cow::Borrowed(arguments)),
            None if self.phase == Phase::Writing => None,
            None => serde_json::from_str(self.raw()).ok().map(Cow::Owned),
        }
    }
}

impl Entry {
    /// Whether it has something to fold.
    pub(crate) fn folds(&self) -> bool {
        matches!(self.kind, Kind::Thinking(_) | Kind::Tool(_))
    }

    /// Its content has changed.
    pub(crate) fn changed(&mut self) {
        self.revision = self.revision.wrapping_add(1);
    }
}

/// What the user said, images as words.
pub(crate) fn user_text(message: &Message) -> String {
    let MessageKind::User(said) = &message.body else {
        return message.text();
    };
    let piece = |piece: &Content| match piece {
        Content::Text { text } => text.clone(),
        Content::Image { media_type, .. } => format!("[{media_type}]"),
        _ => String::new(),
    };
    said.content.iter().map(piece).collect()
}
