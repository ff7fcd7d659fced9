//! Shared helpers of the tests, built on the public testing tools.

pub(crate) use std::sync::Arc;
pub(crate) use std::time::Duration;

pub(crate) use loopwright_core::testing::{
    FaultyMemory, Gate, Harness, Script, ScriptedModel, TestClock, TestTool, TreeInput,
    check_events, crash_tree, trace, until,
};
pub(crate) use loopwright_core::{
    Environment, Principal, StepEnd, StepError, SystemEnvironment, ToolError, agent::*,
    compaction::*, event::*, hooks::*, limits::*, log::*, message::*, model::*, pattern::*,
    session::*, tool::*,
};
pub(crate) use loopwright_patterns::PiPattern;
pub(crate) use serde_json::json;
pub(crate) use tokio::time::{Instant, sleep};

/// An environment with the time of the paused clock, which starts at 0.
pub(crate) struct PausedClock(pub(crate) Instant);

impl Environment for PausedClock {
    fn now(&self) -> u64 {
        self.0.elapsed().as_millis() as u64
    }

    fn random(&self) -> u64 {
        0
    }
}

pub(crate) const fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Returns a reply with calls of these tools, without arguments and with the ids a, b, c…
pub(crate) fn calls(names: &[&str]) -> Script {
    let ids = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    Script::calls(ids.into_iter().zip(names).map(|(id, name)| (id, *name, json!({}))))
}

/// Returns a reply of `n` words, one per `each`.
pub(crate) fn slow(n: usize, each: Duration) -> Script {
    Script::new().stream((0..n).map(|i| format!("w{i} ")), each).wait(each)
}

pub(crate) fn end_of(events: &[Arc<Envelope>]) -> RunStatus {
    match events.last().map(|e| &e.event) {
        Some(AgentEvent::AgentEnd(outcome)) => outcome.end,
        other => panic!("not the end of a run: {other:?}"),
    }
}

pub(crate) fn outcome_of(events: &[Arc<Envelope>]) -> Arc<RunOutcome> {
    match events.last().map(|e| &e.event) {
        Some(AgentEvent::AgentEnd(outcome)) => outcome.clone(),
        other => panic!("not the end of a run: {other:?}"),
    }
}

/// Returns the types of events, as they are serialised.
pub(crate) fn kinds(events: &[Arc<Envelope>]) -> Vec<String> {
    let kind = |e: &Arc<Envelope>| {
        serde_json::to_value(&**e).unwrap()["type"].as_str().unwrap().to_owned()
    };
    events.iter().map(kind).collect()
}

/// Returns whether the event is the start of a tool call.
pub(crate) fn starts(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::ToolExecutionStart { .. })
}

/// Returns whether the event is this text delta of a message.
pub(crate) fn is_text_delta(event: &AgentEvent, text: &str) -> bool {
    matches!(
        event,
        AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } if delta == text
    )
}

pub(crate) fn is_delta(event: &AgentEvent) -> bool {
    matches!(event, AgentEvent::MessageUpdate { .. })
}

/// Returns the statuses of the results, in the order of the conversation.
pub(crate) async fn statuses(harness: &Harness) -> Vec<ResultStatus> {
    let state = harness.handle.state().await.unwrap();
    state.messages.iter().filter_map(|m| m.as_tool_result()).map(|r| r.status).collect()
}

/// Returns the text of the result of a call.
pub(crate) async fn result_of(harness: &Harness, call: &str) -> String {
    let state = harness.handle.state().await.unwrap();
    let result =
        state.messages.iter().filter_map(|m| m.as_tool_result()).find(|r| *r.call == *call);
    result.expect("the call has a result").text()
}

pub(crate) async fn send(harness: &Harness, text: &str) {
    harness.handle.send(InputEvent::UserRequest(text.into())).await.unwrap();
}

pub(crate) async fn pi(replies: impl IntoIterator<Item = Script>, tools: &[TestTool]) -> Harness {
    pi_with(replies, tools, |agent| agent).await
}

pub(crate) async fn pi_with(
    replies: impl IntoIterator<Item = Script>,
    tools: &[TestTool],
    options: impl FnOnce(AgentBuilder) -> AgentBuilder,
) -> Harness {
    let tools: Vec<Arc<dyn Tool>> =
        tools.iter().map(|t| Arc::new(t.clone()) as Arc<dyn Tool>).collect();
    Harness::new(PiPattern, replies, |agent| options(agent.tools(tools))).await
}

/// Opens a session whose memory takes `each` for an append.
pub(crate) async fn slow_memory(
    replies: Vec<Script>,
    tools: Vec<TestTool>,
    each: Duration,
) -> Harness {
    let tools: Vec<Arc<dyn Tool>> =
        tools.into_iter().map(|t| Arc::new(t) as Arc<dyn Tool>).collect();
    let wrap = |memory| Arc::new(FaultyMemory::new(memory).slow(each)) as Arc<dyn Memory>;
    Harness::with_memory(PiPattern, replies, |agent| agent.tools(tools), InMemory::new(), wrap)
        .await
}

/// Checks the events that were emitted since the last read.
pub(crate) fn check_emitted(harness: &mut Harness) {
    let emitted = harness.drain_events();
    check_events(&emitted).unwrap_or_else(|e| panic!("{e}\n{}", trace(&emitted)));
}

type Step<'a> = futures::future::BoxFuture<'a, Result<StepEnd, StepError>>;

/// A pattern that calls a closure.
#[derive(Clone)]
pub(crate) struct Does<F>(F);

#[async_trait::async_trait]
impl<F: for<'a, 'b> Fn(&'a mut StepContext<'b>) -> Step<'a> + Send + Sync> BehaviorPattern
    for Does<F>
{
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        (self.0)(step).await
    }
}

pub(crate) fn does<F: for<'a, 'b> Fn(&'a mut StepContext<'b>) -> Step<'a> + Send + Sync>(
    f: F,
) -> Does<F> {
    Does(f)
}

/// Returns the texts of the messages of a request.
pub(crate) fn sent(harness: &Harness, request: usize) -> Vec<String> {
    harness.model.requests()[request].messages.iter().map(|m| m.text()).collect()
}

/// Returns the names of the tools that a request offered.
pub(crate) fn offered(harness: &Harness, request: usize) -> Vec<String> {
    harness.model.requests()[request].tools.iter().map(|t| t.name.to_string()).collect()
}
