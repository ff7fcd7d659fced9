//! The sub-agents alice, bob and carol, for both forms of task 7. Each offers a price after a call
//! that needs an approval.

use loopwright_core::event::{AgentEvent, Decision, EventStream, ExternalAction, InputEvent};
use loopwright_core::log::{InMemoryStore, PendingQuery, SessionLog, SessionStore};
use loopwright_core::message::{ResultStatus, Usage};
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{
    Cassette, Gate, Script, ScriptedModel, TestTool, TreeInput, crash_tree, until,
};
use loopwright_core::tool::Effect;
use loopwright_core::{AgentBuilder, AgentHandle, GenericAgent, RunContext};
use loopwright_patterns::PiPattern;
use serde_json::json;

/// The answer of a sub-agent.
#[derive(Debug, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
pub(crate) struct Offer {
    pub(crate) agent: String,
    pub(crate) price: u32,
}

pub(crate) const TASK: &str = "Make an offer.";

pub(crate) const NAMES: [&str; 3] = ["alice", "bob", "carol"];

/// Returns the price that this sub-agent offers if its call is approved.
pub(crate) fn price(name: &str) -> u32 {
    match name {
        "alice" => 30,
        "bob" => 20,
        _ => 25,
    }
}

/// The agents of a test, and the store of their sessions.
pub(crate) struct Family {
    store: InMemoryStore,
    reserve: TestTool,
    /// Carol's model replies once the gate is open.
    gate: Gate,
}

impl Family {
    pub(crate) fn new() -> Self {
        let reserve = TestTool::new("reserve").effect(Effect::Idempotent);
        Family { store: InMemoryStore::new(), reserve, gate: Gate::new() }
    }

    /// Returns the sub-agent of this name.
    pub(crate) fn child(&self, name: &'static str) -> GenericAgent {
        let gate = (name == "carol").then(|| self.gate.clone());
        let reply = move |request: &ChatRequest| {
            let script = match request.messages.last().unwrap().as_tool_result() {
                None => Script::calls([("r", "reserve", json!({}))]),
                Some(result) => {
                    let is_ok = result.status == ResultStatus::Ok;
                    let price = if is_ok { price(name) } else { 1000 };
                    Script::text(&json!({ "agent": name, "price": price }).to_string())
                }
            };
            let script = script.usage(Usage::new(100, 10));
            gate.iter().fold(script, |script, gate| script.gate(gate))
        };
        let builder = GenericAgent::builder(ScriptedModel::new([]).reply_with(reply), PiPattern);
        builder.tool(self.reserve.clone()).output::<Offer>().build().unwrap()
    }

    async fn open(&self, agent: &GenericAgent) -> (AgentHandle, EventStream) {
        agent.run(RunContext::new().stored(&self.store, "root").await.unwrap()).await.unwrap()
    }
}

/// A function that builds an agent with the sub-agents of the family.
pub(crate) type Build = fn(&Family) -> AgentBuilder;

fn of(action: &ExternalAction, agent: &str) -> bool {
    *action.path == [agent.into()]
}

async fn decide(handle: &AgentHandle, agent: &str, decision: Decision) {
    let pending = handle.pending().await.unwrap();
    let action = pending.into_iter().find(|action| of(action, agent)).expect("it is pending");
    handle.resolve(&action, decision).await.unwrap();
}

