//! Aborts, resets, limits and failures: every way in which a run can end.

use std::future::poll_fn;
use std::sync::{Mutex, OnceLock};
use std::task::Poll;

use futures::FutureExt;

use crate::kit::*;

/// C43 C45: an abort of an idle session closes open calls and hands queued texts back; the session
/// stays usable.
#[tokio::test(start_paused = true)]
async fn an_abort_during_an_approval_closes_the_batch_and_the_session_continues() {
    let mut harness = pi(
        [calls(&["ask"]), Script::text("ok")],
        &[TestTool::new("ask").effect(Effect::AtMostOnce)],
    )
    .await;
    send(&harness, "go").await;
    harness.run_end().await;
    harness.handle.follow_up("later").await.unwrap();
    harness.handle.abort().await.unwrap();
    let outcome = outcome_of(&harness.run_end().await);
    assert_eq!(
        (outcome.end, &outcome.handed_back[..]),
        (RunStatus::Aborted, &["later".to_owned()][..])
    );
    assert_eq!(statuses(&harness).await, [ResultStatus::Aborted]);
    assert_eq!(harness.handle.prompt("again").await.unwrap().end, RunStatus::Done);
    harness.check().await;
}

/// C44: an abort cancels running tools and keeps finished results and the partial reply.
#[tokio::test(start_paused = true)]
async fn an_abort_keeps_results_and_reports_which_calls_had_started() {
    let tools = [
        TestTool::new("fast").takes(ms(10)),
        TestTool::new("slow").takes(ms(9999)),
        TestTool::new("seq").effect(Effect::AtMostOnce),
    ];
    let mut harness = pi([calls(&["fast", "slow", "seq"])], &tools).await;
    send(&harness, "go").await;
    harness.until(|e| matches!(e, AgentEvent::ToolExecutionEnd { .. })).await;
    harness.handle.abort().await.unwrap();
    let events = harness.run_end().await;
    assert_eq!(end_of(&events), RunStatus::Aborted);
    assert_eq!(
        statuses(&harness).await,
        [ResultStatus::Ok, ResultStatus::Aborted, ResultStatus::Aborted]
    );
    assert!(result_of(&harness, "b").await.contains("after it had started"));
    assert!(result_of(&harness, "c").await.contains("before it started"));

    let mut harness = pi([slow(9, ms(10)), Script::text("ok")], &[]).await;
    send(&harness, "go").await;
    harness.until(is_delta).await;
    harness.handle.abort().await.unwrap();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await, ["U:go", "A:w0 /Aborted"]);
    harness.handle.prompt("again").await.unwrap();
    harness.check().await;
}

/// C44 C55: an abort during a slow write neither loses nor doubles its entries.
#[tokio::test(start_paused = true)]
async fn an_abort_in_the_middle_of_a_write_neither_loses_nor_doubles_it() {
    for at in 0..400 {
        let tools = vec![TestTool::new("x").takes(ms(30)), TestTool::new("y").takes(ms(60))];
        let mut harness = slow_memory(
            vec![calls(&["x", "y"]), Script::text("ok"), Script::text("ok")],
            tools,
            ms(20),
        )
        .await;
        let t = Instant::now();
        let handle = harness.handle.clone();
        let prompt = tokio::spawn(async move { handle.prompt("go").await });
        tokio::time::sleep_until(t + ms(at)).await;
        harness.handle.abort().await.unwrap();
        prompt.await.unwrap().unwrap();
        harness.handle.wait_for_idle().await;
        harness.handle.prompt("again").await.unwrap();
        harness.check().await;
        check_emitted(&mut harness);
        assert_eq!(harness.model.refused(), Vec::<String>::new());
    }
}

/// C39 C44 C55: an abort at every poll of the scheduler, without any time passing.
#[tokio::test(start_paused = true)]
async fn an_abort_at_any_poll_leaves_a_valid_log() {
    for polls in 0..120 {
        let tools = [TestTool::new("x"), TestTool::new("seq").spec(ToolSpec::sequential)];
        let replies = [calls(&["x", "seq", "x"]), Script::text("ok"), Script::text("ok")];
        let mut harness = pi(replies, &tools).await;
        let handle = harness.handle.clone();
        let prompt = tokio::spawn(async move { handle.prompt("go").await });
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        harness.handle.abort().await.unwrap();
        prompt.await.unwrap().unwrap();
        harness.handle.wait_for_idle().await;
        harness.check().await;
        check_emitted(&mut harness);
        assert_eq!(harness.model.refused(), Vec::<String>::new());
    }
}

