//! The compaction seam: [`CompactionPolicy`], which keeps a conversation inside the model's context
//! window.

use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{
    AssistantMessage, Content, ContentPart, Message, MessageId, MessageKind, UserMessage,
};
use crate::tool::ToolSpec;

/// Decides which messages are replaced in the requests to come, and by what. It does no I/O: the
/// engine asks for the summary, and writes what comes of it. The log keeps every message.
///
/// `loopwright_memory::Compacting` is the one to use; write your own to replace something else, or
/// in other words.
pub trait CompactionPolicy: Send + Sync {
    /// What to replace; nothing where nothing has to be, or nothing can be.
    ///
    /// Asked before each request, so it should cost no more than a look at
    /// [`CompactionContext::tokens`] where there is room; again after a request that was too large;
    /// and where somebody asked for it.
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan>;

    /// What stands for the messages of the plan from here on. Without a summary (none was planned,
    /// or it could not be had) they are left out, and the message should say so. A summary that the
    /// model did not get to the end of ends with " […]".
    fn finish(
        &self,
        context: &CompactionContext<'_>,
        plan: &CompactionPlan,
        summary: Option<&str>,
    ) -> Replacement;
}

/// A conversation that may have to be compacted.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct CompactionContext<'a> {
    /// What the next request would show the model, before hooks.
    pub messages: &'a [Arc<Message>],
    /// Tokens of that request: what the provider counted for the last one, and an estimate of what
    /// has come since.
    pub tokens: u64,
    /// An estimate of what the request has besides messages: the system prompt and the tools.
    pub overhead: u64,
    /// The most tokens that the reply may have, if known.
    pub max_output: Option<u64>,
    /// Why it is asked.
    pub why: &'a CompactionCause,
    /// The message that took the place of others last, and what was kept with it.
    pub last: Option<(MessageId, &'a Value)>,
    pub(crate) windows: &'a dyn Fn(Option<&str>) -> Option<u64>,
}

impl<'a> CompactionContext<'a> {
    /// A conversation for a test of a policy: its tokens by estimate, and no window known. The
    /// fields can be set.
    pub fn new(messages: &'a [Arc<Message>], why: &'a CompactionCause) -> Self {
        let tokens = messages.iter().map(|m| m.tokens()).sum();
        let windows = &|_: Option<&str>| None;
        CompactionContext {
            messages,
            tokens,
            overhead: 0,
            max_output: None,
            why,
            last: None,
            windows,
        }
    }

    /// With these windows of models: what [`CompactionContext::window`] answers.
    pub fn windows(mut self, windows: &'a dyn Fn(Option<&str>) -> Option<u64>) -> Self {
        self.windows = windows;
        self
    }

    /// The context window, in tokens and if known, of the model that was given under this name;
    /// without a name, of the model that the request goes to.
    pub fn window(&self, model: Option<&str>) -> Option<u64> {
        (self.windows)(model)
    }
}

/// Why a conversation is compacted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionCause {
    /// A request is about to go out.
    Threshold,
    /// The model refused a request as too large.
    Overflow,
    /// Somebody asked for it.
    Asked {
        /// What the summary should mind.
        instructions: Option<Arc<str>>,
    },
}

/// What is to be replaced.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompactionPlan {
    /// Which messages. A call and its results are all in it or none is, and the last message is
    /// not: an illegal plan ends the run with an error.
    pub replaces: Range<usize>,
    /// How to ask for their summary; nothing leaves them out without one.
    pub summary: Option<SummaryRequest>,
    /// Whether to plan again afterwards: there is more to replace than one summary can be asked
    /// for.
    pub more: bool,
    /// Whether the request that is about to go out fits as it is. Then, where the summary cannot be
    /// had, nothing is replaced, and none is asked for again until the conversation has grown by a
    /// sixteenth.
    pub fits: bool,
}

impl CompactionPlan {
    /// These messages are left out, without a summary.
    pub fn new(replaces: Range<usize>) -> Self {
        CompactionPlan { replaces, summary: None, more: false, fits: false }
    }

    /// With a summary of them.
    pub fn summary(mut self, request: SummaryRequest) -> Self {
        self.summary = Some(request);
        self
    }

    /// With more to replace afterwards.
    pub fn more(mut self, more: bool) -> Self {
        self.more = more;
        self
    }

    /// Of a request that fits as it is, or does not.
    pub fn fits(mut self, fits: bool) -> Self {
        self.fits = fits;
        self
    }
}

/// A request for a summary. It goes out as an aside: without tools, logged, and counted against the
/// limits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// The model that was given under this name; without one, the model of the conversation.
    pub model: Option<String>,
    /// The system prompt.
    pub system: Arc<str>,
    /// What is to be summarised, and how.
    pub message: UserMessage,
    /// The most tokens of the reply, thoughts included; never more than the model can say.
    pub max_tokens: Option<u32>,
}

impl SummaryRequest {
    /// To the model of the conversation, with this system prompt.
    pub fn new(system: impl Into<Arc<str>>, message: impl Into<UserMessage>) -> Self {
        SummaryRequest {
            model: None,
            system: system.into(),
            message: message.into(),
            max_tokens: None,
        }
    }

