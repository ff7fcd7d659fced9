//! Sub-agents: tools that are agents, with their own sessions.

mod closing;
mod failing_log;
mod held;
mod late_decisions;
mod sharing;

use crate::kit::*;
use loopwright_core::{GenericAgent, RunContext, SessionStore};

/// An agent with the sub-agents alice, bob and carol, each of which pays once with approval.
struct Family {
    store: InMemoryStore,
    pay: TestTool,
    model: ScriptedModel,
    child: ScriptedModel,
}

/// Returns the reply of a sub-agent's model: a call, then its status.
fn child_replies(request: &ChatRequest) -> Script {
    let last = request.messages.last().unwrap();
    match last.as_tool_result() {
        None if last.text() == "Chat." => Script::text("Hello."),
        None => Script::calls([("p", "pay", json!({}))]),
        Some(result) => Script::text(&format!("{:?}", result.status)),
    }
}

/// Returns the reply of the root's model: calls of three sub-agents, then their results.
fn root_replies(request: &ChatRequest) -> Script {
    let results: Vec<_> = request.messages.iter().filter_map(|m| m.as_tool_result()).collect();
    let asked = request.messages.iter().filter(|m| m.as_tool_result().is_none()).count();
    if results.is_empty() && asked == 1 {
        let task = json!({ "task": "Pay." });
        let call = |id, name| (id, name, task.clone());
        return Script::calls([call("a", "alice"), call("b", "bob"), call("c", "carol")]);
    }
    let texts: Vec<String> = results.iter().map(|r| r.text()).collect();
    Script::text(&texts.join(","))
}

impl Family {
    fn new() -> Self {
        Family {
            store: InMemoryStore::new(),
            pay: TestTool::new("pay").answers("paid").effect(Effect::AtMostOnce),
            model: ScriptedModel::new([]).reply_with(root_replies),
            child: ScriptedModel::new([]).reply_with(child_replies),
        }
    }

    fn child(&self) -> GenericAgent {
        let builder = GenericAgent::builder(self.child.clone(), PiPattern);
        builder.tool(self.pay.clone()).build().unwrap()
    }

    fn agent(&self, options: impl FnOnce(AgentBuilder) -> AgentBuilder) -> GenericAgent {
        let builder = GenericAgent::builder(self.model.clone(), PiPattern);
        let names = ["alice", "bob", "carol"];
        let add = |builder: AgentBuilder, name| builder.child(name, "Pays.", self.child());
        options(names.into_iter().fold(builder, add)).build().unwrap()
    }

    async fn open(&self) -> (AgentHandle, EventStream) {
        self.open_with(|builder| builder).await
    }

    async fn open_with(
        &self,
        options: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> (AgentHandle, EventStream) {
        let cx = RunContext::new().stored(&self.store, "root").await.unwrap();
        self.agent(options).run(cx).await.unwrap()
    }

    /// Closes the session and waits until it can be opened again.
    async fn close(&self, handle: AgentHandle) {
        handle.wait_for_idle().await;
        handle.close().await;
    }

    async fn log(&self, session: &str) -> Vec<LogEntry> {
        self.store.read(session, 0).await.unwrap()
    }
}

async fn approve(handle: &AgentHandle, call: &str) -> Result<InputId, InputError> {
    let pending = handle.pending().await.unwrap();
    let action = pending.iter().find(|action| *action.call == *call).expect("it is pending");
    handle.send(ActionResult::new(call, action.digest.clone(), Decision::Approve)).await
}

fn of(action: &ExternalAction, agent: &str) -> bool {
    *action.path[0] == *agent
}

async fn pending_calls(handle: &AgentHandle) -> Vec<String> {
    handle.pending().await.unwrap().iter().map(|action| action.call.to_string()).collect()
}

async fn results(handle: &AgentHandle) -> Vec<(ResultStatus, String)> {
    let messages = handle.state().await.unwrap().messages;
    let results = messages.iter().filter_map(|m| m.as_tool_result());
    results.map(|result| (result.status, result.text())).collect()
}

/// C160: The actions of sub-agents are pending at the root, with their path. Each is decided there,
/// and the sub-agent continues.
#[tokio::test(start_paused = true)]
async fn actions_of_sub_agents_are_decided_at_the_root() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    let outcome = handle.prompt("Let them pay.").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    assert_eq!(pending_calls(&handle).await, ["a~p", "b~p", "c~p"]);
    let pending = handle.pending().await.unwrap();
    assert_eq!((&*pending[1].name, &*pending[1].path), ("pay", &["bob".into()][..]));
    for call in ["b~p", "a~p", "c~p"] {
        approve(&handle, call).await.unwrap();
        handle.wait_for_idle().await;
    }
    assert_eq!(family.pay.ran(), 3);
    let ok = (ResultStatus::Ok, "Ok".to_owned());
    assert_eq!(results(&handle).await, [ok.clone(), ok.clone(), ok]);
    assert_eq!(handle.state().await.unwrap().messages.last().unwrap().text(), "Ok,Ok,Ok");
    family.close(handle).await;
    check_log(&family.log("root").await).unwrap();
    for n in 1..=3 {
        check_log(&family.log(&format!("root/m2.{n}")).await).unwrap();
    }
}