/// C46: a reset aborts and cuts the conversation; the log keeps everything.
#[tokio::test(start_paused = true)]
async fn a_reset_starts_an_empty_conversation() {
    let mut harness = pi([slow(9, ms(10)), Script::text("new")], &[]).await;
    send(&harness, "go").await;
    let mut events = harness.until(is_delta).await;
    harness.handle.follow_up("later").await.unwrap();
    send(&harness, "next").await;
    assert_eq!(
        harness.handle.reset().await.unwrap(),
        ["later", "next"],
        "the queued texts are returned"
    );
    assert_eq!(harness.transcript().await, Vec::<String>::new());
    harness.handle.prompt("hello").await.unwrap();
    assert_eq!(harness.transcript().await, ["U:hello", "A:new/Stop"]);
    events.extend(harness.drain_events());
    check_events(&events).unwrap();
    let harness = harness.restart().await;
    assert_eq!(harness.transcript().await, ["U:hello", "A:new/Stop"]);
    assert!(
        harness
            .memory
            .entries()
            .iter()
            .any(|i| matches!(i, LogEntry::Queued { message, .. } if message.text() == "go"))
    );
}

/// C45 C46: of an abort and a reset in a row, both are carried out and answered.
#[tokio::test(start_paused = true)]
async fn an_abort_directly_after_a_reset_does_not_replace_it() {
    for idle in [false, true] {
        let mut harness = pi([slow(9, ms(10)), Script::text("new")], &[]).await;
        send(&harness, "go").await;
        harness.until(is_delta).await;
        if idle {
            harness.handle.wait_for_idle().await;
        }
        let (reset, abort) = tokio::join!(harness.handle.reset(), harness.handle.abort());
        assert_eq!((reset.unwrap(), abort.unwrap()), (vec![], ()), "idle: {idle}");
        harness.handle.wait_for_idle().await;
        assert_eq!(harness.transcript().await, Vec::<String>::new(), "idle: {idle}");
        harness.handle.prompt("hello").await.unwrap();
        assert_eq!(harness.transcript().await, ["U:hello", "A:new/Stop"]);
        harness.check().await;
    }
}

/// C50: `Duration::MAX` is no limit, wherever a duration limits something.
#[tokio::test(start_paused = true)]
async fn the_maximum_duration_is_no_limit() {
    let max = Duration::MAX;
    let limits = Limits::from(Budget::default().time(max)).tool_timeout(max);
    let y = TestTool::new("y").spec(|s| s.timeout(max).idle_timeout(max)).sends_updates(3, ms(10));
    let harness = Harness::new(PiPattern, [calls(&["x", "y"]), Script::text("ok")], |agent| {
        agent.tool(TestTool::new("x").takes(ms(10))).tool(y).approve_all().limits(limits)
    })
    .await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!((outcome.end, &*outcome.text), (RunStatus::Done, "ok"));
    harness.check().await;
}

struct Bad(&'static str);
#[async_trait::async_trait]
impl BehaviorPattern for Bad {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        assert!(self.0 != "panics at once", "bad pattern");
        step.ask().await?;
        match self.0 {
            "asks with an open batch" => drop(step.ask().await?),
            "sleeps forever" => std::future::pending().await,
            "panics" => panic!("bad pattern"),
            _ => {}
        }
        Ok(StepEnd::Done)
    }
}

