//! Crashes: the log is cut after every append and reopened.

use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use loopwright_core::testing::{CheckError, CrashReport, ScriptedSession, crash_at_every_append};
use loopwright_patterns::{FirstCall, GenericPattern};

use crate::kit::*;

/// Returns tools of every effect: `once` needs no approval, `ask` does.
fn tools() -> Vec<Arc<dyn Tool>> {
    let once =
        TestTool::new("once").effect(Effect::AtMostOnce).spec(|s| s.approval(Approval::Never));
    let ask = TestTool::new("ask").effect(Effect::Idempotent);
    [TestTool::new("read"), once, ask, TestTool::new("login").suspends("login")]
        .map(|t| Arc::new(t) as _)
        .into()
}

fn scenario() -> ScriptedSession {
    let replies =
        [calls(&["read", "once", "ask", "login"]), Script::text("one"), Script::text("two")];
    let more = (0..6).map(|n| Script::text(&format!("more {n}")));
    ScriptedSession::new(replies.into_iter().chain(more))
        .request("go")
        .follow_up("more")
        .request("again")
}

fn of(pattern: impl BehaviorPattern + Clone + 'static) -> impl Fn(ScriptedModel) -> AgentBuilder {
    move |model| GenericAgent::builder(model, pattern.clone()).tools(tools())
}

/// C53 C54 C91: after a crash at any append and `Continue`, a session has the same result. Every
/// call has one result, no message is delivered twice, and an at-most-once call that had started
/// does not run again.
#[tokio::test(start_paused = true)]
async fn a_session_cut_after_every_append_continues() {
    let started = |item: &LogEntry| matches!(item, LogEntry::CallStarted { .. });
    let asked = |item: &LogEntry| matches!(item, LogEntry::RequestStarted { .. });
    let mut scenarios =
        vec![scenario(), scenario().decisions(|_| Decision::Deny("no".into())), scenario().reset()];
    for urgency in [Urgency::AfterTurn, Urgency::SkipPending, Urgency::Interrupt] {
        let steered = |s: ScriptedSession| s.steer(Prompt::from("stop").urgency(urgency));
        let replies =
            [calls(&["read", "once", "ask"])].into_iter().chain((0..6).map(|_| Script::text("ok")));
        let start = ScriptedSession::new(replies).request("go");
        scenarios.push(steered(start.clone()).when(started).request("again"));
        scenarios.push(steered(start.clone()).when(asked).abort().when(started).request("again"));
        scenarios.push(start.follow_up("more").abort().when(started).reset().request("again"));
    }
    let each = scenarios.iter().cloned().map(|scenario| (scenario, 12, 2.0 / 3.0));
    let joined = scenarios.iter().cloned().map(|scenario| (scenario.join_appends(), 7, 0.5));
    for (n, (scenario, appends, compared)) in each.chain(joined).enumerate() {
        let reports = [
            crash_at_every_append(of(PiPattern), scenario.clone()).await,
            crash_at_every_append(of(GenericPattern), scenario.clone()).await,
            crash_at_every_append(
                of(Arc::new(FirstCall::new(ToolChoice::Required, PiPattern))),
                scenario,
            )
            .await,
        ];
        for report in reports {
            let report = report.unwrap_or_else(|why| panic!("scenario {n}: {why}"));
            assert!(report.appends > appends && report.requests > 1, "scenario {n}: {report}");
            let ratio = report.compared as f64 / report.appends as f64;
            assert!(ratio > compared, "scenario {n}: {report}");
        }
    }
}

