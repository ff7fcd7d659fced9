//! The extension point for compaction: [`CompactionPolicy`], which keeps a conversation inside the
//! model's context window.

use std::ops::Range;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::message::{
    AssistantMessage, Content, ContentPart, Message, MessageId, MessageKind, StopReason, Usage,
    UserMessage,
};
use crate::tool::ToolSpec;

/// A policy that selects the messages that later requests leave out, and their replacement.
///
/// A policy does no I/O: it plans, and the session sends the request for a summary and writes the
/// result to the log. The log keeps every message. `loopwright_memory::SummaryCompaction` is a
/// complete policy. Write your own to replace other messages, or to use another text.
///
/// # Contract
///
/// - [`plan`](CompactionPolicy::plan) is called before every request, so it should return at once
///   while [`CompactionContext::tokens`] is below its threshold. It is also called after a request
///   that was too large, and when the user asks. [`CompactionContext::why`] contains the reason.
/// - A plan must not separate a call from its results, and must keep the last message. An invalid
///   plan ends the run with [`StepError::CompactionPlan`](crate::StepError::CompactionPlan).
/// - Both methods must depend on their arguments only, because one policy serves all sessions, and
///   a session can be resumed in another process. [`Replacement::details`] stores data of the
///   policy.
/// - Both methods are synchronous, so they cannot be cancelled. If the run is aborted during the
///   request for the summary, [`finish`](CompactionPolicy::finish) is not called and the
///   conversation is unchanged.
///
/// # Example
///
/// A policy without a summary, which keeps the last ten messages:
///
/// ```
/// use loopwright_core::compaction::{
///     CompactionContext, CompactionPlan, CompactionPolicy, Replacement,
/// };
///
/// struct KeepLast;
///
/// impl CompactionPolicy for KeepLast {
///     fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan> {
///         let mut end = context.messages.len().checked_sub(10)?;
///         // Results of tool calls stay with their calls.
///         while context.messages[end].as_tool_result().is_some() {
///             end -= 1;
///         }
///         let too_long = context.tokens > context.window(None)? / 2;
///         (too_long && end > 0).then(|| CompactionPlan::new(0..end))
///     }
///
///     fn finish(
///         &self,
///         _: &CompactionContext<'_>,
///         _: &CompactionPlan,
///         _: Option<&str>,
///     ) -> Replacement {
///         Replacement::new("(Earlier messages were left out.)")
///     }
/// }
///
/// use std::sync::Arc;
///
/// use loopwright_core::Message;
/// use loopwright_core::compaction::CompactionCause;
/// use loopwright_core::message::{MessageId, UserMessage};
///
/// let message = |n| Arc::new(Message::new(MessageId(n), UserMessage::from("Hello.")));
/// let messages: Vec<_> = (1..=12).map(message).collect();
/// let why = CompactionCause::Threshold;
/// let context = CompactionContext::new(&messages, &why).windows(&|_| Some(100));
/// assert_eq!(KeepLast.plan(&context).unwrap().replaces, 0..2);
/// ```
pub trait CompactionPolicy: Send + Sync {
    /// Returns the messages to replace, or `None` if no compaction is needed or possible.
    fn plan(&self, context: &CompactionContext<'_>) -> Option<CompactionPlan>;

    /// Returns the message that replaces the messages of the plan.
    ///
    /// `summary` is `None` if the plan requested none or the request failed. The messages are then
    /// left out, and the replacement should mention that. A summary that reached its token limit
    /// ends with " […]".
    fn finish(
        &self,
        context: &CompactionContext<'_>,
        plan: &CompactionPlan,
        summary: Option<&str>,
    ) -> Replacement;
}

/// The conversation for which a policy plans.
#[derive(Clone, Copy)]
#[non_exhaustive]
pub struct CompactionContext<'a> {
    /// The messages of the next request, before hooks.
    pub messages: &'a [Arc<Message>],
    /// Size of that request in tokens: the provider's count for the last request, and an estimate
    /// for the messages added since.
    pub tokens: u64,
    /// Estimated tokens of the system prompt and the tools.
    pub overhead: u64,
    /// Maximum number of tokens of the reply, if known.
    pub max_output: Option<u64>,
    /// The reason for calling the policy.
    pub why: &'a CompactionCause,
    /// The message that last replaced others, with the [details](Replacement::details) stored for
    /// it.
    pub last: Option<(MessageId, &'a Value)>,
    pub(crate) windows: &'a dyn Fn(Option<&str>) -> Option<u64>,
}

impl<'a> CompactionContext<'a> {
    /// Builds a context for a test of a policy, with estimated tokens and unknown windows. The test
    /// can change the fields.
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

    /// Sets the function that returns the context windows of models.
    pub fn windows(mut self, windows: &'a dyn Fn(Option<&str>) -> Option<u64>) -> Self {
        self.windows = windows;
        self
    }

