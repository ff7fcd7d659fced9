//! Hooks: functions that observe and change what an agent does, without a new pattern.

pub(crate) mod conversation;

pub use self::conversation::Conversation;

use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::future::BoxFuture;
use serde_json::Value;

use crate::event::action::ExternalAction;
use crate::extensions::Extensions;
use crate::message::{CallId, Message, ToolResult, UserMessage};
use crate::principal::Principal;
use crate::tool::{ActionOptions, ToolSpec};

/// Hooks, which observe and change the behaviour of an agent at fixed points of its loop.
///
/// Each method has a default that changes nothing, so implement only the methods you need.
///
/// An agent has any number of hooks, which form layers. They run in the order in which
/// [`AgentBuilder::hook`](crate::AgentBuilder::hook) added them, followed by the hooks of the
/// request ([`Ask::hook`](crate::Ask::hook)), which do not see calls. Each layer sees the changes
/// of the layers before it. The first layer that answers [`BeforeToolCall::Block`] or
/// [`BeforeEnd::End`] decides, and later layers are not asked. Around a call the layers nest, and
/// the first one is the outermost. Adding a hook never removes another one.
///
/// # Contract
///
/// One value serves all sessions of the agent, possibly at the same time, so a hook must not keep
/// the state of a session in `self`. After a restart, a method may be called again for the same
/// reply, call or request. An interrupting steer does not cancel a hook. An abort, a limit and the
/// end of the session drop its future at an await. A panic ends the run with
/// [`StepError::Panicked`](crate::StepError::Panicked).
///
/// ```
/// use async_trait::async_trait;
/// use loopwright_core::hooks::{BeforeToolCall, HookContext, Hooks, ToolCallInfo};
///
/// /// Blocks every call of one tool.
/// struct Forbid(&'static str);
///
/// #[async_trait]
/// impl Hooks for Forbid {
///     async fn before_tool_call(&self, _: &HookContext, call: &ToolCallInfo) -> BeforeToolCall {
///         if &*call.tool.name == self.0 {
///             return BeforeToolCall::Block(format!("{} is not allowed here.", self.0));
///         }
///         BeforeToolCall::Proceed
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # use loopwright_core::testing::{Harness, Script, TestTool};
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Once;
/// # #[async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         let reply = step.ask().await?;
/// #         step.call_tools(&reply).await?;
/// #         Ok(StepEnd::Done)
/// #     }
/// # }
/// let rm = TestTool::new("rm");
/// let call = Script::calls([("c1", "rm", serde_json::json!({}))]);
/// let options = |agent: loopwright_core::AgentBuilder| {
///     agent.tool(rm.clone()).approve_all().hook(Forbid("rm"))
/// };
/// let harness = Harness::new(Once, [call], options).await;
/// harness.handle.prompt("Clean up.").await.unwrap();
/// assert_eq!(rm.ran(), 0);
/// # }
/// ```
#[async_trait]
pub trait Hooks: Send + Sync {
    /// Handles a part of text as it streams, before any subscriber sees it.
    fn on_text_part(&self, cx: &HookContext, part: TextPart<'_>) -> TextAction {
        let _ = (cx, part);
        TextAction::Show
    }

    /// Decides whether the loop continues after a complete reply, with its whole text and its
    /// calls. Hooks do not see failed or interrupted replies. If a later layer answers
    /// [`BeforeEnd::End`], the messages with which earlier layers wanted to continue are dropped.
    /// After an [answer at a limit](crate::limits::WrapUp), the run ends whatever hooks answer.
    async fn before_end(&self, cx: &HookContext, reply: &Arc<Message>) -> BeforeEnd {
        let _ = (cx, reply);
        BeforeEnd::Default
    }

    /// Decides whether a validated call proceeds, before it runs or is put to the user. Calls of a
    /// batch come one after the other, in source order.
    ///
    /// Before a call that the user has approved runs, the method is called again with the approved
    /// arguments. Then only [`BeforeToolCall::Block`] has an effect, unless the user has edited the
    /// arguments.
    async fn before_tool_call(&self, cx: &HookContext, call: &ToolCallInfo) -> BeforeToolCall {
        let _ = (cx, call);
        BeforeToolCall::Proceed
    }