/// C485: The sub-agent learns which change was shown at the root.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_gets_the_change_that_was_shown() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    let action = handle.pending().await.unwrap().remove(0);
    let approval = ActionResult::new(action.call, action.digest, Decision::Approve);
    let shown = change_digest("-1\n+2\n");
    handle.send(approval.change(shown.clone())).await.unwrap();
    handle.wait_for_idle().await;
    let log = family.log("root/m2.1").await;
    let decided = log.iter().find_map(|entry| match entry {
        LogEntry::Decided { change, .. } => Some(change.clone()),
        _ => None,
    });
    assert_eq!((decided, family.pay.ran()), (Some(Some(shown)), 1), "it has no preview");
    family.close(handle).await;
}

/// C485: Several who approve the action of a sub-agent have seen one change, or none is allowed.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_gets_no_change_if_different_ones_were_shown() {
    let mut family = Family::new();
    family.pay = family.pay.spec(|spec| spec.action_options(ActionOptions::new().quorum(2)));
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    let action = handle.pending().await.unwrap().remove(0);
    for (by, shown) in [("ann", "-1\n+2\n"), ("bob", "-1\n+3\n")] {
        let (call, digest) = (action.call.clone(), action.digest.clone());
        let approval = ActionResult::new(call, digest, Decision::Approve).by(by);
        handle.send(approval.change(change_digest(shown))).await.unwrap();
    }
    handle.wait_for_idle().await;
    let log = family.log("root/m2.1").await;
    let decided = log.iter().find_map(|entry| match entry {
        LogEntry::Decided { change, .. } => change.clone(),
        _ => None,
    });
    let both = [change_digest("-1\n+2\n"), change_digest("-1\n+3\n")];
    assert!(decided.is_some_and(|change| !both.contains(&change)));
    family.close(handle).await;
}

/// C160: An action is decided, and its sub-agent continues, while the others still work.
#[tokio::test(start_paused = true)]
async fn one_is_answered_while_the_others_work() {
    let family = Family::new();
    let gate = Gate::new();
    let slow = {
        let gate = gate.clone();
        ScriptedModel::new([]).reply_with(move |_| Script::text("At last.").gate(&gate))
    };
    let slow = GenericAgent::builder(slow, PiPattern).build().unwrap();
    let (handle, mut events) = family.open_with(|b| b.child("dora", "Takes long.", slow)).await;
    family.model.push(Script::calls([
        ("a", "alice", json!({ "task": "Pay." })),
        ("d", "dora", json!({ "task": "Wait." })),
    ]));
    handle.send(InputEvent::UserRequest("Let them pay.".into())).await.unwrap();
    until(&mut events, |event| matches!(event, AgentEvent::ExternalAction(_))).await;
    approve(&handle, "a~p").await.unwrap();
    until(&mut events, |event| matches!(event, AgentEvent::ToolExecutionEnd { .. })).await;
    assert_eq!((family.pay.ran(), results(&handle).await.len()), (1, 0));
    gate.open();
    handle.wait_for_idle().await;
    let expected = [(ResultStatus::Ok, "Ok".into()), (ResultStatus::Ok, "At last.".into())];
    assert_eq!(results(&handle).await, expected);
}