    /// Returns the context window in tokens, if known, of the agent's model with this name, or of
    /// the request's model if the name is `None`.
    pub fn window(&self, model: Option<&str>) -> Option<u64> {
        (self.windows)(model)
    }
}

/// The cause of a compaction.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum CompactionCause {
    /// A request is about to be sent.
    Threshold,
    /// The model rejected a request as too large.
    Overflow,
    /// A user or a pattern requested it.
    Asked {
        /// Instructions for the summary.
        instructions: Option<Arc<str>>,
    },
}

/// A plan to replace a range of messages.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct CompactionPlan {
    /// Indices of the messages. The range must contain either all or none of a call and its
    /// results, and not the last message. Otherwise the run ends with an error.
    pub replaces: Range<usize>,
    /// The request for a summary; `None` leaves the messages out without a summary.
    pub summary: Option<SummaryRequest>,
    /// `true` to plan again afterwards, because one request cannot summarise all messages.
    pub more: bool,
    /// `true` if the next request fits without the compaction. If so, a failed summary replaces
    /// nothing, and no other is requested until the conversation has grown by a sixteenth.
    pub fits: bool,
}

impl CompactionPlan {
    /// Plans to leave these messages out without a summary.
    pub fn new(replaces: Range<usize>) -> Self {
        CompactionPlan { replaces, summary: None, more: false, fits: false }
    }

    /// Sets the request for a summary.
    pub fn summary(mut self, request: SummaryRequest) -> Self {
        self.summary = Some(request);
        self
    }

    /// Sets whether to plan again afterwards.
    pub fn more(mut self, more: bool) -> Self {
        self.more = more;
        self
    }

    /// Sets whether the next request fits without the compaction.
    pub fn fits(mut self, fits: bool) -> Self {
        self.fits = fits;
        self
    }
}

/// A request for a summary. It is sent as a detached request without tools, and counts against the
/// limits.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct SummaryRequest {
    /// Name of one of the agent's models; `None` means the conversation's model.
    pub model: Option<String>,
    /// The system prompt.
    pub system: Arc<str>,
    /// The messages to summarise, and instructions.
    pub message: UserMessage,
    /// Maximum number of tokens of the reply, including thinking. The model's own maximum applies
    /// too.
    pub max_tokens: Option<u32>,
}

impl SummaryRequest {
    /// Builds a request to the conversation's model.
    pub fn new(system: impl Into<Arc<str>>, message: impl Into<UserMessage>) -> Self {
        SummaryRequest {
            model: None,
            system: system.into(),
            message: message.into(),
            max_tokens: None,
        }
    }

    /// Sends the request to the agent's model with this name.
    pub fn model(mut self, name: impl Into<String>) -> Self {
        self.model = Some(name.into());
        self
    }

    /// Sets the maximum number of tokens of the reply.
    pub fn max_tokens(mut self, tokens: u32) -> Self {
        self.max_tokens = Some(tokens);
        self
    }
}

/// The message that replaces others, with data of the policy.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Replacement {
    /// The message in place of the others.
    pub message: UserMessage,
    /// The policy's data, for [`CompactionContext::last`]; never sent to a model.
    pub details: Value,
}

impl Replacement {
    /// Builds a replacement without data.
    pub fn new(message: impl Into<UserMessage>) -> Self {
        Replacement { message: message.into(), details: Value::Null }
    }

    /// Sets the policy's data.
    pub fn details(mut self, details: Value) -> Self {
        self.details = details;
        self
    }
}

/// A completed compaction.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Compaction {
    /// The cause of the compaction.
    pub why: CompactionCause,
    /// The first message that was replaced.
    pub first: MessageId,
    /// The last message that was replaced.
    pub last: MessageId,
    /// Number of messages that were replaced.
    pub messages: usize,
    /// The message that replaces them.
    pub message: Arc<Message>,
    /// `true` if that message contains a summary. Otherwise the messages were left out.
    pub summarised: bool,
    /// The error, if a requested summary failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// Estimated tokens of the conversation before the compaction, without system prompt and tools.
    pub tokens_before: u64,
    /// Estimated tokens of the conversation after it, likewise.
    pub tokens_after: u64,
}

/// Checks that these messages may be replaced.
pub(crate) fn check_range(messages: &[Arc<Message>], range: &Range<usize>) -> Result<(), String> {
    let splits = |at: usize| messages.get(at).is_some_and(|m| m.as_tool_result().is_some());
    if range.start >= range.end || range.end > messages.len() {
        return Err(format!("messages {range:?} are not a range of {} messages", messages.len()));
    }
    if range.end == messages.len() {
        return Err("the last message must stay, or there is nothing to answer".into());
    }
    if splits(range.start) || splits(range.end) {
        return Err(format!(
            "messages {range:?} have calls without their results, or results without their calls"
        ));
    }
    Ok(())
}

