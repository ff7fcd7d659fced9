//! Aborts, resets, limits, failures: every way a run can end.

use crate::kit::*;

/// C40 C42: at rest, an abort answers open calls and hands queued texts back; the session stays usable.
#[tokio::test(start_paused = true)]
async fn an_abort_during_confirmation_closes_the_batch_and_the_session_lives() {
    let mut rig = pi([calls(&["ask"]), Script::text("ok")], &[TestTool::new("ask").effect(Effect::AtMostOnce)]).await;
    send(&rig, "go").await;
    rig.run_end().await;
    rig.handle.follow_up("later").await.unwrap();
    rig.handle.abort().await.unwrap();
    let outcome = outcome_of(&rig.run_end().await);
    assert_eq!((outcome.end, &outcome.handed_back[..]), (EndKind::Aborted, &["later".to_owned()][..]));
    assert_eq!(statuses(&rig).await, [ResultStatus::Aborted]);
    assert_eq!(rig.handle.prompt("again").await.unwrap().end, EndKind::Done);
    rig.check().await;
}

/// C41: running tools are cancelled, one that finished keeps its result, the partial reply is kept.
#[tokio::test(start_paused = true)]
async fn an_abort_keeps_what_is_done_and_says_what_had_started() {
    let tools = [
        TestTool::new("fast").takes(ms(10)),
        TestTool::new("slow").takes(ms(9999)),
        TestTool::new("seq").effect(Effect::AtMostOnce),
    ];
    let mut rig = pi([calls(&["fast", "slow", "seq"])], &tools).await;
    send(&rig, "go").await;
    rig.until(|e| matches!(e, AgentEvent::ToolExecutionEnd { .. })).await;
    rig.handle.abort().await.unwrap();
    let events = rig.run_end().await;
    assert_eq!(end_of(&events), EndKind::Aborted);
    assert_eq!(statuses(&rig).await, [ResultStatus::Ok, ResultStatus::Aborted, ResultStatus::Aborted]);
    assert!(result_of(&rig, "b").await.contains("after it had started"));
    assert!(result_of(&rig, "c").await.contains("before it started"));

    let mut rig = pi([slow(9, ms(10)), Script::text("ok")], &[]).await;
    send(&rig, "go").await;
    rig.until(is_delta).await;
    rig.handle.abort().await.unwrap();
    rig.handle.wait_for_idle().await;
    assert_eq!(rig.transcript().await, ["U:go", "A:w0 /Aborted"]);
    rig.handle.prompt("again").await.unwrap();
    assert_eq!(rig.model.requests()[1].messages.len(), 2, "an aborted reply is not sent again");
    rig.check().await;
}

/// C41 C52: an abort inside slow writes neither loses nor doubles one.
#[tokio::test(start_paused = true)]
async fn an_abort_in_the_middle_of_a_write_neither_loses_nor_doubles_it() {
    for at in 0..400 {
        let tools = vec![TestTool::new("x").takes(ms(30)), TestTool::new("y").takes(ms(60))];
        let mut rig =
            slow_memory(vec![calls(&["x", "y"]), Script::text("ok"), Script::text("ok")], tools, ms(20)).await;
        let t = Instant::now();
        let handle = rig.handle.clone();
        let prompt = tokio::spawn(async move { handle.prompt("go").await });
        tokio::time::sleep_until(t + ms(at)).await;
        rig.handle.abort().await.unwrap();
        prompt.await.unwrap().unwrap();
        rig.handle.wait_for_idle().await;
        rig.handle.prompt("again").await.unwrap();
        rig.check().await;
        check_told(&mut rig);
        assert_eq!(rig.model.refused(), Vec::<String>::new());
    }
}

/// C36 C41 C52: an abort at every turn of the scheduler, without any time passing.
#[tokio::test(start_paused = true)]
async fn an_abort_at_any_poll_leaves_everything_in_order() {
    for polls in 0..120 {
        let tools = [TestTool::new("x"), TestTool::new("seq").spec(ToolSpec::sequential)];
        let replies = [calls(&["x", "seq", "x"]), Script::text("ok"), Script::text("ok")];
        let mut rig = pi(replies, &tools).await;
        let handle = rig.handle.clone();
        let prompt = tokio::spawn(async move { handle.prompt("go").await });
        for _ in 0..polls {
            tokio::task::yield_now().await;
        }
        rig.handle.abort().await.unwrap();
        prompt.await.unwrap().unwrap();
        rig.handle.wait_for_idle().await;
        rig.check().await;
        check_told(&mut rig);
        assert_eq!(rig.model.refused(), Vec::<String>::new());
    }
}