    /// To the model that was given under this name.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// With a bound for the reply.
    pub fn max_tokens(mut self, most: u32) -> Self {
        self.max_tokens = Some(most);
        self
    }
}

/// What stands for the messages that are replaced.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Replacement {
    /// The message in their place.
    pub message: UserMessage,
    /// The policy's own data, for [`CompactionContext::last`]; never sent to a model.
    pub details: Value,
}

impl Replacement {
    /// This message, and nothing kept with it.
    pub fn new(message: impl Into<UserMessage>) -> Self {
        Replacement { message: message.into(), details: Value::Null }
    }

    /// With data for the policy itself.
    pub fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}

/// What a compaction has done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Compaction {
    /// Why.
    pub why: CompactionCause,
    /// The first message that was replaced.
    pub first: MessageId,
    /// The last one.
    pub last: MessageId,
    /// How many were.
    pub messages: usize,
    /// What the model is shown in their place.
    pub message: Arc<Message>,
    /// Whether it has a summary of them; they were only left out otherwise.
    pub summarised: bool,
    /// Why there is no summary, where there was to be one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// An estimate of the conversation's tokens before, without system prompt and tools.
    pub tokens_before: u64,
    /// The same afterwards.
    pub tokens_after: u64,
}

/// Why these messages may not be replaced, if they may not.
pub(crate) fn check_range(messages: &[Arc<Message>], range: &Range<usize>) -> Result<(), String> {
    let splits = |at: usize| messages.get(at).is_some_and(|m| m.as_tool_result().is_some());
    if range.start >= range.end || range.end > messages.len() {
        return Err(format!("messages {range:?} are not some of the {} there are", messages.len()));
    }
    if range.end == messages.len() {
        return Err("the last message has to stay, or there is nothing to answer".into());
    }
    if splits(range.start) || splits(range.end) {
        return Err(format!(
            "messages {range:?} have calls without their results, or results without their calls"
        ));
    }
    Ok(())
}

/// What each message costs besides its words.
const MESSAGE: u64 = 8;
/// What an image costs, about as much as the providers' largest.
const IMAGE: u64 = 2_000;

/// Tokens of this many bytes of text: rather too many than too few.
pub(crate) fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(3)
}

impl Message {
    /// An estimate of its tokens, rather too many than too few: a token for three bytes of text,
    /// 2,000 for an image.
    pub fn tokens(&self) -> u64 {
        let words = match &self.body {
            MessageKind::User(said) => content(&said.content),
            MessageKind::Assistant(said) => reply(said),
            MessageKind::ToolResult(result) => content(&result.content),
            MessageKind::Custom(_) => 0,
        };
        MESSAGE + words
    }
}

fn content(pieces: &[Content]) -> u64 {
    let piece = |piece: &Content| match piece {
        Content::Text { text } => tokens_of(text.len()),
        Content::Image { .. } => IMAGE,
    };
    pieces.iter().map(piece).sum()
}

fn reply(said: &AssistantMessage) -> u64 {
    let part = |part: &ContentPart| match part {
        ContentPart::Text { text, .. } => tokens_of(text.len()),
        ContentPart::Thinking { text, signature } => {
            tokens_of(text.len().max(signature.as_ref().map_or(0, |s| s.len())))
        }
        ContentPart::ToolCall(call) => MESSAGE + tokens_of(call.name.len() + call.arguments.len()),
    };
    said.parts.iter().map(part).sum()
}

/// The same for what a tool costs in each request that offers it.
pub(crate) fn tool_tokens(tool: &ToolSpec) -> u64 {
    MESSAGE + tokens_of(tool.name.len() + tool.description.len() + tool.schema.to_string().len())
}

/// How large the conversation is that a model is shown.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Load {
    /// Its messages, by estimate.
    pub(crate) messages: u64,
    /// What a provider has counted for a request and its reply, and the estimate of the messages
    /// then.
    counted: Option<(u64, u64)>,
}

impl Load {
    pub(crate) fn add(&mut self, message: &Message) {
        self.messages += message.tokens();
    }

    /// The reply at the end of the conversation came with this count. One that is far too small is
    /// of a request that did not show the conversation, or of a server that cut it.
    pub(crate) fn count(&mut self, reply: &AssistantMessage) {
        let counted = reply.usage.total();
        if counted > reply.usage.output && counted >= self.messages / 4 {
            self.counted = Some((counted, self.messages));
        }
    }

    /// Messages of this size were replaced by one of that size: what was counted counts no more.
    pub(crate) fn replace(&mut self, old: u64, new: u64) {
        (self.messages, self.counted) = (self.messages.saturating_sub(old) + new, None);
    }

    /// Tokens of a request, of which so many are not messages.
    pub(crate) fn tokens(&self, overhead: u64) -> u64 {
        match self.counted {
            Some((counted, then)) => counted + self.messages.saturating_sub(then),
            None => self.messages + overhead,
        }
    }
}
