//! Deadlines of pending actions. A model checker found the rules necessary. Each test fails without
//! its rule.

use super::kit::{Owner, SharedSession};
use super::{ACCEPTED, decision, refused, until_receipt};
use crate::kit::*;

/// Returns an agent whose call `a` of the tool `pay` is denied, or approved, one second after it
/// became pending.
fn agent(shared: &SharedSession, pay: &TestTool, options: ActionOptions) -> GenericAgent {
    agent_with([calls(&["pay"]), Script::text("ok")], shared, pay, options)
}

fn agent_with(
    replies: impl IntoIterator<Item = Script>,
    shared: &SharedSession,
    pay: &TestTool,
    options: ActionOptions,
) -> GenericAgent {
    let options = options.deadline(ms(1_000));
    let spec = |spec: ToolSpec| {
        spec.approval(Approval::Always).action_options(options).effect(Effect::AtMostOnce)
    };
    GenericAgent::builder(ScriptedModel::new(replies), PiPattern)
        .environment(shared.clock())
        .tool(pay.clone().spec(spec))
        .build()
        .unwrap()
}

async fn run(agent: &GenericAgent, owner: Owner) -> (AgentHandle, EventStream) {
    agent.run(RunContext::new().session("s").memory(owner)).await.unwrap()
}

/// Returns the decisions in the log, with their authors.
fn decisions(shared: &SharedSession) -> Vec<(String, &'static str)> {
    let entries = shared.entries();
    let decided = entries.iter().filter_map(|entry| match entry {
        LogEntry::Decided { by, decision, .. } => {
            Some((by.as_deref().unwrap_or("nobody").to_owned(), decision.name()))
        }
        _ => None,
    });
    decided.collect()
}

fn by(name: &str, decision: &'static str) -> Vec<(String, &'static str)> {
    vec![(name.to_owned(), decision)]
}

/// Returns a session whose call waits, and the pending action.
async fn waiting(
    shared: &SharedSession,
    agent: &GenericAgent,
) -> (AgentHandle, EventStream, ExternalAction) {
    let (handle, events) = run(agent, shared.owner().without_hints()).await;
    handle.prompt("go").await.unwrap();
    let action = handle.pending().await.unwrap().remove(0);
    (handle, events, action)
}

/// C235: an owner at rest takes the default decision at the deadline, once, as `system`. The tool
/// and the model see it.
#[tokio::test(start_paused = true)]
async fn an_owner_at_rest_takes_the_default_at_the_deadline() {
    for (options, kind, ran, result) in [
        (ActionOptions::new(), "deny", 0, "Denied by system: nobody decided before the deadline"),
        (ActionOptions::new().approved_by_default(), "approve", 1, "done"),
    ] {
        let (shared, pay) = (SharedSession::opened(), TestTool::new("pay"));
        let agent = agent(&shared, &pay, options);
        let (handle, _events, action) = waiting(&shared, &agent).await;
        assert_eq!(action.terms.deadline, Some(1_000));
        sleep(ms(999)).await;
        assert_eq!(decisions(&shared), []);
        sleep(ms(2)).await;
        handle.wait_for_idle().await;
        assert_eq!((decisions(&shared), pay.ran()), (by("system", kind), ran));
        let messages = handle.state().await.unwrap().messages;
        let results: Vec<_> = messages.iter().filter_map(|m| m.as_tool_result()).collect();
        assert!(results[0].text().contains(result), "{:?}", results[0]);
        assert_eq!(messages.last().unwrap().text(), "ok");
        sleep(ms(10_000)).await;
        handle.close().await;
        assert_eq!(decisions(&shared), by("system", kind));
    }
}

/// C235: the default is an append that requires the call to be pending, so an owner that was
/// replaced takes no default.
#[tokio::test(start_paused = true)]
async fn an_owner_that_was_replaced_takes_no_default() {
    let (shared, pay) = (SharedSession::opened(), TestTool::new("pay"));
    let agent = agent(&shared, &pay, ActionOptions::new().approved_by_default());
    let (old, _old_events, _) = waiting(&shared, &agent).await;
    let (handle, _events) = run(&agent, shared.owner()).await;
    sleep(ms(2_000)).await;
    handle.wait_for_idle().await;
    assert_eq!((decisions(&shared), pay.ran()), (by("system", "approve"), 1));
    old.close().await;
    handle.close().await;
}