/// Asserts that approvals appear at the root with their path, and that each is decided there while
/// others wait and work, even in another process. The root must have the usage of the tree. Returns
/// the texts of the conversation.
pub(crate) async fn run_with_approvals(build: Build, requests: u64) -> Vec<String> {
    let family = Family::new();
    let agent = build(&family).build().unwrap();
    let (handle, mut events) = family.open(&agent).await;
    handle.send(InputEvent::UserRequest("Find the best offer.".into())).await.unwrap();
    for _ in 0..2 {
        until(&mut events, |event| matches!(event, AgentEvent::ExternalAction(_))).await;
    }
    let pending = handle.pending().await.unwrap();
    assert!(of(&pending[0], "alice") && of(&pending[1], "bob") && pending.len() == 2);
    // Alice gets an answer and is done while bob waits and carol works.
    decide(&handle, "alice", Decision::Approve).await;
    until(&mut events, |event| matches!(event, AgentEvent::ToolExecutionEnd { .. })).await;
    assert_eq!((family.reserve.ran(), handle.pending().await.unwrap().len()), (1, 1));
    family.gate.open();
    handle.wait_for_idle().await;
    handle.close().await;
    // Another process decides the rest.
    let (handle, _events) = family.open(&agent).await;
    let names: Vec<_> = handle.pending().await.unwrap().iter().map(|a| a.path.join("/")).collect();
    assert_eq!(names, ["bob", "carol"]);
    for name in ["carol", "bob"] {
        decide(&handle, name, Decision::Approve).await;
        handle.wait_for_idle().await;
    }
    let messages = handle.state().await.unwrap().messages;
    handle.close().await;
    assert_eq!(family.reserve.ran(), 3);
    assert!(family.store.pending(&PendingQuery::all()).await.unwrap().actions.is_empty());
    let spent = SessionLog::of(&family.store.read("root", 0).await.unwrap()).spent();
    assert_eq!((u64::from(spent.turns), spent.tokens), (6 + requests, 110 * (6 + requests)));
    messages.iter().map(|message| message.text()).collect()
}

/// Asserts that the sub-agents, which work at the same time and need approvals, are recorded, and
/// replayed without a call of their tool.
pub(crate) async fn assert_is_recorded(build: Build) {
    let folder = tempfile::tempdir().unwrap();
    let mut all = Vec::new();
    for calls in [3, 0] {
        let cassette = Cassette::auto(folder.path().join("family.jsonl")).unwrap();
        let family = Family::new();
        family.gate.open();
        let agent = cassette.agent(build(&family).build().unwrap());
        let (handle, _events) = family.open(&agent).await;
        handle.prompt("Find the best offer.").await.unwrap();
        crate::cassettes::decide_all(&handle).await;
        let messages = handle.state().await.unwrap().messages;
        all.push(messages.iter().map(|message| message.text()).collect::<Vec<_>>());
        cassette.finish().unwrap();
        assert_eq!(family.reserve.ran(), calls);
    }
    assert_eq!(all[0], all[1]);
    assert!(all[0].last().is_some_and(|text| !text.is_empty()), "{all:?}");
}

/// Asserts that a crash at every pair of cuts changes nothing, for all inputs of the user.
pub(crate) async fn assert_survives_crashes(build: Build) {
    type React = fn(&ExternalAction) -> Option<TreeInput>;
    let approve: React = |_| Some(Decision::Approve.into());
    let deny_bob: React = |action| match of(action, "bob") {
        true => Some(Decision::Deny("Too dear.".into()).into()),
        false => Some(Decision::Approve.into()),
    };
    let abort_after_alice: React = |action| match of(action, "alice") {
        true => Some(Decision::Approve.into()),
        false => Some(TreeInput::Abort),
    };
    let instead_of_carol: React = |action| match *action.call == *"carol~r" {
        true => Some(TreeInput::Request("Stop that.".into())),
        false => Some(Decision::Approve.into()),
    };
    let agent = || {
        let family = Family::new();
        family.gate.open();
        build(&family).build().unwrap()
    };
    let store = async || InMemoryStore::new();
    for react in [approve, deny_bob, abort_after_alice, instead_of_carol] {
        let report = crash_tree(agent, "Find the best offer.", react, store).await.unwrap();
        // A pattern gives its tasks again for another request: three more sessions.
        assert!([4, 7].contains(&report.sessions), "{report:?}");
        assert_eq!(report.compared, report.crashes, "{report:?}");
        assert!(report.crashes > 2 * report.appends, "{report:?}");
    }
}