/// C91: errors are found: an at-most-once tool whose effect changes after the crash, a request that
/// no server would accept, a scenario without enough replies.
#[tokio::test(start_paused = true)]
async fn errors_after_a_crash_are_found() {
    let few = ScriptedSession::new([calls(&["read"])]).request("go");
    let found = crash_at_every_append(of(PiPattern), few).await.unwrap_err();
    assert_eq!(
        found.sentence(),
        "without a crash, the agent sends more requests than there are replies"
    );

    let policy = || loopwright_memory::SummaryCompaction::new().keep_turns(1);
    let talk = |n| {
        ScriptedSession::new((0..n).map(|_| Script::text("yes")))
            .request("a")
            .request("b")
            .request("c")
            .compact()
    };
    let compacts = |model| of(PiPattern)(model).compaction(policy());
    let found = crash_at_every_append(compacts, talk(3)).await.unwrap_err();
    let found = found.sentence();
    assert!(found.contains("more requests than"), "the summary had no reply: {found}");
    assert_eq!(
        crash_at_every_append(compacts, talk(4)).await.unwrap().requests,
        4,
        "three and the summary"
    );

    let forgets = |_: &HookContext, messages: Vec<Arc<Message>>| {
        messages.into_iter().filter(|m| m.as_tool_result().is_none()).collect()
    };
    let agent = |model| of(PiPattern)(model).convert_to_llm(forgets);
    let found = crash_at_every_append(agent, scenario()).await.unwrap_err();
    assert!(
        found.sentence().starts_with(
            "without a crash, a malformed request was sent: call a is not followed by its result"
        ),
        "{found}"
    );

    // In the next process the tool has another effect, so it runs a second time.
    let made = AtomicUsize::new(0);
    let agent = |model| {
        let tool =
            TestTool::new("pay").effect(Effect::Idempotent).spec(|s| s.approval(Approval::Never));
        let once = made.fetch_add(1, SeqCst) == 0;
        GenericAgent::builder(model, PiPattern).tool(if once {
            tool.effect(Effect::AtMostOnce)
        } else {
            tool
        })
    };
    let scenario = ScriptedSession::new([calls(&["pay"]), Script::text("one")]).request("go");
    let found = crash_at_every_append(agent, scenario).await.unwrap_err();
    let expected = "after a crash right after entry 6 (`call_started`), the at-most-once call a of \
                    `pay` ran a second time";
    assert_eq!(found.sentence(), expected);
}

/// Returns the error that the kit finds for a pattern in a session with one reply.
async fn found_in<P: BehaviorPattern + 'static>(
    pattern: impl Fn() -> P,
    options: impl Fn(ScriptedSession) -> ScriptedSession,
) -> Result<CrashReport, CheckError> {
    let agent = |model| GenericAgent::builder(model, pattern());
    let scenario = ScriptedSession::new([Script::text("one")]).request("go");
    crash_at_every_append(agent, options(scenario)).await
}

/// C91: crashes happen only between appends, so values and the message written with them are never
/// separated.
#[tokio::test(start_paused = true)]
async fn no_crash_is_inside_an_append() {
    let entries = Arc::new(AtomicUsize::new(0));
    let count = entries.clone();
    let together = move || {
        let count = count.clone();
        does(move |step| {
            let count = count.clone();
            Box::pin(async move {
                step.take_input().await?;
                if step.state::<bool>("noted") != Some(true) {
                    step.set_state("noted", true)?;
                    step.set_state("other", 1)?;
                    step.remember(UserMessage::from("note")).await?;
                    count.fetch_add(1, SeqCst);
                }
                step.ask().await?.finish()
            })
        })
    };
    let report = found_in(together, |scenario| scenario).await.unwrap();
    assert_eq!((report.appends, report.compared), (8, 8), "{report}");
    assert_eq!(entries.load(SeqCst), 5, "without a crash, and after one before the note");
}

