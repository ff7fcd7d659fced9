//! Races: inputs that arrive during other work, and inputs that arrive twice.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::kit::*;

/// Returns a session that a crash interrupted while a tool ran.
async fn interrupted(replies: impl IntoIterator<Item = Script>) -> Harness {
    let first = calls(&["x"]);
    let mut harness =
        pi(std::iter::once(first).chain(replies), &[TestTool::new("x").hangs()]).await;
    harness.handle.send(InputEvent::UserRequest("go".into()).with_id("g")).await.unwrap();
    harness.until(starts).await;
    harness.restart().await
}

/// C39 C53: two requests that reach an interrupted session at once are both received, in order.
#[tokio::test(start_paused = true)]
async fn two_requests_to_an_interrupted_session_are_both_answered() {
    let harness = interrupted([Script::text("1"), Script::text("2")]).await;
    let (a, b) = tokio::join!(
        harness.handle.send(InputEvent::UserRequest("first".into())),
        harness.handle.send(InputEvent::UserRequest("second".into())),
    );
    assert_ne!(a.unwrap(), b.unwrap());
    harness.handle.wait_for_idle().await;
    let users: Vec<_> =
        harness.transcript().await.into_iter().filter(|l| l.starts_with("U:")).collect();
    assert_eq!(users, ["U:go", "U:first", "U:second"]);
}

/// C40 C53: a request that is repeated after a crash does not end the run that the crash
/// interrupted.
#[tokio::test(start_paused = true)]
async fn a_repeated_request_leaves_the_interrupted_run_alone() {
    let harness = interrupted([]).await;
    harness.handle.send(InputEvent::UserRequest("go".into()).with_id("g")).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.handle.state().await.unwrap().interrupted_run, Some(RunId(1)));
}

/// C40: a `Continue` whose message was received before starts no run.
#[tokio::test(start_paused = true)]
async fn a_repeated_continue_starts_no_run() {
    let mut harness = pi([Script::text("1"), Script::text("2")], &[]).await;
    harness.handle.prompt("go").await.unwrap();
    for _ in 0..2 {
        harness.handle.send(InputEvent::Continue(Some("more".into())).with_id("m")).await.unwrap();
        harness.handle.wait_for_idle().await;
    }
    let starts = harness
        .drain_events()
        .iter()
        .filter(|e| matches!(e.event, AgentEvent::AgentStart { .. }))
        .count();
    assert_eq!(starts, 2);
}

/// C6: a value that comes with `Continue` reaches the tools.
#[tokio::test(start_paused = true)]
async fn a_value_that_comes_with_continue_is_seen() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let log = seen.clone();
    let harness = pi_with(
        [Script::text("1"), calls(&["x"]), Script::text("2")],
        &[TestTool::new("x")],
        move |a| {
            a.before_tool_call(move |cx, _| {
                log.lock().unwrap().push(cx.extensions.get::<u8>().copied());
                async { BeforeToolCall::Proceed }
            })
        },
    )
    .await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.send(InputEvent::Continue(Some(Prompt::from("more").with(7_u8)))).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(*seen.lock().unwrap(), [Some(7)]);
}

/// C62: the stream of a request yields its own run, not the end of an earlier one.
#[tokio::test(start_paused = true)]
async fn the_stream_of_a_request_has_its_own_run() {
    let harness = interrupted([Script::text("new")]).await;
    let mut stream = harness.handle.prompt_stream("again").await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    assert_eq!(outcome_of(&events).text, "new");

    let ask = TestTool::new("ask").effect(Effect::AtMostOnce);
    let replies = [calls(&["ask"]), Script::text("1"), Script::text("2")];
    let harness = pi_with(replies, &[ask], |a| a.while_awaiting(WhileAwaiting::Hold)).await;
    harness.handle.prompt("go").await.unwrap();
    let mut stream = harness.handle.prompt_stream("held").await.unwrap();
    harness.resolve(0, Decision::Approve).await.unwrap();
    let mut events = Vec::new();
    while let Some(event) = stream.next().await {
        events.push(event);
    }
    assert_eq!(outcome_of(&events).text, "2");
}

/// C43 C46: the caller of a request that a reset removes gets an answer.
#[tokio::test(start_paused = true)]
async fn a_reset_answers_the_caller_of_a_held_request() {
    let ask = TestTool::new("ask").effect(Effect::AtMostOnce);
    let harness =
        pi_with([calls(&["ask"])], &[ask], |a| a.while_awaiting(WhileAwaiting::Hold)).await;
    harness.handle.prompt("go").await.unwrap();
    let mut held = harness.handle.prompt_stream("held").await.unwrap();
    harness.handle.reset().await.unwrap();
    assert!(held.next().await.is_none());
}