/// C236: a decision posted before the deadline is in time, whenever it is read. The owner reads its
/// mailbox before it takes the default.
#[tokio::test(start_paused = true)]
async fn a_decision_that_was_posted_in_time_wins() {
    // The owner has opened the session and gets no hint, or has left and returns after the
    // deadline.
    for leaves in [false, true] {
        let (shared, pay) = (SharedSession::opened(), TestTool::new("pay"));
        let agent = agent(&shared, &pay, ActionOptions::new());
        let (mut handle, _events, action) = waiting(&shared, &agent).await;
        if leaves {
            handle.close().await;
            sleep(ms(999)).await;
            shared.post(decision("yes", &action, Decision::Approve));
            sleep(ms(5_000)).await;
            (handle, _) = run(&agent, shared.owner()).await;
        } else {
            sleep(ms(999)).await;
            shared.post(decision("yes", &action, Decision::Approve));
            sleep(ms(10)).await;
        }
        until_receipt(&shared, "yes").await;
        handle.wait_for_idle().await;
        let accepted = (by("bob", "approve"), 1, ACCEPTED);
        assert_eq!((decisions(&shared), pay.ran(), shared.receipt("yes")), accepted);
        handle.close().await;
    }
}

/// C236: a decision posted at the deadline or later is refused, whoever sends it, even if the
/// default was not taken yet.
#[tokio::test(start_paused = true)]
async fn a_decision_after_the_deadline_is_refused() {
    let (shared, pay) = (SharedSession::opened(), TestTool::new("pay"));
    let agent = agent(&shared, &pay, ActionOptions::new());
    let (handle, _events, action) = waiting(&shared, &agent).await;
    handle.close().await;
    sleep(ms(1_000)).await;
    shared.post(decision("late", &action, Decision::Approve));
    let (handle, _events) = run(&agent, shared.owner()).await;
    let direct =
        handle.send(ActionResult::new("a", action.digest.clone(), Decision::Approve)).await;
    assert_eq!(direct, Err(InputError::NotPending("a".into())));
    let late = refused(InputError::DeadlinePassed("a".into()));
    assert_eq!(shared.receipt("late"), late);
    assert_eq!((decisions(&shared), pay.ran()), (by("system", "deny"), 0));
    handle.close().await;
}

/// C236: nobody may decide after the deadline, even while the default cannot be written. It is
/// written when that is possible again.
#[tokio::test(start_paused = true)]
async fn while_the_default_cannot_be_written_no_late_decision_is_accepted() {
    let (shared, pay) = (SharedSession::opened(), TestTool::new("pay"));
    let agent = agent(&shared, &pay, ActionOptions::new());
    let (handle, _events, action) = waiting(&shared, &agent).await;
    handle.close().await;
    let full = shared.entries().len() as u64 + 1; // the opening has room
    let (handle, _events) = run(&agent, shared.owner().failing_after(full)).await;
    sleep(ms(3_000)).await;
    let direct =
        handle.send(ActionResult::new("a", action.digest.clone(), Decision::Approve)).await;
    assert_eq!(direct, Err(InputError::DeadlinePassed("a".into())));
    assert_eq!(decisions(&shared), []);
    handle.close().await;
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!((decisions(&shared), pay.ran()), (by("system", "deny"), 0));
    handle.close().await;
}

/// C237: a deadline that passed while no process ran is due, and the next opening takes the
/// default.
#[tokio::test(start_paused = true)]
async fn a_deadline_that_passed_without_a_process_is_due() {
    let (shared, pay) = (SharedSession::opened(), TestTool::new("pay"));
    let agent = agent(&shared, &pay, ActionOptions::new().approved_by_default());
    let (handle, _events, _) = waiting(&shared, &agent).await;
    handle.close().await;
    let info = SessionInfo::of("s", &shared.entries());
    assert_eq!((info.due, info.due_at(999), info.due_at(1_000)), (None, None, Some(Due::Deadline)));
    sleep(ms(60_000)).await;
    let (handle, _events) = run(&agent, shared.owner()).await;
    handle.wait_for_idle().await;
    assert_eq!((decisions(&shared), pay.ran()), (by("system", "approve"), 1));
    assert_eq!(SessionInfo::of("s", &shared.entries()).due_at(60_000), None);
    handle.close().await;
}