/// C3 C47 C48: whatever a pattern does, open work is closed and the session continues.
#[tokio::test(start_paused = true)]
async fn whatever_a_pattern_does_the_batch_is_closed_and_the_session_continues() {
    for (how, says) in [
        ("asks with an open batch", "call `call_tools` before"),
        ("sleeps forever", ""),
        ("panics", "panicked: bad pattern"),
        ("panics at once", "panicked: bad pattern"),
        ("returns with an open batch", ""),
    ] {
        let mut harness =
            Harness::new(Bad(how), [calls(&["x"]), Script::text("ok"), Script::text("ok")], |a| {
                a.tool(TestTool::new("x"))
            })
            .await;
        send(&harness, "go").await;
        if how == "sleeps forever" {
            harness
                .until(|e| {
                    matches!(
                        e,
                        AgentEvent::MessageEnd { message } if message.role() == Role::Assistant
                    )
                })
                .await;
            assert_eq!(harness.handle.prompt("busy?").await, Err(InputError::Busy));
            harness.handle.abort().await.unwrap();
        }
        let outcome = outcome_of(&harness.run_end().await);
        assert!(outcome.error.as_deref().unwrap_or_default().contains(says), "{how}: {outcome:?}");
        assert_eq!(outcome.end == RunStatus::Error, !says.is_empty(), "{how}");
        send(&harness, "again").await;
        harness.until(|e| matches!(e, AgentEvent::AgentStart { .. })).await;
        harness.handle.abort().await.unwrap();
        harness.handle.wait_for_idle().await;
        harness.check().await;
    }
}

/// C48: a hook that panics ends the run with an error; the panic does not leave the engine.
#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_ends_the_run_with_an_error() {
    type Options = fn(AgentBuilder) -> AgentBuilder;
    async fn panics() -> ToolResult {
        panic!("hook")
    }
    let hooks: [Options; 6] = [
        |a| a.on_text_part(|_, _| panic!("hook")),
        |a| a.before_end(|_, _| async { panic!("hook") }),
        |a| a.before_tool_call(|_, _| async { panic!("hook") }),
        |a| a.around_tool_call(|_, _, _| Box::pin(panics())),
        |a| a.transform_context(|_, _| async { panic!("hook") }),
        |a| a.convert_to_llm(|_, _| panic!("hook")),
    ];
    for (i, options) in hooks.into_iter().enumerate() {
        let mut harness = pi_with(
            [calls(&["x"]).say("text"), Script::text("ok")],
            &[TestTool::new("x")],
            options,
        )
        .await;
        let outcome = harness.handle.prompt("go").await.unwrap();
        assert_eq!(outcome.end, RunStatus::Error, "hook {i}");
        assert!(
            outcome.error.as_deref().unwrap().contains("panicked: hook"),
            "hook {i}: {outcome:?}"
        );
        harness.check().await;
        check_emitted(&mut harness);
    }
}

/// C56: a failed append ends the run with an error; `agent_end` is emitted exactly once.
#[tokio::test(start_paused = true)]
async fn a_full_disk_ends_the_run_with_exactly_one_agent_end() {
    for full in 2..17 {
        let wrap = |memory| Arc::new(FaultyMemory::new(memory).full_after(full)) as Arc<dyn Memory>;
        let replies = [calls(&["x", "x"]), Script::text("ok")];
        let mut harness = Harness::with_memory(
            PiPattern,
            replies,
            |a| a.tool(TestTool::new("x").takes(ms(5))),
            InMemory::new(),
            wrap,
        )
        .await;
        let outcome = harness.handle.prompt("go").await;
        let emitted = harness.drain_events();
        let ends = emitted.iter().filter(|e| matches!(e.event, AgentEvent::AgentEnd(_))).count();
        if full == 2 {
            assert!(
                matches!(outcome, Err(InputError::Memory(_))) || ends == 1,
                "full after {full}: {outcome:?}"
            );
            continue;
        }
        assert_eq!(ends, 1, "full after {full}\n{}", trace(&emitted));
        let outcome = outcome.unwrap();
        assert!(
            outcome.end == RunStatus::Done || outcome.error.unwrap().contains("the disk is full")
        );
        let state = harness.handle.state().await.unwrap();
        let folded = loopwright_core::log::replay_messages(&harness.memory.entries());
        assert_eq!(state.messages.len(), folded.len(), "the conversation is that of the log");
    }
}