    /// Runs a call and returns its result, which the log and the model get.
    ///
    /// The default returns the result of [`Next::run`]. A hook can do more before and after it,
    /// change the result, return another one without running the tool, or run the tool again. The
    /// id and the name in the result are always the call's.
    ///
    /// The hook is a part of the call, whose start is already in the log. The time limits of the
    /// call include the hook, all its runs and the time between them, and an abort stops them. The
    /// result of a call that was aborted keeps the status `aborted`. After a crash the hook and its
    /// call start again if the tool is read-only or idempotent. Otherwise the model learns that the
    /// outcome is unknown. So run a tool again only if its
    /// [effect](crate::tool::ToolSpec::effect) allows it.
    ///
    /// If the tool suspends, the hook's future is dropped, and the hook is called again with the
    /// call after the decision. It is also dropped if the tool stops without output. For a
    /// sub-agent the hook is called once the sub-agent has ended, and each run returns its result.
    async fn around_tool_call(
        &self,
        cx: &HookContext,
        call: &ToolCallInfo,
        next: Next<'_>,
    ) -> ToolResult {
        let _ = (cx, call);
        next.run().await
    }

    /// Builds the conversation of a request from the history, to prune or to inject. `None` leaves
    /// it unchanged.
    ///
    /// If the conversation was compacted, it contains the summary instead of the replaced messages.
    /// Custom messages are always included.
    ///
    /// Some models refuse their own thinking blocks if earlier messages have changed; see the
    /// documentation of the provider's format. So a hook must change past messages in the same way
    /// every time, or remove the thinking.
    async fn transform_context(
        &self,
        cx: &HookContext,
        messages: &Conversation,
    ) -> Option<Vec<Arc<Message>>> {
        let _ = (cx, messages);
        None
    }

    /// Converts messages for the model, after every
    /// [`transform_context`](Hooks::transform_context). `None` leaves them unchanged. If no layer
    /// converts, custom messages and replies without content for a model are left out.
    fn convert_to_llm(
        &self,
        cx: &HookContext,
        messages: &Conversation,
    ) -> Option<Vec<Arc<Message>>> {
        let _ = (cx, messages);
        None
    }

    /// Returns whether a request offers the tool. A tool is offered if every layer agrees.
    fn offers_tool(&self, cx: &HookContext, request: &RequestInfo<'_>, tool: &ToolSpec) -> bool {
        let _ = (cx, request, tool);
        true
    }

    /// Announces an action that now waits for a decision, after the action is in the log.
    async fn on_action(&self, cx: &HookContext, action: &Arc<ExternalAction>) {
        let _ = (cx, action);
    }
}

/// The session and the request that a hook is called for, with the host's values.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct HookContext {
    /// The id of the session that the hook runs in.
    pub session_id: Arc<str>,
    /// Creation time of the session, in milliseconds since 1970. It distinguishes the session from
    /// a deleted one with the same id.
    pub session_created: u64,
    /// The host's values.
    pub extensions: Extensions,
    /// The user's request that the run works on: the request that started it, or that a decision or
    /// `Continue` resumed. `None` if a late steer started the run.
    pub request: Option<Arc<Message>>,
}

impl HookContext {
    /// Returns the principal that the session works for, if the host has set one.
    pub fn principal(&self) -> Option<&Principal> {
        Principal::of(&self.extensions)
    }
}

/// A part of the text that a model streams.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct TextPart<'a> {
    /// The text that the hook has held back so far, followed by the new text.
    pub text: &'a str,
    /// `true` if the text block ends with this part. The last part may add no text.
    pub last: bool,
}

/// The effect of a hook on a [`TextPart`].
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum TextAction {
    /// The text becomes part of the reply.
    #[default]
    Show,
    /// This text becomes part of the reply instead. An empty text drops the part.
    Replace(String),
    /// The text is held back and starts the next part. At the end of the block it is shown.
    Hold,
    /// The text contains tool calls. The rest of it is text.
    Calls {
        /// Text to show.
        text: String,
        /// Tool names and raw JSON arguments.
        calls: Vec<(String, String)>,
    },
}

