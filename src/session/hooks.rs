//! Hooks: places where an agent's behaviour can be changed without a pattern of its own.

use std::future::Future;
use std::sync::Arc;

use futures::future::BoxFuture;
use serde_json::Value;

use crate::extensions::Extensions;
use crate::message::{CallId, Message, ToolResult, UserMessage};
use crate::tool::ToolSpec;

/// Sees each text part as it streams, before anybody else does.
pub type FnHandleStepTextPart = Arc<dyn Fn(TextPart<'_>) -> TextAction + Send + Sync>;
/// Sees each complete reply, before it is decided whether the loop goes on. An interrupt does not
/// cut it.
pub type FnHandleBeforeEnd = Arc<dyn Fn(EndCheck) -> BoxFuture<'static, BeforeEnd> + Send + Sync>;
/// Sees each validated call before it runs or is put to the user, in source order. An interrupt
/// does not cut it.
pub type FnBeforeToolCall =
    Arc<dyn Fn(ToolCallInfo) -> BoxFuture<'static, BeforeToolCall> + Send + Sync>;
/// Sees the result of each call that ran, and may change it.
pub type FnAfterToolCall =
    Arc<dyn Fn(ToolCallInfo, ToolResult) -> BoxFuture<'static, ToolResult> + Send + Sync>;
/// Makes the conversation of a request out of the history: prunes, injects. It costs a copy of the
/// list of messages (not of the messages) at each request.
///
/// Some models refuse a thought of theirs once what came before it has changed; the documentation
/// of a provider's format says which. For these, what a hook once made of the past it should make
/// of it each time, or take the thoughts out.
pub type FnTransformContext =
    Arc<dyn Fn(Vec<Arc<Message>>) -> BoxFuture<'static, Vec<Arc<Message>>> + Send + Sync>;
/// Turns messages into what a model is shown, after `transform_context`, at the same cost.
pub type FnConvertToLlm = Arc<dyn Fn(Vec<Arc<Message>>) -> Vec<Arc<Message>> + Send + Sync>;
/// Whether the next request offers a tool.
pub type FnPrepareTools = Arc<dyn Fn(&PrepareTools<'_>, &ToolSpec) -> bool + Send + Sync>;

/// A piece of text that a model streams.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TextPart<'a> {
    /// What was held back so far, and what has come now.
    pub text: &'a str,
    /// The text block ends with this piece; it comes once more, perhaps with nothing new.
    pub last: bool,
}

/// What becomes of a [`TextPart`].
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum TextAction {
    /// It is text of the reply.
    #[default]
    Show,
    /// This is text of the reply instead; nothing swallows it.
    Replace(String),
    /// It comes again with the next piece in front. At the end of the block it is shown.
    Hold,
    /// It is tool calls, with what is left as text.
    Calls {
        /// Text to show.
        text: String,
        /// Names and raw JSON arguments.
        calls: Vec<(String, String)>,
    },
}

/// A complete reply.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct EndCheck {
    /// The session.
    pub session_id: Arc<str>,
    /// The reply: its whole text, its calls.
    pub reply: Arc<Message>,
    /// The host's values.
    pub extensions: Extensions,
}

/// Whether the loop goes on after a reply.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum BeforeEnd {
    /// As the pattern does it.
    #[default]
    Default,
    /// The loop goes on: this message is delivered after the reply's calls, like a steer that waits
    /// for the turn.
    Continue(UserMessage),
    /// The run ends. Calls of the reply are answered "skipped", and what is queued stays queued.
    End,
}

/// A validated call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCallInfo {
    /// The session.
    pub session_id: Arc<str>,
    /// The call.
    pub call: CallId,
    /// What the tool is.
    pub tool: Arc<ToolSpec>,
    /// The arguments after coercion.
    pub arguments: Arc<Value>,
    /// The host's values.
    pub extensions: Extensions,
}

/// What becomes of a call.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum BeforeToolCall {
    /// It goes on.
    #[default]
    Proceed,
    /// It goes on with these arguments, which are validated again.
    Rewrite(Value),
    /// It does not run; the model is told why.
    Block(String),
}

/// What `prepare_tools` is told of the request.
#[derive(Debug)]
#[non_exhaustive]
pub struct PrepareTools<'a> {
    /// The turn that the request belongs to.
    pub turn: u32,
    /// The conversation.
    pub messages: &'a [Arc<Message>],
    /// The host's values.
    pub extensions: &'a Extensions,
}

/// The hooks of an agent.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) text_part: Option<FnHandleStepTextPart>,
    pub(crate) before_end: Option<FnHandleBeforeEnd>,
    pub(crate) before_tool_call: Option<FnBeforeToolCall>,
    pub(crate) after_tool_call: Option<FnAfterToolCall>,
    pub(crate) transform_context: Option<FnTransformContext>,
    pub(crate) convert_to_llm: Option<FnConvertToLlm>,
    pub(crate) prepare_tools: Option<FnPrepareTools>,
}

/// A hook of an async function of one value.
pub(crate) fn boxed<A, R, Fut>(
    f: impl Fn(A) -> Fut + Send + Sync + 'static,
) -> Arc<dyn Fn(A) -> BoxFuture<'static, R> + Send + Sync>
where
    Fut: Future<Output = R> + Send + 'static,
{
    Arc::new(move |a| Box::pin(f(a)))
}