/// C49: turns, tokens, cost and wall time; results are kept.
#[tokio::test(start_paused = true)]
async fn limits_end_the_run_and_keep_the_results() {
    let usage = Usage::new(600, 400);
    let priced = ModelInfo::new("test/priced").with_prices(Prices::new(1000.0, 1000.0));
    let cases = [
        (Budget::default().turns(2), Limit::Run(Resource::Turns), 2),
        (Budget::default().tokens(2500), Limit::Run(Resource::Tokens), 2),
        (Budget::default().cost(0.5), Limit::Run(Resource::Cost), 1),
        (Budget::default().time(ms(250)), Limit::Run(Resource::Time), 3),
    ];
    for (limits, limit, asked) in cases {
        let model =
            ScriptedModel::new((0..9).map(|_| calls(&["x"]).usage(usage))).info(priced.clone());
        let agent = GenericAgent::builder(model.clone(), PiPattern)
            .tool(TestTool::new("x").takes(ms(100)))
            .limits(limits)
            .build()
            .unwrap();
        let handle = agent.session().await.unwrap();
        let outcome = handle.prompt("go").await.unwrap();
        assert_eq!((outcome.end, outcome.limit), (RunStatus::Limit, Some(limit)), "{outcome:?}");
        assert_eq!(model.requests().len(), asked, "{limit:?}");
        loopwright_core::testing::check_transcript(&handle.state().await.unwrap().messages)
            .unwrap();
        assert!(outcome.cost > 0.9 && outcome.usage.total() >= 1000);
    }
}

/// C49: a cost limit refuses a model without known prices.
#[tokio::test(start_paused = true)]
async fn a_cost_limit_refuses_a_model_without_prices() {
    let harness =
        pi_with([Script::text("ok")], &[], |a| a.limits(Budget::default().cost(1.0))).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!(outcome.end, RunStatus::Error);
    assert!(outcome.error.unwrap().contains("prices of `test/scripted` are not known"));
}

/// C51: counters continue in runs that a decision or `Continue` resumes.
#[tokio::test(start_paused = true)]
async fn counters_continue_in_resumed_runs() {
    let tool = TestTool::new("ask").effect(Effect::AtMostOnce);
    let mut harness =
        pi_with((0..5).map(|_| calls(&["ask"])), &[tool], |a| a.limits(Budget::default().turns(3)))
            .await;
    send(&harness, "go").await;
    let mut ends = vec![];
    for _ in 0..4 {
        ends.push(end_of(&harness.run_end().await));
        if let Some(open) = harness.pending().await.first() {
            harness.handle.approve(open).await.unwrap();
        }
    }
    use RunStatus::*;
    assert_eq!(ends, [AwaitingAction, AwaitingAction, AwaitingAction, Limit]);
    send(&harness, "a new request starts new counters").await;
    assert_eq!(end_of(&harness.run_end().await), AwaitingAction);
}

/// C52: at most 32 requests wait; `prompt` returns `Busy`, and the run is not affected.
#[tokio::test(start_paused = true)]
async fn requests_during_a_run_are_queued() {
    let gate = Gate::new();
    let replies = std::iter::once(Script::text("0").gate(&gate))
        .chain((1..40).map(|i| Script::text(&i.to_string())));
    let mut harness = pi(replies, &[]).await;
    send(&harness, "long").await;
    harness.until(is_delta).await;
    assert_eq!(harness.handle.prompt("me too").await, Err(InputError::Busy));
    for i in 0..32 {
        send(&harness, &format!("{i}")).await;
    }
    assert_eq!(
        harness.handle.send(InputEvent::UserRequest("one more".into())).await,
        Err(InputError::Full(32))
    );
    gate.open();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await.len(), 66);
    harness.check().await;
}

/// C49 C51: wall time continues in runs that a decision resumes.
#[tokio::test(start_paused = true)]
async fn wall_time_continues_in_resumed_runs() {
    let tools =
        [TestTool::new("work").takes(ms(200)), TestTool::new("ask").effect(Effect::AtMostOnce)];
    let replies = [calls(&["work", "ask"]), calls(&["work"]), Script::text("ok")];
    let limits = Budget::default().time(ms(300));
    let harness =
        pi_with(replies, &tools, |a| a.limits(limits).environment(PausedClock(Instant::now())))
            .await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    let t = Instant::now();
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.handle.wait_for_idle().await;
    assert!(t.elapsed() < ms(310), "100 ms were left, and the grace of a cancelled tool");
    assert_eq!(
        harness.handle.state().await.unwrap().error.as_deref(),
        Some("the time limit is reached: 300.0ms of 300ms have passed")
    );
}

fn abort_of(run: u64) -> AbortRequest {
    AbortRequest::new().run(RunId(run))
}

