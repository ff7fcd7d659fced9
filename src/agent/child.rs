//! Agents as sub-agents: the tool that stands for a sub-agent, and its sessions.

#[cfg(feature = "testing")]
use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use serde_json::{Value, json};

use crate::agent::{GenericAgent, RunContext};
use crate::error::{AgentError, InputError, ToolError};
use crate::event::action::ExternalAction;
use crate::event::hub::EventStream;
use crate::event::input::Decision;
use crate::session::handle::AgentHandle;
use crate::session::input::decisions;
#[cfg(feature = "testing")]
use crate::session::parts::Parts;
use crate::session::sub_agents::child_agent::{ChildAgent, Opening};
use crate::tool::{Approval, Effect, Tool, ToolContext, ToolOutput, ToolSpec};

/// The tool with which a model gives a task to a sub-agent. Sessions do not call it: they open a
/// session of the sub-agent for the call.
pub(super) struct ChildTool(Arc<ToolSpec>);

impl ChildTool {
    pub(super) fn new(name: Arc<str>, description: String) -> Self {
        let schema = json!({
            "type": "object",
            "properties": {
                "task": {
                    "type": "string",
                    "description": "The whole task. Nothing else of this conversation is known to \
                        the agent.",
                },
            },
            "required": ["task"],
            "additionalProperties": false,
        });
        let spec = ToolSpec::with_schema(name, description, schema)
            .effect(Effect::Idempotent)
            .approval(Approval::Never);
        ChildTool(Arc::new(spec))
    }
}

#[async_trait]
impl Tool for ChildTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.0
    }

    async fn call(&self, _: &Value, _: ToolContext) -> Result<ToolOutput, ToolError> {
        Err(ToolError::Failed("A sub-agent works in a session of its own only.".into()))
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        let is_text = arguments["task"].is_string();
        Some(if is_text { Ok(()) } else { Err("`task` must be a string.".into()) })
    }
}

impl ChildAgent for GenericAgent {
    fn open(
        &self,
        opening: Opening,
    ) -> BoxFuture<'static, Result<(AgentHandle, EventStream), AgentError>> {
        let agent = self.clone();
        async move {
            let Opening { session, parent, tree, extensions, subscribers } = opening;
            let store = tree.store.clone().ok_or(AgentError::NoStore)?;
            let memory = store.open(&session).await?;
            let mut cx = RunContext::new().session(session).shared_memory(memory).parent(parent);
            cx.extensions = extensions;
            agent.start(cx, tree, subscribers).await
        }
        .boxed()
    }

    #[cfg(feature = "testing")]
    fn effects(&self) -> BTreeMap<Arc<str>, Effect> {
        let own = self.config.tools.list().iter();
        let mut effects: BTreeMap<_, _> =
            own.map(|spec| (spec.name.clone(), spec.effect)).collect();
        effects.extend(self.config.children.values().flat_map(|child| child.effects()));
        effects
    }

    #[cfg(feature = "testing")]
    fn with_parts(&self, parts: &dyn Parts) -> Arc<dyn ChildAgent> {
        Arc::new(GenericAgent::with_parts(self, parts))
    }

    fn preview<'a>(
        &'a self,
        path: &'a [Arc<str>],
        action: &'a ExternalAction,
    ) -> BoxFuture<'a, Result<Option<String>, ToolError>> {
        self.preview_for(path, action)
    }

    fn check(
        &self,
        path: &[Arc<str>],
        action: &ExternalAction,
        decision: &Decision,
    ) -> Result<Decision, InputError> {
        // Tools from the sub-agent's sources are unknown here. Its own session checks decisions on
        // them.
        let is_loaded = path.is_empty() && self.config.tools.entry(&action.name).is_err();
        if is_loaded && !self.config.sources.is_empty() && action.question().is_none() {
            return Ok(decision.clone());
        }
        decisions::check_for(&self.config, &self.config.tools, path, action, decision)
    }
}