/// C30: a request that waits behind an earlier one, whose calls wait for a decision, reports that.
/// It stays queued.
#[tokio::test(start_paused = true)]
async fn a_request_behind_a_pending_call_says_so() {
    let ask = TestTool::new("ask").effect(Effect::AtMostOnce);
    let replies = [calls(&["ask"]), Script::text("1"), Script::text("2")];
    let harness = pi_with(replies, &[ask], |a| a.while_awaiting(WhileAwaiting::Hold)).await;
    harness.handle.prompt("go").await.unwrap();
    let held = harness.handle.prompt("held").await.unwrap();
    assert_eq!(held.end, RunStatus::AwaitingAction);
    assert!(held.error.as_deref().unwrap().contains("behind an earlier one"), "{held:?}");
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    let transcript = harness.transcript().await;
    assert_eq!(transcript[transcript.len() - 2..], ["U:held", "A:2/Stop"]);
}

/// C34 C36: a steer that arrives while a hook checks a call prevents the call from starting.
#[tokio::test(start_paused = true)]
async fn a_steer_during_a_hook_prevents_the_call_from_starting() {
    let x = TestTool::new("x");
    let harness = pi_with([calls(&["x"]), Script::text("ok")], std::slice::from_ref(&x), |a| {
        a.before_tool_call(|_, _| async {
            sleep(ms(100)).await;
            BeforeToolCall::Proceed
        })
    })
    .await;
    send(&harness, "go").await;
    sleep(ms(50)).await;
    harness.handle.steer("stop").await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!((x.ran(), statuses(&harness).await), (0, vec![ResultStatus::Skipped]));
    harness.check().await;
}

/// C35: an interrupt that arrives while a request is built prevents it from being sent.
#[tokio::test(start_paused = true)]
async fn an_interrupt_during_transform_context_prevents_the_request() {
    let mut harness = pi_with([slow(9, ms(100)), Script::text("ok")], &[], |a| {
        a.transform_context(|_, messages| async {
            sleep(ms(100)).await;
            messages
        })
    })
    .await;
    send(&harness, "go").await;
    sleep(ms(50)).await;
    harness.handle.steer(Prompt::from("now").urgency(Urgency::Interrupt)).await.unwrap();
    harness.run_end().await;
    assert_eq!(harness.transcript().await[..2], ["U:go", "U:now"]);
    harness.check().await;
}

/// C47: a pattern that awaits a decision without a pending action ends in an error.
#[tokio::test(start_paused = true)]
async fn a_pattern_that_awaits_no_action_ends_in_an_error() {
    let harness =
        Harness::new(does(|_| Box::pin(async { Ok(StepEnd::AwaitingAction) })), [], |a| a).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Error);
}

/// C63: a detached request whose stream is always ready does not block inputs.
#[tokio::test(start_paused = true)]
async fn a_detached_stream_that_is_always_ready_can_be_aborted() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            step.ask_with(Ask::detached().messages([UserMessage::from("hm").into()])).await?;
            Ok(StepEnd::Done)
        })
    });
    let endless = Script::new().stream((0..200_000).map(|_| "x".to_owned()), Duration::ZERO);
    let harness = Harness::new(pattern, [endless], |a| a).await;
    send(&harness, "go").await;
    harness.handle.abort().await.unwrap();
    harness.handle.wait_for_idle().await;
    assert!(!harness.memory.entries().iter().any(|i| matches!(i, LogEntry::Detached { .. })));
}

/// C47 C48: an abort closes the batch even if a hook panics meanwhile.
#[tokio::test(start_paused = true)]
async fn an_abort_during_which_a_hook_panics_closes_the_batch() {
    let tools =
        [TestTool::new("x").takes(ms(9999)), TestTool::new("y").takes_ignoring_cancel(ms(100))];
    let mut harness = pi_with([calls(&["x", "y"])], &tools, |a| {
        a.around_tool_call(|_, call, next| {
            Box::pin(async move {
                let result = next.run().await;
                assert!(*call.call != *"b", "hook");
                result
            })
        })
    })
    .await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.abort().await.unwrap();
    let events = harness.run_end().await;
    assert_eq!(end_of(&events), RunStatus::Aborted);
    assert_eq!(harness.handle.state().await.unwrap().pending_tool_calls, Vec::<CallId>::new());
    harness.check().await;
}

/// A source with a tool that is listed while its flag is set.
struct Shelf(Arc<AtomicBool>);