/// C43: An abort names its run. A late abort is refused and does not stop the next run.
#[tokio::test(start_paused = true)]
async fn a_late_abort_does_not_stop_the_next_run() {
    let gate = Gate::new();
    let replies = [Script::text("one"), Script::new().gate(&gate).say("two")];
    let harness = pi(replies, &[]).await;
    harness.handle.prompt("first").await.unwrap();
    send(&harness, "second").await;
    assert_eq!(harness.handle.abort_run(RunId(1)).await, Err(InputError::NothingToAbort(RunId(1))));
    gate.open();
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await, ["U:first", "A:one/Stop", "U:second", "A:two/Stop"]);
    assert_eq!(harness.handle.abort_run(RunId(2)).await, Err(InputError::NothingToAbort(RunId(2))));
    harness.check().await;
}

/// C43, C40: An abort that arrives again is acknowledged and changes nothing, during the next run,
/// while idle and after a restart.
#[tokio::test(start_paused = true)]
async fn an_abort_that_arrives_twice_counts_once() {
    let gate = Gate::new();
    let replies = [Script::new().hang(), Script::new().gate(&gate).say("two")];
    let mut harness = pi(replies, &[]).await;
    send(&harness, "first").await;
    harness.until(|e| matches!(e, AgentEvent::MessageStart { role: Role::Assistant, .. })).await;
    let abort = || InputEvent::Abort(abort_of(1)).with_id("stop-1");
    assert_eq!(harness.handle.send(abort()).await, Ok("stop-1".into()));
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Aborted);
    send(&harness, "second").await;
    assert_eq!(harness.handle.send(abort()).await, Ok("stop-1".into()));
    gate.open();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
    assert_eq!(harness.handle.send(abort()).await, Ok("stop-1".into()));
    let harness = harness.restart().await;
    let entries = harness.memory.entries().len();
    assert_eq!(harness.handle.send(abort()).await, Ok("stop-1".into()));
    assert_eq!(harness.memory.entries().len(), entries);
    harness.check().await;
}

/// C45: An abort of a run whose calls wait for decisions closes them, once.
#[tokio::test(start_paused = true)]
async fn an_abort_names_the_run_whose_calls_wait() {
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    let mut harness = pi([calls(&["pay"]), calls(&["pay"])], &[pay]).await;
    harness.handle.prompt("go").await.unwrap();
    harness.drain_events();
    assert_eq!(harness.handle.abort_run(RunId(7)).await, Err(InputError::NothingToAbort(RunId(7))));
    assert_eq!(harness.pending().await.len(), 1);
    let abort = || InputEvent::Abort(abort_of(1)).with_id("stop-1");
    assert_eq!(harness.handle.send(abort()).await, Ok("stop-1".into()));
    assert_eq!(statuses(&harness).await, [ResultStatus::Aborted]);
    harness.handle.prompt("again").await.unwrap();
    assert_eq!(harness.handle.send(abort()).await, Ok("stop-1".into()));
    assert_eq!(harness.pending().await.len(), 1, "the calls of another run still wait");
    harness.check().await;
}

/// An abort after more commands than a task handles in one go does not wait for a busy pattern.
#[tokio::test]
async fn an_abort_after_many_commands_stops_a_pattern_that_always_goes_on() {
    let (handle, polls) = (Arc::new(OnceLock::<AgentHandle>::new()), Arc::new(Mutex::new(0)));
    let (to, count) = (handle.clone(), polls.clone());
    let busy = does(move |step| {
        let (to, count) = (to.clone(), count.clone());
        Box::pin(async move {
            step.take_input().await?;
            poll_fn(move |cx| {
                let mut polls = count.lock().unwrap();
                if *polls == 0 {
                    let handle = to.get().unwrap();
                    // Sent by the first poll; the receipts are not awaited.
                    (0..140).for_each(|_| drop(handle.steer("more").now_or_never()));
                    drop(handle.abort().now_or_never());
                }
                *polls += 1;
                cx.waker().wake_by_ref();
                Poll::<()>::Pending
            })
            .await;
            Ok(StepEnd::Done)
        })
    });
    let mut harness = Harness::new(busy, [], |agent| agent).await;
    handle.set(harness.handle.clone()).ok().unwrap();
    send(&harness, "go").await;
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Aborted);
    assert_eq!(*polls.lock().unwrap(), 1);
}
