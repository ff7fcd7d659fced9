//! Agents whose sessions are exported.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use loopwright_core::event::{Prompt, RunOutcome};
use loopwright_core::log::InMemoryStore;
use loopwright_core::message::Usage;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::ToolSpec;
use loopwright_core::{
    AgentBuilder, GenericAgent, RunContext, Tool, ToolContext, ToolError, ToolOutput, TraceContext,
};
use loopwright_otel::Telemetry;
use loopwright_patterns::PiPattern;
use serde_json::{Value, json};

/// A tool that notes the trace context of each call.
#[derive(Clone)]
pub(crate) struct Note {
    spec: Arc<ToolSpec>,
    pub(crate) traces: Arc<Mutex<Vec<Option<TraceContext>>>>,
}

impl Note {
    pub(crate) fn new(name: &str) -> Note {
        let schema = json!({ "type": "object" });
        let spec = ToolSpec::with_schema(name, "Notes.", schema);
        Note { spec: Arc::new(spec), traces: Arc::default() }
    }
}

#[async_trait]
impl Tool for Note {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.traces.lock().unwrap().push(cx.trace().cloned());
        match arguments["fails"] == true {
            true => Err(ToolError::Failed("It failed.".into())),
            false => Ok(ToolOutput::text("a secret result")),
        }
    }
}

pub(crate) fn usage() -> Usage {
    Usage::new(10, 3).cache(5, 2)
}

pub(crate) fn calls(name: &str, arguments: Value) -> Script {
    Script::calls([("c1", name, arguments)]).usage(usage())
}

/// Returns an agent and its model.
pub(crate) fn agent(
    scripts: impl IntoIterator<Item = Script>,
    set: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> (GenericAgent, ScriptedModel) {
    let model = ScriptedModel::new(scripts);
    let builder = GenericAgent::builder(model.clone(), PiPattern).approve_all();
    (set(builder).build().unwrap(), model)
}

/// Sends a prompt in a session of its own, and queues its signals. The agent is called `boss`.
pub(crate) async fn run(
    telemetry: &Telemetry,
    agent: &GenericAgent,
    prompt: impl Into<Prompt>,
) -> RunOutcome {
    let cx = RunContext::new().stored(&InMemoryStore::new(), "s1").await.unwrap();
    let (handle, _) = agent.run(cx).await.unwrap();
    let events = handle.subscribe_tree();
    let exported = telemetry.follow(events, "boss", &handle.state().await.unwrap());
    let outcome = handle.prompt(prompt).await.unwrap();
    drop(handle);
    exported.await.unwrap();
    outcome
}