#[async_trait::async_trait]
impl ToolSource for Shelf {
    async fn tools(&self) -> Result<Vec<Arc<dyn Tool>>, ToolError> {
        let tool = Arc::new(TestTool::new("ask").effect(Effect::AtMostOnce)) as Arc<dyn Tool>;
        Ok(if self.0.load(Ordering::SeqCst) { vec![tool] } else { vec![] })
    }
}

/// C9 C28: after a restart, the arguments of a source's tool can be edited before any run has
/// begun.
#[tokio::test(start_paused = true)]
async fn arguments_of_a_sources_tool_can_be_edited_after_a_restart() {
    let there = Arc::new(AtomicBool::new(true));
    let harness =
        pi_with([calls(&["ask"]), Script::text("ok")], &[], |a| a.tool_source("", Shelf(there)))
            .await;
    harness.handle.prompt("go").await.unwrap();
    let harness = harness.restart().await;
    harness.resolve(0, Decision::ApproveWith(json!({"n": 1}))).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(statuses(&harness).await, [ResultStatus::Ok]);
}

/// C9 C12: an approved call whose tool was removed did not run, and its result does not say that it
/// may have.
#[tokio::test(start_paused = true)]
async fn an_approved_call_of_a_removed_tool_is_an_error() {
    let there = Arc::new(AtomicBool::new(true));
    let source = Shelf(there.clone());
    let harness =
        pi_with([calls(&["ask"]), Script::text("ok")], &[], |a| a.tool_source("", source)).await;
    harness.handle.prompt("go").await.unwrap();
    there.store(false, Ordering::SeqCst);
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(statuses(&harness).await, [ResultStatus::Error]);
    assert!(result_of(&harness, "a").await.contains("There is no tool"));
}

/// C40: an abort that arrives while another input is written has a different id.
#[tokio::test(start_paused = true)]
async fn an_abort_while_a_steer_is_written_has_a_different_id() {
    let mut harness = slow_memory(vec![Script::new().hang()], vec![], ms(10)).await;
    send(&harness, "go").await;
    harness.until(|e| matches!(e, AgentEvent::MessageStart { role: Role::Assistant, .. })).await;
    let handle = harness.handle.clone();
    let steer = tokio::spawn(async move { handle.steer("S").await });
    sleep(ms(5)).await; // the steer is being written
    let abort = harness.handle.send(InputEvent::Abort(AbortRequest::new())).await;
    assert_ne!(steer.await.unwrap().unwrap(), abort.unwrap());
    harness.handle.wait_for_idle().await;
    harness.check().await;
}

/// C40: an input is known even if the pattern dropped the future that was writing it.
#[tokio::test(start_paused = true)]
async fn an_input_that_a_dropped_future_was_writing_is_known() {
    for (id, expected) in [
        (Some("s"), vec!["U:go", "U:S", "A:1/Stop"]),
        (None, vec!["U:go", "U:S", "U:S", "A:1/Stop"]),
    ] {
        let slot: Arc<Mutex<Option<AgentHandle>>> = Arc::default();
        let mine = slot.clone();
        let pattern = does(move |step| {
            let handle = mine.lock().unwrap().take().unwrap();
            Box::pin(async move {
                step.take_input().await?;
                let steer = || {
                    let handle = handle.clone();
                    let input =
                        Input { id: id.map(Into::into), event: InputEvent::Steer("S".into()) };
                    tokio::spawn(async move { handle.send(input).await.unwrap() })
                };
                let first = steer();
                let none =
                    tokio::time::timeout(ms(5), step.wait_for(std::future::pending::<()>())).await;
                assert!(none.is_err(), "the future is dropped while it writes");
                let second = steer();
                tokio::task::yield_now().await;
                step.take_steering().await?;
                let (first, second) = (first.await.unwrap(), second.await.unwrap());
                assert_eq!(first == second, id.is_some(), "{first} {second}");
                step.ask().await?;
                Ok(StepEnd::Done)
            })
        });
        let wrap = |memory| Arc::new(FaultyMemory::new(memory).slow(ms(10))) as Arc<dyn Memory>;
        let harness =
            Harness::with_memory(pattern, [Script::text("1")], |a| a, InMemory::new(), wrap).await;
        *slot.lock().unwrap() = Some(harness.handle.clone());
        harness.handle.prompt("go").await.unwrap();
        assert_eq!(harness.transcript().await, expected);
        harness.check().await;
    }
}