/// C235: a session without a mailbox takes defaults too.
#[tokio::test(start_paused = true)]
async fn a_session_without_a_mailbox_has_deadlines() {
    let clock = PausedClock(Instant::now());
    let pay = TestTool::new("pay").spec(|spec| {
        let options = ActionOptions::new().deadline(ms(1_000));
        spec.approval(Approval::Always).action_options(options)
    });
    let replies = [calls(&["pay"]), Script::text("ok")];
    let harness =
        pi_with(replies, std::slice::from_ref(&pay), |agent| agent.environment(clock)).await;
    harness.handle.prompt("go").await.unwrap();
    let entries = harness.memory.entries();
    sleep(ms(1_001)).await;
    harness.handle.wait_for_idle().await;
    assert_eq!(statuses(&harness).await, [ResultStatus::Denied]);
    harness.check().await;

    // In another process, after the deadline, a decision comes too late.
    let action = SessionLog::of(&entries).pending().remove(0);
    let harness = harness.restart_from(entries).await;
    let late = harness.handle.send(ActionResult::new("a", action.digest, Decision::Approve)).await;
    assert_eq!(late, Err(InputError::NotPending("a".into())));
    harness.handle.wait_for_idle().await;
    assert_eq!((statuses(&harness).await, pay.ran()), (vec![ResultStatus::Denied], 0));
}

/// C235: a deadline also fires during a run, while other calls run.
#[tokio::test(start_paused = true)]
async fn a_deadline_fires_while_other_calls_run() {
    let shared = SharedSession::opened();
    let slow = TestTool::new("slow").takes(ms(5_000));
    let options = ActionOptions::new().deadline(ms(1_000));
    let model = ScriptedModel::new([calls(&["ask", "slow"]), Script::text("ok")]);
    let agent = GenericAgent::builder(model, PiPattern)
        .environment(shared.clock())
        .tool(slow.spec(|spec| spec.approval(Approval::Never)))
        .tool(
            TestTool::new("ask")
                .suspends("login")
                .spec(|spec| spec.approval(Approval::Never).action_options(options)),
        )
        .build()
        .unwrap();
    let (handle, _events) = run(&agent, shared.owner().without_hints()).await;
    handle.send(InputEvent::UserRequest("go".into())).await.unwrap();
    sleep(ms(1_500)).await;
    assert_eq!(decisions(&shared), by("system", "deny"));
    assert!(handle.state().await.unwrap().is_running);
    handle.wait_for_idle().await;
    assert_eq!(handle.state().await.unwrap().messages.last().unwrap().text(), "ok");
    handle.close().await;
}

/// C237: wherever a process is killed, the default is taken exactly once, and the tool runs at most
/// once. The log is cut after every entry, and continued by a process that starts after the
/// deadline.
#[tokio::test(start_paused = true)]
async fn a_kill_at_any_entry_leaves_one_default_decision() {
    let (shared, pay) = (SharedSession::opened(), TestTool::new("pay"));
    let options = || ActionOptions::new().approved_by_default();
    let first = agent(&shared, &pay, options());
    let (handle, _events, _) = waiting(&shared, &first).await;
    sleep(ms(2_000)).await;
    handle.wait_for_idle().await;
    handle.close().await;
    let entries = shared.entries();
    let is_awaiting = |entry: &LogEntry| matches!(entry, LogEntry::CallAwaiting { .. });
    let asked = entries.iter().position(is_awaiting).unwrap();
    for cut in asked + 1..=entries.len() {
        let (shared, pay) = (SharedSession::with(entries[..cut].to_vec()), TestTool::new("pay"));
        let agent = agent_with([Script::text("ok")], &shared, &pay, options());
        sleep(ms(2_000)).await;
        let (handle, _events) = run(&agent, shared.owner()).await;
        handle.wait_for_idle().await;
        if handle.state().await.unwrap().interrupted_run.is_some() {
            handle.continue_run().await.unwrap();
        }
        handle.close().await;
        let all = shared.entries();
        check_log(&all).unwrap();
        assert_eq!(decisions(&shared), by("system", "approve"), "cut after {cut}");
        let has_started = entries[..cut].iter().any(|e| matches!(e, LogEntry::CallStarted { .. }));
        assert_eq!(pay.ran(), usize::from(!has_started), "cut after {cut}");
        assert!(SessionLog::of(&all).pending().is_empty());
    }
}

