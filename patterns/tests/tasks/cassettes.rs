//! Each task is recorded in a cassette and replayed without its models and tools.

use loopwright_core::event::{Decision, ExternalAction, Provided};
use loopwright_core::log::{InMemoryStore, SessionLog, SessionStore};
use loopwright_core::testing::{Cassette, Script, ScriptedModel, TestClock};
use loopwright_core::{
    AgentBuilder, AgentHandle, BehaviorPattern, EventStream, GenericAgent, RunContext,
};
use serde_json::Value;

use crate::kit::equipped;

/// Asserts that the replay of a session is the same, for an agent with this pattern and with the
/// models and tools of the tasks.
pub(crate) async fn assert_is_recorded<P: BehaviorPattern + 'static>(
    pattern: impl Fn() -> P,
    replies: impl IntoIterator<Item = Script>,
    prompts: &[&str],
) {
    let agent =
        |model: ScriptedModel| equipped(GenericAgent::builder(model.clone(), pattern()), &model);
    assert_agent_is_recorded(agent, replies, prompts).await;
}

/// Asserts that the replay of a session of the agent is the same, with a model without replies: its
/// events with all deltas, and its log.
pub(crate) async fn assert_agent_is_recorded(
    agent: impl Fn(ScriptedModel) -> AgentBuilder,
    replies: impl IntoIterator<Item = Script>,
    prompts: &[&str],
) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("task.jsonl");
    let cassette = Cassette::record(&path).unwrap();
    let recorded = session(&cassette, agent(ScriptedModel::new(replies)), prompts).await;
    cassette.finish().unwrap();
    let cassette = Cassette::replay(&path).unwrap();
    let model = ScriptedModel::new([]);
    let replayed = session(&cassette, agent(model.clone()), prompts).await;
    cassette.finish().unwrap();
    assert!(model.requests().is_empty() && model.refused().is_empty());
    assert_eq!(replayed, recorded);
}

async fn session(
    cassette: &Cassette,
    agent: AgentBuilder,
    prompts: &[&str],
) -> (Vec<Value>, Vec<Value>) {
    let store = InMemoryStore::new();
    let agent = cassette.agent(agent.environment(TestClock::default()).build().unwrap());
    let cx = RunContext::new().stored(&store, "root").await.unwrap();
    let (handle, events) = agent.run(cx).await.unwrap();
    for prompt in prompts {
        assert_eq!(handle.prompt(*prompt).await.unwrap().error, None);
        decide_all(&handle).await;
    }
    let events = rest(handle, events).await;
    let log = store.read("root", 0).await.unwrap();
    assert!(SessionLog::of(&log).context().len() > prompts.len());
    (events, log.iter().map(|entry| serde_json::to_value(entry).unwrap()).collect())
}

/// Approves all pending actions, and answers questions with their first option.
pub(crate) async fn decide_all(handle: &AgentHandle) {
    handle.wait_for_idle().await;
    while let Some(action) = handle.pending().await.unwrap().into_iter().next() {
        let decision = decision(&action);
        handle.resolve(&action, decision).await.unwrap();
        handle.wait_for_idle().await;
    }
}

fn decision(action: &ExternalAction) -> Decision {
    match action.question() {
        Some(question) => Decision::Provide(Provided::Input(question.read("1").unwrap())),
        None => Decision::Approve,
    }
}

/// Ends the session and returns its events.
async fn rest(handle: AgentHandle, mut events: EventStream) -> Vec<Value> {
    drop(handle);
    let mut all = Vec::new();
    while let Some(event) = events.next().await {
        all.push(serde_json::to_value(&*event).unwrap());
    }
    all
}