/// C43: a reset aborts and cuts the conversation; the log keeps everything.
#[tokio::test(start_paused = true)]
async fn a_reset_begins_the_conversation_anew() {
    let mut rig = pi([slow(9, ms(10)), Script::text("new")], &[]).await;
    send(&rig, "go").await;
    let mut events = rig.until(is_delta).await;
    rig.handle.follow_up("later").await.unwrap();
    send(&rig, "next").await;
    assert_eq!(rig.handle.reset().await.unwrap(), ["later", "next"], "what waited is given back");
    assert_eq!(rig.transcript().await, Vec::<String>::new());
    rig.handle.prompt("hello").await.unwrap();
    assert_eq!(rig.transcript().await, ["U:hello", "A:new/Stop"]);
    events.extend(rig.told());
    check_events(&events).unwrap();
    let rig = rig.restart().await;
    assert_eq!(rig.transcript().await, ["U:hello", "A:new/Stop"]);
    assert!(rig.memory.items().iter().any(|i| matches!(i, Item::Queued { message, .. } if message.text() == "go")));
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
            "sleeps for ever" => std::future::pending().await,
            "panics" => panic!("bad pattern"),
            _ => {}
        }
        Ok(StepEnd::Done)
    }
}

/// C3 C44 C45: whatever a pattern does, the session is put in order and lives.
#[tokio::test(start_paused = true)]
async fn whatever_a_pattern_does_the_batch_is_settled_and_the_session_lives() {
    for (how, says) in [
        ("asks with an open batch", "call_tools comes before"),
        ("sleeps for ever", ""),
        ("panics", "panicked: bad pattern"),
        ("panics at once", "panicked: bad pattern"),
        ("returns with an open batch", ""),
    ] {
        let mut rig =
            Rig::new(Bad(how), [calls(&["x"]), Script::text("ok"), Script::text("ok")], |a| a.tool(TestTool::new("x")))
                .await;
        send(&rig, "go").await;
        if how == "sleeps for ever" {
            rig.until(|e| matches!(e, AgentEvent::MessageEnd { message } if message.role() == Role::Assistant)).await;
            assert_eq!(rig.handle.prompt("busy?").await, Err(InputError::Busy));
            rig.handle.abort().await.unwrap();
        }
        let outcome = outcome_of(&rig.run_end().await);
        assert!(outcome.error.as_deref().unwrap_or_default().contains(says), "{how}: {outcome:?}");
        assert_eq!(outcome.end == EndKind::Error, !says.is_empty(), "{how}");
        send(&rig, "again").await;
        rig.until(|e| matches!(e, AgentEvent::AgentStart { .. })).await;
        rig.handle.abort().await.unwrap();
        rig.handle.wait_for_idle().await;
        rig.check().await;
    }
}

/// C45: a hook that panics ends the run with an error; nothing panics out of the engine.
#[tokio::test(start_paused = true)]
async fn a_hook_that_panics_ends_the_run_with_an_error() {
    type Options = fn(AgentBuilder) -> AgentBuilder;
    let hooks: [Options; 6] = [
        |a| a.on_text_part(|_| panic!("hook")),
        |a| a.before_end(|_| async { panic!("hook") }),
        |a| a.before_tool_call(|_| async { panic!("hook") }),
        |a| a.after_tool_call(|_, _| async { panic!("hook") }),
        |a| a.transform_context(|_| async { panic!("hook") }),
        |a| a.convert_to_llm(|_| panic!("hook")),
    ];
    for (i, options) in hooks.into_iter().enumerate() {
        let mut rig = pi_with([calls(&["x"]).say("text"), Script::text("ok")], &[TestTool::new("x")], options).await;
        let outcome = rig.handle.prompt("go").await.unwrap();
        assert_eq!(outcome.end, EndKind::Error, "hook {i}");
        assert!(outcome.error.as_deref().unwrap().contains("panicked: hook"), "hook {i}: {outcome:?}");
        rig.check().await;
        check_told(&mut rig);
    }
}

/// C53: a failed append ends the run with an error; `agent_end` goes out all the same, once.
#[tokio::test(start_paused = true)]
async fn a_full_disk_ends_the_run_with_exactly_one_agent_end() {
    for full in 2..17 {
        let wrap = |memory| Arc::new(FaultyMemory::new(memory).full_after(full)) as Arc<dyn Memory>;
        let replies = [calls(&["x", "x"]), Script::text("ok")];
        let mut rig =
            Rig::with_memory(PiPattern, replies, |a| a.tool(TestTool::new("x").takes(ms(5))), InMemory::new(), wrap)
                .await;
        let outcome = rig.handle.prompt("go").await;
        let told = rig.told();
        let ends = told.iter().filter(|e| matches!(e.event, AgentEvent::AgentEnd(_))).count();
        if full == 2 {
            assert!(matches!(outcome, Err(InputError::Memory(_))) || ends == 1, "full after {full}: {outcome:?}");
            continue;
        }
        assert_eq!(ends, 1, "full after {full}\n{}", trace(&told));
        let outcome = outcome.unwrap();
        assert!(outcome.end == EndKind::Done || outcome.error.unwrap().contains("the disk is full"));
        let state = rig.handle.state().await.unwrap();
        let folded = loopwright::testing::replay_messages(&rig.memory.items());
        assert_eq!(state.messages.len(), folded.len(), "RAM stays at the log");
    }
}