/// Estimated tokens of a message in addition to its text.
const TOKENS_PER_MESSAGE: u64 = 8;
/// Estimated tokens of an image, about the maximum of all providers.
const TOKENS_PER_IMAGE: u64 = 2_000;

/// Estimates the tokens of a text of this many bytes, rather too high than too low.
pub(crate) fn tokens_of(bytes: usize) -> u64 {
    (bytes as u64).div_ceil(3)
}

impl Message {
    /// Estimates the tokens of the message, rather too high than too low: one token for three bytes
    /// of text, and 2,000 tokens for an image.
    pub fn tokens(&self) -> u64 {
        let content = match &self.body {
            MessageKind::User(user) => content_tokens(&user.content),
            MessageKind::Assistant(reply) => reply_tokens(reply),
            MessageKind::ToolResult(result) => content_tokens(&result.content),
            MessageKind::Custom(_) | MessageKind::Detached(_) => 0,
        };
        TOKENS_PER_MESSAGE + content
    }
}

fn content_tokens(content: &[Content]) -> u64 {
    let tokens = |item: &Content| match item {
        Content::Text { text } => tokens_of(text.len()),
        Content::Image { .. } => TOKENS_PER_IMAGE,
    };
    content.iter().map(tokens).sum()
}

fn reply_tokens(reply: &AssistantMessage) -> u64 {
    let part = |part: &ContentPart| match part {
        ContentPart::Text { text, .. } => tokens_of(text.len()),
        ContentPart::Thinking { text, signature } => {
            tokens_of(text.len().max(signature.as_ref().map_or(0, |s| s.len())))
        }
        ContentPart::ToolCall(call) => {
            TOKENS_PER_MESSAGE + tokens_of(call.name.len() + call.arguments.len())
        }
    };
    reply.parts.iter().map(part).sum()
}

/// Estimates the tokens of a tool in a request that offers it.
pub(crate) fn tool_tokens(tool: &ToolSpec) -> u64 {
    let bytes = tool.name.len() + tool.description.len() + tool.schema.to_string().len();
    TOKENS_PER_MESSAGE + tokens_of(bytes)
}

/// The size of the conversation in requests, in tokens.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct ContextSize {
    /// Estimated tokens of the messages.
    pub(crate) messages: u64,
    /// The provider's count for a request and its reply, with the estimate of the messages at that
    /// time.
    counted: Option<(u64, u64)>,
    /// Tokens of that request that the provider has cached.
    cached: u64,
}

impl ContextSize {
    pub(crate) fn add(&mut self, message: &Message) {
        self.messages += message.tokens();
    }

    /// Uses the provider's count of the last reply. A count that is far too low is ignored: the
    /// request did not contain the conversation, or the server truncated it. Counts of cut-off
    /// replies are ignored too: they were reported too early.
    pub(crate) fn count(&mut self, reply: &AssistantMessage) {
        use StopReason::{Aborted, Error, Interrupted};
        if matches!(reply.stop, Aborted | Error | Interrupted) {
            return;
        }
        let (usage, counted) = (&reply.usage, reply.usage.context());
        if usage.total() > usage.output && counted >= self.messages / 4 {
            self.counted = Some((counted, self.messages));
            self.cached = usage.cache_read.saturating_add(usage.cache_write);
        }
    }

    /// Replaces messages of `old` tokens with a message of `new` tokens. The provider's count no
    /// longer applies.
    pub(crate) fn replace(&mut self, old: u64, new: u64) {
        (self.messages, self.counted) = (self.messages.saturating_sub(old) + new, None);
        self.cached = 0;
    }

    /// Estimates the size of other messages. The provider's count no longer applies.
    pub(crate) fn recount(&mut self, messages: &[Arc<Message>]) {
        let messages = messages.iter().map(|message| message.tokens()).sum();
        *self = ContextSize { messages, ..Self::default() };
    }

    /// Returns the tokens of a request whose system prompt and tools have `overhead` tokens.
    pub(crate) fn tokens(&self, overhead: u64) -> u64 {
        match self.counted {
            Some((counted, then)) => counted.saturating_add(self.messages.saturating_sub(then)),
            None => self.messages + overhead,
        }
    }

    /// Estimates the usage of a request's input, like [`ContextSize::tokens`]. Cached tokens are
    /// expected to be read from the cache.
    pub(crate) fn input(&self, overhead: u64) -> Usage {
        let tokens = self.tokens(overhead);
        let cached = self.cached.min(tokens);
        Usage::new(tokens - cached, 0).cache(cached, 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_requests_for_a_reply_do_not_make_the_conversation_longer() {
        let mut size = ContextSize::default();
        let reply = |usage| AssistantMessage::new(Vec::new()).usage(usage);
        size.count(&reply(Usage::new(700, 300)));
        assert_eq!(size.tokens(0), 1000);
        size.count(&reply(Usage::new(60_000, 3000).outside_context(61_500)));
        assert_eq!(size.tokens(0), 1500);
    }
}