/// C160: Any process that opens the root later has the actions pending there, once.
#[tokio::test(start_paused = true)]
async fn actions_are_decided_after_a_restart() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    family.close(handle).await;
    let log = family.log("root").await;
    for call in ["a~p", "b~p", "c~p"] {
        let (handle, _events) = family.open().await;
        approve(&handle, call).await.unwrap();
        family.close(handle).await;
    }
    let pending = family.store.pending(&PendingQuery::all()).await.unwrap().actions;
    assert!(pending.is_empty() && family.log("root").await.starts_with(&log));
    assert_eq!(family.pay.ran(), 3);
    check_log(&family.log("root").await).unwrap();
}

/// C160: Sub-agents of sub-agents work alike, at any depth up to the limit.
#[tokio::test(start_paused = true)]
async fn sub_agents_are_nested() {
    for depth in [1, 2] {
        let family = Family::new();
        let inner = ScriptedModel::new([]).reply_with(|request| match request.messages.len() {
            1 => Script::calls([("x", "alice", json!({ "task": "Pay." }))]),
            _ => Script::text(&request.messages.last().unwrap().text()),
        });
        let inner = GenericAgent::builder(inner, PiPattern)
            .child("alice", "Pays.", family.child())
            .build()
            .unwrap();
        let limits = Limits::default().depth(depth);
        let (handle, _events) =
            family.open_with(|b| b.limits(limits).child("erin", "Has another.", inner)).await;
        family.model.push(Script::calls([("e", "erin", json!({ "task": "Pay." }))]));
        handle.prompt("Go.").await.unwrap();
        if depth == 1 {
            assert!(results(&handle).await[0].1.contains("nested too deep"));
            continue;
        }
        let action = handle.pending().await.unwrap().remove(0);
        assert_eq!((&*action.call, &*action.path), ("e~x~p", &["erin".into(), "alice".into()][..]));
        for (decision, refused) in [
            (Decision::ApproveWith(json!([])), "BadArguments"),
            (Decision::Provide(Provided::Input(json!(1))), "BadDecision"),
        ] {
            let refusal = handle.resolve(&action, decision);
            let refusal = format!("{:?}", refusal.await.unwrap_err());
            assert!(refusal.starts_with(refused), "{refusal}");
        }
        approve(&handle, "e~x~p").await.unwrap();
        handle.wait_for_idle().await;
        assert_eq!(results(&handle).await, [(ResultStatus::Ok, "Ok".into())]);
        family.close(handle).await;
        let log = family.log("root/m2.1/m2.1").await;
        let LogEntry::Opened { parent: Some(parent), .. } = &log[0] else { panic!("{:?}", log[0]) };
        assert_eq!((parent.root.as_deref(), &*parent.session_id), (Some("root"), "root/m2.1"));
    }
}

/// C164: The session of a sub-agent is only opened through its root, and is in no list.
#[tokio::test(start_paused = true)]
async fn the_session_of_a_sub_agent_is_opened_by_its_root_only() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    family.close(handle).await;
    let before = family.log("root/m2.1").await;
    let cx = RunContext::new().stored(&family.store, "root/m2.1").await.unwrap();
    let refused = family.child().run(cx).await.err().unwrap();
    let (session, root) = ("root/m2.1".into(), "root".into());
    assert_eq!(refused, AgentError::Memory(MemoryError::SubAgent { session, root }));
    assert_eq!(family.log("root/m2.1").await, before);
    let listed = family.store.sessions().await.unwrap();
    assert_eq!(listed.iter().map(|info| &*info.id).collect::<Vec<_>>(), ["root"]);
    assert_eq!(family.store.pending(&PendingQuery::all()).await.unwrap().actions.len(), 3);
    family.store.delete("root").await.unwrap();
    for session in ["root", "root/m2.1", "root/m2.3"] {
        let gone = family.store.read(session, 0).await;
        assert_eq!(gone, Err(MemoryError::NoSession(session.into())));
    }
}