/// C91: each difference from the session without a crash is found: in the conversation, the ends of
/// runs, custom events, state and requests. So are side effects that happen twice.
#[tokio::test(start_paused = true)]
async fn differences_after_a_crash_are_found() {
    /// A pattern with one mistake, which shows when it is entered once more.
    async fn reentered(
        step: &mut StepContext<'_>,
        name: &'static str,
        count: Arc<AtomicUsize>,
    ) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let is_new = !step.state::<bool>("entered").unwrap_or(false);
        step.set_state("entered", true)?;
        step.flush().await?;
        match name {
            "a message" if is_new => drop(step.remember(UserMessage::from("note")).await?),
            "a request" if !is_new => drop(step.remember(UserMessage::from("note")).await?),
            "a custom event" => step.emit("entered", is_new).await?,
            "state" if !is_new => step.set_state("repeated", true)?,
            "an error" if !is_new => return Err(StepError::NothingPending),
            "an effect" => {
                count.fetch_add(1, SeqCst);
            }
            _ => {}
        }
        let reply = step.ask().await?;
        if name == "a rewind" && !is_new {
            step.rewind(MessageId::default()).await?;
        }
        reply.finish()
    }
    for (name, expected) in [
        ("nothing", None),
        ("a message", Some("the agent paid again: it sent a request that the session")),
        ("a request", Some("The request: U:go | U:note")),
        ("a custom event", Some("custom event 1 differs.\nObserved: `entered false`")),
        ("state", Some("the state of the pattern differs.\nObserved: entered: true, repeated")),
        ("a rewind", Some("the next request's message 2 is missing.\nExpected: `A:one/Stop`")),
        ("an error", Some("the end of run 1 differs.\nObserved: `Error, error: ")),
        ("an effect", Some("a side effect took place twice.\nBefore the crash: 1, after it: 1")),
    ] {
        let count = Arc::new(AtomicUsize::new(0));
        let effects = count.clone();
        let pattern = || {
            let count = count.clone();
            does(move |step| Box::pin(reentered(step, name, count.clone())))
        };
        let counted = |scenario: ScriptedSession| {
            let effects = effects.clone();
            scenario.effects(move || effects.load(SeqCst) as u64)
        };
        let found = found_in(pattern, counted).await;
        match expected {
            None => assert_eq!(found.unwrap().compared, 8),
            Some(expected) => {
                let found = found.expect_err(name).to_string();
                assert!(found.starts_with("after a crash right after entry"), "{name}: {found}");
                assert!(found.contains(expected), "{name}: {found}");
            }
        }
    }
}

/// C58: event numbers depend only on the log, so they continue after a restart.
#[tokio::test(start_paused = true)]
async fn event_numbers_continue_after_a_restart() {
    let mut harness = pi([Script::text("one"), Script::text("two")], &[]).await;
    send(&harness, "go").await;
    let last = harness.run_end().await.last().unwrap().seq;
    let mut harness = harness.restart().await;
    send(&harness, "more").await;
    assert_eq!(harness.run_end().await[0].seq, last + 1);
}

/// C53: an interrupted run is reported; a new request ends it instead of resuming it.
#[tokio::test(start_paused = true)]
async fn an_interrupted_run_is_reported_and_a_new_request_ends_it() {
    let mut harness = pi([calls(&["x"]), Script::text("ok")], &[TestTool::new("x").hangs()]).await;
    send(&harness, "go").await;
    harness.until(starts).await;
    let mut harness = harness.restart().await;
    assert_eq!(harness.handle.state().await.unwrap().interrupted_run, Some(RunId(1)));
    send(&harness, "forget it").await;
    let outcome = outcome_of(&harness.run_end().await);
    assert!(outcome.error.as_deref().unwrap().contains("interrupted in the middle"));
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
    assert_eq!(
        harness.transcript().await,
        ["U:go", "A:[a]/ToolCalls", "R:a/OutcomeUnknown", "U:forget it", "A:ok/Stop"]
    );
    harness.check().await;
}

/// C53: an abort that was acknowledged is finished at the restart; no request is sent.
#[tokio::test(start_paused = true)]
async fn a_restart_finishes_an_abort() {
    let mut harness = pi([calls(&["x"])], &[TestTool::new("x").hangs()]).await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.abort().await.unwrap();
    let mut log = harness.memory.entries();
    let requested = log.iter().position(|i| matches!(i, LogEntry::AbortRequested { .. })).unwrap();
    log.truncate(requested + 1);
    let mut harness = harness.restart_from(log).await;
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Aborted);
    assert_eq!(harness.model.requests().len(), 1);
    harness.check().await;
}

/// C54: the writes of a stale owner fail, and no run happens twice.
#[tokio::test(start_paused = true)]
async fn a_stale_owner_cannot_write() {
    let harness = pi([Script::text("one")], &[]).await;
    let (other, _events) = harness
        .agent
        .run(RunContext::new().session("s").memory(harness.memory.clone()))
        .await
        .unwrap();
    let refused = harness.handle.prompt("go").await;
    assert!(
        matches!(refused, Err(InputError::Memory(MemoryError::Conflict { .. }))),
        "{refused:?}"
    );
    assert_eq!(other.prompt("go").await.unwrap().text, "one");
}

