//! The tools of an agent, without a model: each call is made in a session in memory.

use std::sync::Arc;

use loopwright_core::event::ExternalAction;
use loopwright_core::log::{InMemoryStore, MemoryError};
use loopwright_core::session::Call;
use loopwright_core::{
    BehaviorPattern, Environment, GenericAgent, RunContext, SessionStore, StepContext, StepEnd,
    StepError, SystemEnvironment, async_trait,
};
use loopwright_mcp::server::{HostSession, ServedTool, SessionHost};
use serde_json::Value;

use crate::args::McpArgs;
use crate::config::Config;
use crate::environment::started_as;
use crate::error::StartError;
use crate::facts;
use crate::output::Verbosity;
use crate::session::{Allowed, Previews, build};

/// The model of an agent whose model is never asked.
const NO_MODEL: &str = "offline";

/// The tools of an agent, under its own rules: approvals, hooks and limits.
pub(super) struct AgentTools {
    agent: GenericAgent,
    previews: Previews,
    store: InMemoryStore,
}

impl AgentTools {
    /// Returns the tools of the agent that the options name, by default of the first one.
    pub(super) async fn of(args: McpArgs, config: &Config) -> Result<Self, StartError> {
        let mut settings = config.resolve(args.options)?;
        // The client's own model asks its user and keeps its list. An agent without these settings
        // has neither tool.
        (settings.active.no_questions, settings.active.todos) = (Some(true), Some(false));
        if settings.active.model.is_none() {
            (settings.active.model, settings.active.base_url) = (Some(NO_MODEL.to_owned()), None);
        }
        let built = build(&settings, &Allowed::default(), config, Verbosity::Quiet).await?;
        let (agent, previews) = (built.agent, built.previews);
        Ok(AgentTools { agent, previews, store: InMemoryStore::new() })
    }

    async fn open_session(&self, tool: &str, id: Arc<str>) -> Result<HostSession, StartError> {
        let context = RunContext::new().stored(&self.store, id).await?.with(facts::user());
        let agent = self.agent.with_pattern(CallTool(tool.into()));
        let (handle, events) = agent.run(context).await?;
        let session = HostSession::new(handle, events, Arc::new(self.store.clone())).temporary();
        Ok(self.previews.clone().show_in(session))
    }
}

#[async_trait]
impl SessionHost for AgentTools {
    fn tools(&self) -> Vec<ServedTool> {
        self.agent.tool_specs().cloned().map(ServedTool::tool).collect()
    }

    async fn open(&self, tool: &str, session: Option<&str>) -> Result<HostSession, String> {
        let id = match session {
            None => format!("{tool}-{:016x}", SystemEnvironment.random()),
            // The client repeats a call that was pending.
            Some(id) => match self.store.session(id).await {
                Err(MemoryError::NoSession(_)) => {
                    return Err("The call is not pending any more: make it again.".into());
                }
                _ => id.to_owned(),
            },
        };
        self.open_session(tool, id.into()).await.map_err(|why| why.0)
    }

    fn how_to_decide(&self, _: &str, action: &ExternalAction) -> String {
        let (name, program) = (&action.name, started_as());
        format!(
            "The call was not made, because it needs the user's approval, and this client cannot \
             ask the user, or got no decision. `{program} mcp --tools --approve {name}` serves \
             the tool without approvals."
        )
    }
}

/// A pattern that makes one call of this tool, with the user's request as arguments.
struct CallTool(Arc<str>);

#[async_trait]
impl BehaviorPattern for CallTool {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let arguments = step.user_request().map(|request| request.text());
        let arguments: Value =
            serde_json::from_str(&arguments.unwrap_or_default()).map_err(StepError::pattern)?;
        let call = Call::new(self.0.clone(), arguments).key("call");
        step.call(call).await?.ok_or(StepEnd::AwaitingAction)?;
        Ok(StepEnd::Done)
    }
}