/// C160: A pattern gives tasks to sub-agents with its own calls.
#[tokio::test(start_paused = true)]
async fn a_pattern_has_sub_agents() {
    let family = Family::new();
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let ask = |name: &'static str| Call::child(name, "Pay.").key(name);
            let Some(results) = step.call_all(["alice", "bob"].map(ask)).await? else {
                return Ok(StepEnd::AwaitingAction);
            };
            let texts: Vec<String> = results.iter().map(|result| result.text()).collect();
            step.remember(UserMessage::from(texts.join(" and "))).await?;
            step.ask().await?.finish()
        })
    });
    let model = ScriptedModel::new([Script::text("Done.")]);
    let mut builder = GenericAgent::builder(model.clone(), pattern);
    for name in ["alice", "bob"] {
        builder = builder.child(name, "Pays.", family.child());
    }
    let agent = builder.build().unwrap();
    let handle = agent.session().await.unwrap();
    handle.prompt("Let them pay.").await.unwrap();
    for _ in 0..2 {
        let action = handle.pending().await.unwrap().remove(0);
        handle.approve(&action).await.unwrap();
        handle.wait_for_idle().await;
    }
    let texts: Vec<String> = model.requests()[0].messages.iter().map(|m| m.text()).collect();
    assert_eq!(texts.last().unwrap(), "Ok and Ok");
    let agent = family.agent(|builder| builder);
    let refused = agent.run(RunContext::new().memory(InMemory::new())).await.err();
    assert_eq!(refused, Some(AgentError::NoStore));
}

/// C160: The answer of a sub-agent is read as a value. An invalid text and a failed call are errors
/// that name the sub-agent.
#[test]
fn the_answer_of_a_sub_agent_is_read_as_a_value() {
    let result = |status, text: &str| {
        ToolResult::new("c", "alice", status, vec![Content::text(text)]).output::<u32>()
    };
    assert_eq!(result(ResultStatus::Ok, "```json\n42\n```").unwrap(), 42);
    let why = result(ResultStatus::Ok, "many").unwrap_err();
    assert!(matches!(&why, StepError::Output(why) if why.starts_with("`alice` answered `many`")));
    let why = result(ResultStatus::Denied, "42").unwrap_err();
    assert!(matches!(&why, StepError::Pattern(_)), "{why}");
    assert_eq!(why.to_string(), "`alice` gave no answer: 42");
}

/// C165: For any pair of cuts that a crash leaves in the logs of a parent and a sub-agent, each
/// pays once, and the conversations are the same as without a crash.
#[tokio::test(start_paused = true)]
async fn sub_agents_survive_a_crash_at_every_pair_of_cuts() {
    let agent = || Family::new().agent(|builder| builder);
    let approve = |_: &ExternalAction| Some(Decision::Approve.into());
    let deny_bob = |action: &ExternalAction| match of(action, "bob") {
        true => Some(Decision::Deny("No.".into()).into()),
        false => Some(Decision::Approve.into()),
    };
    let abort_after_alice = |action: &ExternalAction| match of(action, "alice") {
        true => Some(Decision::Approve.into()),
        false => Some(TreeInput::Abort),
    };
    let instead_of_carol = |action: &ExternalAction| match of(action, "carol") {
        true => Some(TreeInput::Request("Stop that.".into())),
        false => Some(Decision::Approve.into()),
    };
    let store = async || InMemoryStore::new();
    type React = fn(&ExternalAction) -> Option<TreeInput>;
    let users: [React; 4] = [approve, deny_bob, abort_after_alice, instead_of_carol];
    for react in users {
        let report = crash_tree(agent, "Let them pay.", react, store).await.unwrap();
        assert_eq!(report.sessions, 4);
        assert!(report.crashes > 2 * report.appends, "{report:?}");
        assert!(report.compared > report.crashes * 3 / 4, "{report:?}");
    }
}

/// C160: The hooks of the parent see the results of sub-agents.
#[tokio::test(start_paused = true)]
async fn hooks_see_the_results_of_sub_agents() {
    let family = Family::new();
    let (handle, _events) = family
        .open_with(|builder| {
            builder.around_tool_call(|_, info, next| {
                Box::pin(async move {
                    let mut result = next.run().await;
                    let said = format!("{} said {}", info.tool.name, result.text());
                    result.content = vec![Content::text(said)];
                    result
                })
            })
        })
        .await;
    family.model.push(Script::calls([("a", "alice", json!({ "task": "Chat." }))]));
    handle.prompt("Go.").await.unwrap();
    assert_eq!(results(&handle).await, [(ResultStatus::Ok, "alice said Hello.".into())]);
}