/// C40: a repeated input id is acknowledged and has no effect, also after a restart.
#[tokio::test(start_paused = true)]
async fn a_repeated_input_is_handled_once() {
    let harness = pi([Script::text("one")], &[]).await;
    let request = || InputEvent::UserRequest("go".into()).with_id("x1");
    harness.handle.send(request()).await.unwrap();
    harness.handle.wait_for_idle().await;
    let harness = harness.restart().await;
    assert_eq!(harness.handle.send(request()).await, Ok("x1".into()));
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await, ["U:go", "A:one/Stop"]);
    assert_eq!(harness.handle.run(request()).await, Err(InputError::Known("x1".into())));
    let continuation = InputEvent::Continue(None).with_id("x1");
    assert_eq!(harness.handle.run(continuation).await, Err(InputError::Known("x1".into())));
}

/// C40: the same holds while the run of the input is in progress: it is not refused, and not
/// repeated.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_repeated_during_its_run_is_known() {
    let gate = Gate::new();
    let mut harness = pi([Script::new().gate(&gate).say("one")], &[]).await;
    let request = || InputEvent::UserRequest("go".into()).with_id("x1");
    harness.handle.send(request()).await.unwrap();
    harness.until(|event| matches!(event, AgentEvent::TurnStart { .. })).await;
    assert_eq!(harness.handle.run(request()).await, Err(InputError::Known("x1".into())));
    assert_eq!(harness.handle.send(request()).await, Ok("x1".into()));
    let steer = InputEvent::Steer("more".into());
    assert_eq!(harness.handle.run(steer).await, Err(InputError::StartsNoRun));
    gate.open();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await, ["U:go", "A:one/Stop"]);
}

/// A policy that replaces nothing.
struct Nothing;

impl CompactionPolicy for Nothing {
    fn plan(&self, _: &CompactionContext<'_>) -> Option<CompactionPlan> {
        None
    }

    fn finish(
        &self,
        _: &CompactionContext<'_>,
        _: &CompactionPlan,
        summary: Option<&str>,
    ) -> Replacement {
        Replacement::new(summary.unwrap_or_default())
    }
}

/// C40: the same holds for inputs that leave no message. Each is carried out once, even if it
/// arrives again in a later run or after a restart.
#[tokio::test(start_paused = true)]
async fn an_input_without_a_message_is_handled_once() {
    for event in [
        InputEvent::Continue(None),
        InputEvent::Reset,
        InputEvent::ClearQueues,
        InputEvent::Compact(None),
        InputEvent::Abort(AbortRequest::new()),
    ] {
        let name = format!("{event:?}");
        let gate = Gate::new();
        let replies = [
            Script::error(ModelErrorKind::Overloaded, "busy"),
            Script::text("one"),
            Script::new().gate(&gate).say("two"),
            Script::text("three"),
        ];
        let mut harness = pi_with(replies, &[], |agent| agent.compaction(Nothing)).await;
        send(&harness, "go").await;
        harness.run_end().await;
        assert_eq!(
            harness.handle.send(event.clone().with_id("x1")).await,
            Ok("x1".into()),
            "{name}"
        );
        harness.handle.wait_for_idle().await;
        harness.drain_events();
        let mut harness = harness.restart().await;
        let repeat = async |harness: &Harness| {
            let before = harness.memory.entries();
            let receipt = harness.handle.send(event.clone().with_id("x1")).await;
            assert_eq!(receipt, Ok("x1".into()), "{name}");
            assert_eq!(harness.memory.entries(), before, "{name}");
        };
        repeat(&harness).await;
        // Also in the middle of a later run.
        send(&harness, "more").await;
        let is_reply =
            |e: &AgentEvent| matches!(e, AgentEvent::MessageStart { role: Role::Assistant, .. });
        harness.until(is_reply).await;
        repeat(&harness).await;
        gate.open();
        assert_eq!(end_of(&harness.run_end().await), RunStatus::Done, "{name}");
    }
}