/// C41 C68: a request that is built but not sent does not change which calls may run.
#[tokio::test(start_paused = true)]
async fn generate_does_not_change_what_was_offered() {
    let pattern = does(|step| {
        Box::pin(async move {
            step.take_input().await?;
            let reply = step.ask().await?;
            step.context().generate(&Ask::new().tools(["none"])).await?;
            step.call_tools(&reply).await?;
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(pattern, [calls(&["x"])], |a| a.tool(TestTool::new("x"))).await;
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(statuses(&harness).await, [ResultStatus::Ok]);
}

/// C38: a steer that follows a `ClearQueues` while the pattern returns is answered.
#[tokio::test(start_paused = true)]
async fn a_steer_after_clear_queues_at_the_very_end_is_delivered() {
    let slot: Arc<Mutex<Option<AgentHandle>>> = Arc::default();
    let mine = slot.clone();
    let pattern = does(move |step| {
        let handle = mine.lock().unwrap().take();
        Box::pin(async move {
            step.take_input().await?;
            step.take_steering().await?;
            step.ask().await?;
            if let Some(handle) = handle {
                step.wait_for(async { handle.follow_up("old").await.unwrap() }).await?;
                let (mut clear, mut steer) =
                    (Box::pin(handle.clear_queues()), Box::pin(handle.steer("S")));
                let _ = (futures::poll!(&mut clear), futures::poll!(&mut steer));
            }
            Ok(StepEnd::Done)
        })
    });
    let harness = Harness::new(pattern, [Script::text("1"), Script::text("2")], |a| a).await;
    *slot.lock().unwrap() = Some(harness.handle.clone());
    harness.handle.prompt("go").await.unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:1/Stop", "U:S", "A:2/Stop"]);
}

/// C7: a batch that ends the run does so even if another request waits.
#[tokio::test(start_paused = true)]
async fn an_approved_batch_that_ends_the_run_ends_it_with_a_request_waiting() {
    let ask = TestTool::new("ask")
        .effect(Effect::AtMostOnce)
        .answers(ToolOutput::text("bye").terminate());
    let replies = [calls(&["ask"]), Script::text("2"), Script::text("3")];
    let mut harness = pi_with(replies, &[ask], |a| a.while_awaiting(WhileAwaiting::Hold)).await;
    harness.handle.prompt("go").await.unwrap();
    send(&harness, "next").await;
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(
        harness.transcript().await,
        ["U:go", "A:[a]/ToolCalls", "R:a/Ok", "U:next", "A:2/Stop"]
    );
    check_emitted(&mut harness);
}

/// C38 C43: an abort directly after a late steer keeps it from starting a run.
#[tokio::test(start_paused = true)]
async fn an_abort_behind_a_late_steer_starts_nothing() {
    let replies = vec![Script::text("1"), Script::text("2")];
    let mut harness = slow_memory(replies, vec![], ms(100)).await;
    send(&harness, "go").await;
    harness.until(|e| matches!(e, AgentEvent::TurnEnd { .. })).await;
    sleep(ms(50)).await; // `run_ended` is being written
    let (steer, abort) = tokio::join!(harness.handle.steer("S"), harness.handle.abort());
    assert!(steer.is_ok() && abort.is_ok());
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.model.requests().len(), 1);
}

/// C31 C57: the events of a call that suspends and continues nest like any call's.
#[tokio::test(start_paused = true)]
async fn the_events_of_a_call_that_suspends_nest() {
    for decision in [Decision::Provide(Provided::Input(json!(1))), Decision::Deny("no".into())] {
        let mut harness = pi(
            [calls(&["login"]), Script::text("ok")],
            &[TestTool::new("login").suspends("login")],
        )
        .await;
        harness.handle.prompt("go").await.unwrap();
        harness.resolve(0, decision).await.unwrap();
        harness.handle.wait_for_idle().await;
        harness.check().await;
        check_emitted(&mut harness);
    }
}

/// C17 C35: text that a hook holds back is shown when the reply is cut off, or when its block never
/// ends.
#[tokio::test(start_paused = true)]
async fn text_that_is_held_when_a_reply_is_cut_off_is_kept() {
    let replies = [Script::new().stream(["a ", "b ", "c"], ms(20)), Script::text("ok")];
    let mut harness = pi_with(replies, &[], |a| a.on_text_part(|_, _| TextAction::Hold)).await;
    send(&harness, "go").await;
    sleep(ms(50)).await;
    harness.handle.steer(Prompt::from("S").urgency(Urgency::Interrupt)).await.unwrap();
    harness.run_end().await;
    assert_eq!(harness.transcript().await, ["U:go", "A:a b /Interrupted", "U:S", "A:ok/Stop"]);
}