/// Returns a session whose sub-agent waits for two principals to approve `pay`, within a second.
async fn waiting_sub_agent(
    store: &InMemoryStore,
    pay: &TestTool,
) -> (AgentHandle, EventStream, ExternalAction) {
    let (started, options) = (Instant::now(), ActionOptions::new().deadline(ms(1_000)).quorum(2));
    let spec = |spec: ToolSpec| spec.approval(Approval::Always).action_options(options);
    let replies = [calls(&["pay"]), Script::text("the end")];
    let child = GenericAgent::builder(ScriptedModel::new(replies), PiPattern)
        .tool(pay.clone().spec(spec))
        .environment(PausedClock(started))
        .build()
        .unwrap();
    let task = Script::calls([("c", "payer", json!({ "task": "Pay." }))]);
    let root = GenericAgent::builder(ScriptedModel::new([task, Script::text("ok")]), PiPattern)
        .child("payer", "Pays.", child)
        .environment(PausedClock(started))
        .build()
        .unwrap();
    let cx = RunContext::new().stored(store, "root").await.unwrap();
    let (handle, events) = root.run(cx).await.unwrap();
    handle.prompt("go").await.unwrap();
    let action = handle.pending().await.unwrap().remove(0);
    assert_eq!((&*action.call, action.terms.quorum), ("c~a", 2));
    (handle, events, action)
}

async fn approve(handle: &AgentHandle, action: &ExternalAction, by: &str) {
    let (call, digest) = (action.call.clone(), action.digest.clone());
    let approval = ActionResult::new(call, digest, Decision::Approve).by(by);
    handle.send(InputEvent::ExternalActionResult(approval)).await.unwrap();
}

/// C237: a sub-agent's call has the deadline of its tool. The root session takes the default, once.
#[tokio::test(start_paused = true)]
async fn the_root_takes_the_default_for_a_sub_agent() {
    let (store, pay) = (InMemoryStore::new(), TestTool::new("pay"));
    let (handle, _events, action) = waiting_sub_agent(&store, &pay).await;
    approve(&handle, &action, "ann").await;
    assert_eq!(handle.pending().await.unwrap()[0].approvals.len(), 1);
    sleep(ms(1_100)).await;
    handle.wait_for_idle().await;
    assert_eq!((handle.pending().await.unwrap().len(), pay.ran()), (0, 0));
    assert_eq!(handle.state().await.unwrap().messages.last().unwrap().text(), "ok");
    handle.close().await;
    for session in ["root", "root/m2.1"] {
        let entries = store.read(session, 0).await.unwrap();
        let decided = entries.iter().filter(|entry| match entry {
            LogEntry::Decided { by, .. } => by.as_deref() == Some("system"),
            _ => false,
        });
        assert_eq!(decided.count(), 1, "{session}");
    }
}

/// C238: the root counts the approvals of a sub-agent's call; the sub-agent gets one decision.
#[tokio::test(start_paused = true)]
async fn the_root_counts_the_approvals_for_a_sub_agent() {
    let (store, pay) = (InMemoryStore::new(), TestTool::new("pay"));
    let (handle, _events, action) = waiting_sub_agent(&store, &pay).await;
    approve(&handle, &action, "ann").await;
    approve(&handle, &action, "bob").await;
    handle.wait_for_idle().await;
    assert_eq!((handle.pending().await.unwrap().len(), pay.ran()), (0, 1));
    handle.close().await;
}

/// C507: a question that nobody answers before its deadline has expired, and a refusal of a person
/// has declined it, also for a pattern that is entered in another process.
#[tokio::test(start_paused = true)]
async fn a_question_that_nobody_answers_in_time_has_expired() {
    for declines in [false, true] {
        let shared = SharedSession::opened();
        let pattern = does(|step| {
            Box::pin(async move {
                step.take_input().await?;
                let options = ActionOptions::new().deadline(ms(1_000));
                let question = Question::choice("Which colour?", ["red"]).options(options);
                let status = step.question("colour", question).await?;
                if status == QuestionStatus::Waiting {
                    return Ok(StepEnd::AwaitingAction);
                }
                step.remember(AssistantMessage::from(format!("{status:?}"))).await?;
                Ok(StepEnd::Done)
            })
        });
        let model = ScriptedModel::new([]);
        let agent =
            GenericAgent::builder(model, pattern).environment(shared.clock()).build().unwrap();
        let (handle, _events, action) = waiting(&shared, &agent).await;
        if declines {
            handle.deny(&action, "").await.unwrap();
        } else {
            handle.close().await;
            sleep(ms(2_000)).await;
        }
        let (handle, _events) = match declines {
            true => (handle, _events),
            false => run(&agent, shared.owner()).await,
        };
        handle.wait_for_idle().await;
        let messages = handle.state().await.unwrap().messages;
        let said = if declines { "Declined(\"\")" } else { "Expired" };
        assert_eq!(messages.last().unwrap().text(), said);
        handle.close().await;
    }
}