/// C160 C444: An abort also stops a hook that runs the call of a sub-agent again and again.
#[tokio::test(start_paused = true)]
async fn an_abort_stops_a_hook_around_a_sub_agent() {
    let family = Family::new();
    let (called, mut is_called) = tokio::sync::mpsc::unbounded_channel();
    let (handle, _events) = family
        .open_with(move |builder| {
            builder.around_tool_call(move |_, _, next| {
                let called = called.clone();
                Box::pin(async move {
                    loop {
                        next.run().await;
                        let _ = called.send(());
                    }
                })
            })
        })
        .await;
    family.model.push(Script::calls([("a", "alice", json!({ "task": "Chat." }))]));
    let aborting = async {
        is_called.recv().await;
        handle.abort().await.unwrap();
    };
    let (outcome, ()) = tokio::join!(handle.prompt("Go."), aborting);
    assert_eq!(outcome.unwrap().end, RunStatus::Aborted);
    assert_eq!(results(&handle).await[0].0, ResultStatus::Aborted);
}

/// C160: Each call has its own session, even several calls of one sub-agent.
#[tokio::test(start_paused = true)]
async fn every_call_has_a_session_of_its_own() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    let chat = |id| Script::calls([(id, "alice", json!({ "task": "Chat." }))]);
    for reply in [chat("a"), Script::text("1"), chat("a"), Script::text("2")] {
        family.model.push(reply);
    }
    for _ in 0..2 {
        handle.prompt("Go.").await.unwrap();
    }
    assert_eq!(results(&handle).await.len(), 2);
    assert_eq!(family.child.requests().len(), 2);
    family.close(handle).await;
    let sub_agents = sub_agents(&family.store, "root").await.unwrap();
    assert_eq!(
        sub_agents.iter().map(|name| &**name).collect::<Vec<_>>(),
        ["root/m2.1", "root/m6.1"]
    );
}

/// C160: A sub-agent waits if another process has not left its session yet.
#[tokio::test(start_paused = true)]
async fn a_sub_agent_waits_for_its_session() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    family.close(handle).await;
    let left_over = family.store.open("root/m2.1").await.unwrap();
    let (handle, _events) = family.open().await;
    approve(&handle, "a~p").await.unwrap();
    sleep(Duration::from_secs(20)).await;
    assert_eq!((family.pay.ran(), results(&handle).await.len()), (0, 0));
    drop(left_over);
    handle.wait_for_idle().await;
    assert_eq!((family.pay.ran(), results(&handle).await.len()), (1, 0));
    let action = handle.pending().await.unwrap();
    assert_eq!(action.iter().map(|action| &*action.call).collect::<Vec<_>>(), ["b~p", "c~p"]);
    family.close(handle).await;
    assert_eq!(SessionLog::of(&family.log("root/m2.1").await).messages().len(), 4);
}

/// C164: An agent without the sub-agents can neither decide for them nor end them. It can abort.
#[tokio::test(start_paused = true)]
async fn an_agent_without_the_sub_agents_leaves_them_alone() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    family.close(handle).await;
    let alone = GenericAgent::builder(family.model.clone(), PiPattern).build().unwrap();
    let cx = RunContext::new().stored(&family.store, "root").await.unwrap();
    let (handle, _events) = alone.run(cx).await.unwrap();
    let action = handle.pending().await.unwrap().remove(0);
    let denied = handle.deny(&action, "No.").await;
    let why = denied.unwrap_err().to_string();
    assert!(why.starts_with("the agent has no sub-agent `alice`"), "{why}");
    handle.wait_for_idle().await;
    assert_eq!(pending_calls(&handle).await, ["a~p", "b~p", "c~p"]);
    family.close(handle).await;
    let (handle, _events) = family.open().await;
    approve(&handle, "a~p").await.unwrap();
    handle.wait_for_idle().await;
    assert_eq!((family.pay.ran(), pending_calls(&handle).await.len()), (1, 2));
}