/// The decision of a hook after a reply: whether the loop continues.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum BeforeEnd {
    /// The pattern decides.
    #[default]
    Default,
    /// The loop continues: this message is delivered after the reply's calls, like a steer with
    /// [`Urgency::AfterTurn`](crate::event::Urgency::AfterTurn).
    Continue(UserMessage),
    /// The run ends. Calls of the reply get the result "skipped"; queued messages stay queued.
    End,
}

/// A validated call.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ToolCallInfo {
    /// The id of the call, unique in its session.
    pub call: CallId,
    /// The definition of the tool.
    pub tool: Arc<ToolSpec>,
    /// The arguments after coercion and after the rewrites of earlier hooks.
    pub arguments: Arc<Value>,
}

/// The decision of a hook on a call.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub enum BeforeToolCall {
    /// The call proceeds.
    #[default]
    Proceed,
    /// The call proceeds with these arguments, which are validated again.
    Rewrite(Value),
    /// The call needs approval, whatever the agent's rules say. These options replace the tool's.
    /// Arguments that an approver has edited pass through the hooks again and need no other
    /// approval.
    NeedsApproval(ActionOptions),
    /// The call does not run. The text tells the model why.
    Block(String),
}

/// The rest of a call: the layers after a hook, and the tool.
pub struct Next<'a> {
    pub(crate) cx: &'a HookContext,
    pub(crate) call: &'a ToolCallInfo,
    pub(crate) layers: &'a [Arc<dyn Hooks>],
    pub(crate) tool: &'a (dyn Fn() -> BoxFuture<'a, ToolResult> + Send + Sync),
}

impl Next<'_> {
    /// Runs the later layers and the tool with the arguments of the call, and returns the result:
    /// also of a tool that failed or panicked, as an error.
    ///
    /// Each call of the method is another run. Once the call is cancelled, the tool does not run
    /// any more, and the hook's future is dropped. Dropping the returned future drops the tool's
    /// at an await.
    pub async fn run(&self) -> ToolResult {
        match self.layers.split_first() {
            Some((hook, layers)) => {
                let next = Next { layers, ..*self };
                hook.around_tool_call(self.cx, self.call, next).await
            }
            None => (self.tool)().await,
        }
    }
}

/// A request whose tools are chosen.
#[derive(Debug)]
#[non_exhaustive]
pub struct RequestInfo<'a> {
    /// The turn that the request belongs to.
    pub turn: u32,
    /// The conversation as sent to the model.
    pub messages: &'a [Arc<Message>],
}