/// C46: turns, tokens, cost and wall time; results are kept.
#[tokio::test(start_paused = true)]
async fn limits_end_the_run_and_keep_the_results() {
    let usage = Usage { input: 600, output: 400, ..Usage::default() };
    let priced =
        ModelInfo::new("test/priced").with_prices(Prices { input: 1000.0, output: 1000.0, ..Prices::default() });
    let cases = [
        (Limits::default().turns(2), Limit::Turns, 2),
        (Limits::default().tokens(1500), Limit::Tokens, 2),
        (Limits::default().cost(0.5), Limit::Cost, 1),
        (Limits::default().wall_time(ms(250)), Limit::WallTime, 3),
    ];
    for (limits, limit, asked) in cases {
        let model = ScriptedModel::new((0..9).map(|_| calls(&["x"]).usage(usage))).info(priced.clone());
        let agent = GenericAgent::builder(model.clone(), PiPattern)
            .tool(TestTool::new("x").takes(ms(100)))
            .limits(limits)
            .build()
            .unwrap();
        let (handle, _events) = agent.run(RunContext::new()).await.unwrap();
        let outcome = handle.prompt("go").await.unwrap();
        assert_eq!((outcome.end, outcome.limit), (EndKind::Limit, Some(limit)), "{outcome:?}");
        assert_eq!(model.requests().len(), asked, "{limit:?}");
        loopwright::testing::check_transcript(&handle.state().await.unwrap().messages).unwrap();
        assert!(outcome.cost > 0.9 && outcome.usage.total() >= 1000);
    }
}

/// C46: a cost limit refuses a model without known prices.
#[tokio::test(start_paused = true)]
async fn a_cost_limit_refuses_a_model_without_prices() {
    let rig = pi_with([Script::text("ok")], &[], |a| a.limits(Limits::default().cost(1.0))).await;
    let outcome = rig.handle.prompt("go").await.unwrap();
    assert_eq!(outcome.end, EndKind::Error);
    assert!(outcome.error.unwrap().contains("prices of `test/scripted` are not known"));
}

/// C48: counters go on through runs that an answer or `Continue` resumes.
#[tokio::test(start_paused = true)]
async fn counters_go_on_through_resumed_runs() {
    let tool = TestTool::new("ask").effect(Effect::AtMostOnce);
    let mut rig = pi_with((0..5).map(|_| calls(&["ask"])), &[tool], |a| a.max_turns(3)).await;
    send(&rig, "go").await;
    let mut ends = vec![];
    for _ in 0..4 {
        ends.push(end_of(&rig.run_end().await));
        if let Some(open) = rig.pending().await.first() {
            rig.handle.decide(open.call.clone(), open.digest.clone(), Decision::Approve).await.unwrap();
        }
    }
    use EndKind::*;
    assert_eq!(ends, [AwaitingAction, AwaitingAction, AwaitingAction, Limit]);
    send(&rig, "a new request begins anew").await;
    assert_eq!(end_of(&rig.run_end().await), AwaitingAction);
}

/// C49: at most 32 requests wait; `prompt` says `Busy`, and the run is undisturbed.
#[tokio::test(start_paused = true)]
async fn requests_during_a_run_wait_their_turn() {
    let gate = Gate::new();
    let replies = std::iter::once(Script::text("0").gate(&gate)).chain((1..40).map(|i| Script::text(&i.to_string())));
    let mut rig = pi(replies, &[]).await;
    send(&rig, "long").await;
    rig.until(is_delta).await;
    assert_eq!(rig.handle.prompt("me too").await, Err(InputError::Busy));
    for i in 0..32 {
        send(&rig, &format!("{i}")).await;
    }
    assert_eq!(rig.handle.send(InputEvent::UserRequest("one more".into())).await, Err(InputError::Full(32)));
    gate.open();
    rig.handle.wait_for_idle().await;
    assert_eq!(rig.transcript().await.len(), 66);
    rig.check().await;
}

/// C46 C48: wall time goes on through runs that an answer resumes.
#[tokio::test(start_paused = true)]
async fn wall_time_goes_on_through_resumed_runs() {
    /// Time that the paused clock tells.
    struct Paused(Instant);
    impl Ambient for Paused {
        fn now(&self) -> u64 {
            self.0.elapsed().as_millis() as u64
        }
        fn random(&self) -> u64 {
            0
        }
    }
    let tools = [TestTool::new("work").takes(ms(200)), TestTool::new("ask").effect(Effect::AtMostOnce)];
    let replies = [calls(&["work", "ask"]), calls(&["work"]), Script::text("ok")];
    let limits = Limits::default().wall_time(ms(300));
    let rig = pi_with(replies, &tools, |a| a.limits(limits).ambient(Paused(Instant::now()))).await;
    assert_eq!(rig.handle.prompt("go").await.unwrap().end, EndKind::AwaitingAction);
    let t = Instant::now();
    rig.handle.answer(&rig.pending().await[0], Decision::Approve).await.unwrap();
    rig.handle.wait_for_idle().await;
    assert!(t.elapsed() < ms(310), "100 ms were left, and the grace of a cancelled tool");
    assert_eq!(rig.handle.state().await.unwrap().error.as_deref(), Some("the time limit is reached"));
}
