//! The hooks of an agent or of a request, called in order.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::Value;

use crate::log::action::ExternalAction;
use crate::message::{Message, ToolResult, UserMessage};
use crate::session::hooks::{
    BeforeEnd, BeforeToolCall, Conversation, EndCheck, HookContext, Hooks, PrepareTools,
    ToolCallInfo,
};
use crate::session::panics::panic_text;
use crate::tool::{ActionOptions, ToolSpec};

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

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<dyn Hooks>> {
        self.0.iter().flat_map(|hooks| hooks.iter())
    }

    /// Asks the layers about a reply until one ends the run.
    pub(crate) async fn before_end(&self, check: EndCheck) -> EndVerdict {
        let mut verdict = EndVerdict::default();
        for hook in self.iter() {
            match hook.before_end(&check).await {
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
        mut call: ToolCallInfo,
        validate: impl Fn(Value) -> Result<Value, String>,
    ) -> Result<PassedCall, CallRefused> {
        let mut needs_approval = None;
        for hook in self.iter() {
            match hook.before_tool_call(&call).await {
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
    pub(crate) async fn forbid(&self, call: ToolCallInfo) -> Option<String> {
        for hook in self.iter() {
            if let BeforeToolCall::Block(why) = hook.before_tool_call(&call).await {
                return Some(why);
            }
        }
        None
    }

    /// Passes a result through the layers. The error is the text of a panic.
    pub(crate) async fn after_tool_call(
        &self,
        call: &ToolCallInfo,
        mut result: ToolResult,
    ) -> Result<ToolResult, String> {
        for hook in self.iter() {
            let changed = async { hook.after_tool_call(call, result).await };
            result = AssertUnwindSafe(changed)
                .catch_unwind()
                .await
                .map_err(|panic| panic_text(&*panic))?;
        }
        Ok(result)
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

    pub(crate) fn offers(&self, request: &PrepareTools<'_>, tool: &ToolSpec) -> bool {
        self.iter().all(|hook| hook.prepare_tools(request, tool))
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