/// Defines a [`Hooks`] type that wraps a closure.
macro_rules! closure_hook {
    ($(#[$doc:meta])* $name:ident($f:ty), $new:item, $($method:item)+) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name(Arc<$f>);

        impl $name {
            $new
        }

        #[async_trait]
        impl Hooks for $name {
            $($method)+
        }
    };
}

closure_hook! {
    /// A closure for [`Hooks::on_text_part`].
    FnHandleStepTextPart(dyn Fn(&HookContext, TextPart<'_>) -> TextAction + Send + Sync),
    /// Wraps the closure.
    pub fn new(
        f: impl Fn(&HookContext, TextPart<'_>) -> TextAction + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(f))
    },
    fn on_text_part(&self, cx: &HookContext, part: TextPart<'_>) -> TextAction {
        (self.0)(cx, part)
    }
}

closure_hook! {
    /// A closure for [`Hooks::before_end`].
    FnHandleBeforeEnd(
        dyn Fn(HookContext, Arc<Message>) -> BoxFuture<'static, BeforeEnd> + Send + Sync
    ),
    /// Wraps the closure.
    pub fn new<Fut>(f: impl Fn(HookContext, Arc<Message>) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = BeforeEnd> + Send + 'static,
    {
        Self(Arc::new(move |cx, reply| Box::pin(f(cx, reply))))
    },
    async fn before_end(&self, cx: &HookContext, reply: &Arc<Message>) -> BeforeEnd {
        (self.0)(cx.clone(), reply.clone()).await
    }
}

closure_hook! {
    /// A closure for [`Hooks::before_tool_call`].
    FnBeforeToolCall(
        dyn Fn(HookContext, ToolCallInfo) -> BoxFuture<'static, BeforeToolCall> + Send + Sync
    ),
    /// Wraps the closure.
    pub fn new<Fut>(f: impl Fn(HookContext, ToolCallInfo) -> Fut + Send + Sync + 'static) -> Self
    where
        Fut: Future<Output = BeforeToolCall> + Send + 'static,
    {
        Self(Arc::new(move |cx, call| Box::pin(f(cx, call))))
    },
    async fn before_tool_call(&self, cx: &HookContext, call: &ToolCallInfo) -> BeforeToolCall {
        (self.0)(cx.clone(), call.clone()).await
    }
}

closure_hook! {
    /// A closure for [`Hooks::around_tool_call`]. It returns a boxed future, which can borrow.
    FnAroundToolCall(
        dyn for<'a> Fn(&'a HookContext, &'a ToolCallInfo, Next<'a>) -> BoxFuture<'a, ToolResult>
            + Send
            + Sync
    ),
    /// Wraps the closure.
    pub fn new<F>(f: F) -> Self
    where
        F: Send + Sync + 'static,
        F: for<'a> Fn(&'a HookContext, &'a ToolCallInfo, Next<'a>) -> BoxFuture<'a, ToolResult>,
    {
        Self(Arc::new(f))
    },
    async fn around_tool_call(
        &self,
        _: &HookContext,
        _: &ToolCallInfo,
        next: Next<'_>,
    ) -> ToolResult {
        (self.0)(next.cx, next.call, next).await // its references live as long as it does
    }
}

closure_hook! {
    /// A closure for [`Hooks::transform_context`]. It gets a copy of the list of messages (not of
    /// the messages) for each request.
    FnTransformContext(
        dyn Fn(HookContext, Vec<Arc<Message>>) -> BoxFuture<'static, Vec<Arc<Message>>>
            + Send
            + Sync
    ),
    /// Wraps the closure.
    pub fn new<Fut>(
        f: impl Fn(HookContext, Vec<Arc<Message>>) -> Fut + Send + Sync + 'static,
    ) -> Self
    where
        Fut: Future<Output = Vec<Arc<Message>>> + Send + 'static,
    {
        Self(Arc::new(move |cx, messages| Box::pin(f(cx, messages))))
    },
    async fn transform_context(
        &self,
        cx: &HookContext,
        messages: &Conversation,
    ) -> Option<Vec<Arc<Message>>> {
        Some((self.0)(cx.clone(), messages.to_vec()).await)
    }
}

closure_hook! {
    /// A closure for [`Hooks::convert_to_llm`]. It gets a copy of the list of messages (not of the
    /// messages) for each request.
    FnConvertToLlm(
        dyn Fn(&HookContext, Vec<Arc<Message>>) -> Vec<Arc<Message>> + Send + Sync
    ),
    /// Wraps the closure.
    pub fn new(
        f: impl Fn(&HookContext, Vec<Arc<Message>>) -> Vec<Arc<Message>> + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(f))
    },
    fn convert_to_llm(
        &self,
        cx: &HookContext,
        messages: &Conversation,
    ) -> Option<Vec<Arc<Message>>> {
        Some((self.0)(cx, messages.to_vec()))
    }
}

closure_hook! {
    /// A closure for [`Hooks::offers_tool`].
    FnOffersTool(dyn Fn(&HookContext, &RequestInfo<'_>, &ToolSpec) -> bool + Send + Sync),
    /// Wraps the closure.
    pub fn new(
        f: impl Fn(&HookContext, &RequestInfo<'_>, &ToolSpec) -> bool + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(f))
    },
    fn offers_tool(&self, cx: &HookContext, request: &RequestInfo<'_>, tool: &ToolSpec) -> bool {
        (self.0)(cx, request, tool)
    }
}
