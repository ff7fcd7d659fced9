//! The hooks of an agent or of a request, called in order.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, OnceLock};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::mpsc;

use crate::event::action::ExternalAction;
use crate::hooks::{
    BeforeEnd, BeforeToolCall, Conversation, HookContext, Hooks, Next, RequestInfo, ToolCallInfo,
};
use crate::message::{Message, ResultStatus, ToolResult, UserMessage};
use crate::session::panics::panic_text;
use crate::tool::{ActionOptions, Outcome, ToolOutput, ToolSpec};

/// Hooks in the order in which they were added. Clones share the list. Without hooks no list is
/// allocated.
#[derive(Clone, Default)]
pub(crate) struct HookLayers(Option<Arc<Vec<Arc<dyn Hooks>>>>);

/// The combined verdict of all layers on the end of a reply.
#[derive(Default)]
pub(crate) struct EndVerdict {
    /// The run ends.
    pub(crate) ends: bool,
    /// Messages that the loop continues with.
    pub(crate) messages: Vec<UserMessage>,
}

impl HookLayers {
    pub(crate) fn push(&mut self, hook: Arc<dyn Hooks>) {
        Arc::make_mut(self.0.get_or_insert_default()).push(hook);
    }

    /// Returns these layers followed by the layers of a request.
    pub(crate) fn and(&self, more: &HookLayers) -> HookLayers {
        if more.is_empty() {
            return self.clone();
        }
        let mut all = self.clone();
        more.iter().for_each(|hook| all.push(hook.clone()));
        all
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    fn as_slice(&self) -> &[Arc<dyn Hooks>] {
        self.0.as_deref().map_or(&[], Vec::as_slice)
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Hooks>> {
        self.as_slice().iter()
    }

    /// Asks the layers about a reply until one ends the run.
    pub(crate) async fn before_end(&self, cx: &HookContext, reply: &Arc<Message>) -> EndVerdict {
        let mut verdict = EndVerdict::default();
        for hook in self.iter() {
            match hook.before_end(cx, reply).await {
                BeforeEnd::Default => {}
                BeforeEnd::Continue(message) => verdict.messages.push(message),
                BeforeEnd::End => return EndVerdict { ends: true, messages: Vec::new() },
            }
        }
        verdict
    }

    /// Asks the layers about a call until one blocks it. `validate` checks rewritten arguments. The
    /// error is the text for the model.
    pub(crate) async fn before_tool_call(
        &self,
        cx: &HookContext,
        mut call: ToolCallInfo,
        validate: impl Fn(Value) -> Result<Value, String>,
    ) -> Result<PassedCall, CallRefused> {
        let mut needs_approval = None;
        for hook in self.iter() {
            match hook.before_tool_call(cx, &call).await {
                BeforeToolCall::Proceed => {}
                BeforeToolCall::NeedsApproval(options) => {
                    needs_approval = Some(Arc::new(options));
                }
                BeforeToolCall::Block(why) => return Err(CallRefused::Blocked(why)),
                BeforeToolCall::Rewrite(arguments) => match validate(arguments) {
                    Ok(valid) => call.arguments = Arc::new(valid),
                    Err(why) => return Err(CallRefused::Invalid(why)),
                },
            }
        }
        Ok(PassedCall { arguments: call.arguments, needs_approval })
    }

    /// Asks the layers whether a decided call may still run unchanged. Returns the reason if a
    /// layer blocks it. Rewrites are ignored, because the user decided on these arguments.
    pub(crate) async fn forbid(&self, cx: &HookContext, call: ToolCallInfo) -> Option<String> {
        for hook in self.iter() {
            if let BeforeToolCall::Block(why) = hook.before_tool_call(cx, &call).await {
                return Some(why);
            }
        }
        None
    }

    /// Runs a call inside the layers. If the tool suspends, or stops without output, the call ends
    /// so, whatever the layers do.
    pub(crate) async fn around_tool_call<F: Future<Output = Outcome> + Send>(
        &self,
        cx: &HookContext,
        call: &ToolCallInfo,
        tool: impl Fn() -> F + Send + Sync,
    ) -> Outcome {
        // The output of a run that was cancelled. The tool does not run again after it.
        let cancelled = OnceLock::new();
        let (end, mut ended) = mpsc::channel(1);
        let tool = || -> BoxFuture<'_, ToolResult> {
            Box::pin(async {
                let (status, output) = match tool().await {
                    Outcome::Result(status, output) => (status, output),
                    Outcome::Cancelled(Some(output)) => {
                        (ResultStatus::Aborted, cancelled.get_or_init(|| output).clone())
                    }
                    outcome => {
                        let outcome = match (outcome, cancelled.get()) {
                            (Outcome::Cancelled(None), output) => {
                                Outcome::Cancelled(output.cloned())
                            }
                            (outcome, _) => outcome,
                        };
                        let _ = end.send(outcome).await;
                        return std::future::pending().await;
                    }
                };
                ToolResult {
                    call: call.call.clone(),
                    name: call.tool.name.clone(),
                    status,
                    content: output.content,
                    details: output.details.map(Arc::new),
                    terminate: output.terminate,
                    seconds: output.seconds,
                }
            })
        };
        let next = Next { cx, call, layers: self.as_slice(), tool: &tool };
        let result = tokio::select! { biased;
            Some(outcome) = ended.recv() => return outcome,
            result = AssertUnwindSafe(next.run()).catch_unwind() => result,
        };
        if let Ok(outcome) = ended.try_recv() {
            return outcome; // a layer that also waited for something else has returned at once
        }
        let ToolResult { status, content, details, terminate, seconds, .. } = match result {
            Ok(result) => result,
            Err(panic) => return Outcome::HookPanicked(panic_text(&*panic)),
        };
        let details = details.map(Arc::unwrap_or_clone);
        let output = ToolOutput { content, details, terminate, seconds };
        match cancelled.get() {
            Some(_) => Outcome::Cancelled(Some(output)), // whatever the layers say about it
            None => Outcome::Result(status, output),
        }
    }

    /// Passes a conversation through the layers. Returns `None` if no layer changes it.
    pub(crate) async fn transform(
        &self,
        cx: &HookContext,
        conversation: Conversation,
    ) -> Option<Vec<Arc<Message>>> {
        let mut current = conversation;
        let mut is_changed = false;
        for hook in self.iter() {
            if let Some(changed) = hook.transform_context(cx, &current).await {
                current = Conversation::new(move || changed);
                is_changed = true;
            }
        }
        let mut is_converted = false;
        for hook in self.iter() {
            if let Some(converted) = hook.convert_to_llm(cx, &current) {
                current = Conversation::new(move || converted);
                is_converted = true;
            }
        }
        if !is_changed && !is_converted {
            return None;
        }
        let mut messages = current.to_vec();
        if !is_converted {
            messages.retain(|message| message.is_for_model());
        }
        Some(messages)
    }

    pub(crate) fn offers(
        &self,
        cx: &HookContext,
        request: &RequestInfo<'_>,
        tool: &ToolSpec,
    ) -> bool {
        self.iter().all(|hook| hook.offers_tool(cx, request, tool))
    }

    pub(crate) async fn on_actions(&self, cx: HookContext, actions: Vec<Arc<ExternalAction>>) {
        for action in &actions {
            for hook in self.iter() {
                hook.on_action(&cx, action).await;
            }
        }
    }
}

/// A call that no layer has blocked.
pub(crate) struct PassedCall {
    pub(crate) arguments: Arc<Value>,
    /// Set if a layer requires approval. The last such layer sets the options.
    pub(crate) needs_approval: Option<Arc<ActionOptions>>,
}

/// The reason why the layers refuse a call.
pub(crate) enum CallRefused {
    /// A layer blocked it.
    Blocked(String),
    /// A layer rewrote the arguments to invalid ones.
    Invalid(String),
}
