//! [`Session`]: all coding tools, a scripted model, and a user who approves each call.

use std::path::Path;
use std::sync::Arc;

use loopwright_core::event::RunStatus;
use loopwright_core::message::{ResultStatus, ToolResult};
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::tool::ToolUpdate;
use loopwright_core::{AgentEvent, AgentHandle, EventStream, GenericAgent, RunContext};
use loopwright_patterns::PiPattern;
use loopwright_tools::{Commands, Workspace, coding_tools_with};
use serde_json::Value;

pub(crate) struct Session {
    pub(crate) handle: AgentHandle,
    pub(crate) model: ScriptedModel,
    pub(crate) events: EventStream,
    /// The names of the tools that needed an approval, in order.
    pub(crate) approved: Vec<Arc<str>>,
}

impl Session {
    /// Starts a session in the directory `root`. If `trusted`, no call needs an approval.
    pub(crate) async fn new(root: &Path, commands: Commands, trusted: bool) -> Self {
        let model = ScriptedModel::new([]);
        let tools = coding_tools_with(Workspace::open(root).unwrap(), commands);
        let mut agent = GenericAgent::builder(model.clone(), PiPattern).tools(tools);
        if trusted {
            agent = agent.approve_all();
        }
        let (handle, events) = agent.build().unwrap().run(RunContext::new()).await.unwrap();
        Session { handle, model, events, approved: Vec::new() }
    }

    /// Runs these calls, one per turn, and approves each. Returns their results.
    pub(crate) async fn run_calls(&mut self, calls: &[(&str, Value)]) -> Vec<ToolResult> {
        let before = self.results().await.len();
        for (n, (tool, arguments)) in calls.iter().enumerate() {
            self.model.push(Script::calls([(
                format!("{before}-{n}").as_str(),
                *tool,
                arguments.clone(),
            )]));
        }
        self.model.push(Script::text("Done."));
        let mut outcome = self.handle.prompt("Continue.").await.unwrap().end;
        while outcome == RunStatus::AwaitingAction {
            for action in self.handle.pending().await.unwrap() {
                self.approved.push((*action.name).into());
                self.handle.approve(&action).await.unwrap();
            }
            self.handle.wait_for_idle().await;
            outcome = if self.handle.pending().await.unwrap().is_empty() {
                RunStatus::Done
            } else {
                outcome
            };
        }
        assert_eq!(outcome, RunStatus::Done, "{:?}", self.model.refused());
        let state = self.handle.state().await.unwrap();
        assert_eq!(state.messages.last().unwrap().text(), "Done.");
        self.results().await.split_off(before)
    }

    async fn results(&self) -> Vec<ToolResult> {
        let state = self.handle.state().await.unwrap();
        state.messages.iter().filter_map(|message| message.as_tool_result()).cloned().collect()
    }

    /// Returns the output that was streamed while tools ran, up to now.
    pub(crate) fn streamed(&mut self) -> String {
        let mut text = String::new();
        while let Some(event) = self.events.try_next() {
            if let AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Output(output), .. } =
                &event.event
            {
                text.push_str(output);
            }
        }
        text
    }
}

/// Returns the text of a result. Panics if it is an error.
pub(crate) fn ok(result: &ToolResult) -> String {
    assert_eq!(result.status, ResultStatus::Ok, "{}", result.text());
    result.text()
}
