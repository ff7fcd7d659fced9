//! Steering and follow-ups: urgency, queue modes, and the delivery of every message.

use std::sync::{Mutex, OnceLock};

use futures::FutureExt;

use crate::kit::*;

/// C33 C36: a steer does not skip a running parallel batch. It is delivered after it.
#[tokio::test(start_paused = true)]
async fn a_steer_in_a_parallel_batch_skips_no_running_call() {
    let tools = [TestTool::new("x").takes(ms(100)), TestTool::new("y").takes(ms(50))];
    let mut harness = pi([calls(&["x", "y"]), Script::text("ok")], &tools).await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.steer("other way").await.unwrap();
    harness.run_end().await;
    assert_eq!(
        harness.transcript().await,
        ["U:go", "A:[a][b]/ToolCalls", "R:a/Ok", "R:b/Ok", "U:other way", "A:ok/Stop"]
    );
    harness.check().await;
}

/// C34
#[tokio::test(start_paused = true)]
async fn a_steer_in_a_sequential_batch_skips_the_calls_that_have_not_started() {
    let seq = TestTool::new("seq").takes(ms(100)).spec(ToolSpec::sequential);
    let ask = TestTool::new("ask").effect(Effect::AtMostOnce);
    let mut harness =
        pi([calls(&["seq", "seq", "ask"]), Script::text("ok")], &[seq, ask.clone()]).await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.steer("stop").await.unwrap();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
    assert_eq!(
        statuses(&harness).await,
        [ResultStatus::Ok, ResultStatus::Skipped, ResultStatus::Skipped]
    );
    assert_eq!(ask.ran(), 0);
    assert!(result_of(&harness, "b").await.contains("the user steered"));
    harness.check().await;
}

/// C33: the whole batch finishes, including calls that have not started yet.
#[tokio::test(start_paused = true)]
async fn a_steer_after_turn_lets_the_whole_batch_finish() {
    let seq = TestTool::new("seq").takes(ms(100)).spec(ToolSpec::sequential);
    let mut harness = pi([calls(&["seq", "seq"]), Script::text("ok")], &[seq]).await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.steer(Prompt::from("then").urgency(Urgency::AfterTurn)).await.unwrap();
    harness.run_end().await;
    assert_eq!(statuses(&harness).await, [ResultStatus::Ok, ResultStatus::Ok]);
}

/// C35
#[tokio::test(start_paused = true)]
async fn an_interrupt_cancels_interruptible_tools_and_lets_the_others_end() {
    let tools = [
        TestTool::new("coop").takes(ms(10_000)),
        TestTool::new("stubborn").takes_ignoring_cancel(ms(10_000)),
        TestTool::new("hard").takes(ms(5_000)).spec(ToolSpec::uninterruptible),
    ];
    let mut harness = pi([calls(&["coop", "stubborn", "hard"]), Script::text("ok")], &tools).await;
    let t = Instant::now();
    send(&harness, "go").await;
    harness.until(starts).await;
    harness.handle.steer(Prompt::from("now").urgency(Urgency::Interrupt)).await.unwrap();
    harness.run_end().await;
    assert_eq!(
        statuses(&harness).await,
        [ResultStatus::Aborted, ResultStatus::Aborted, ResultStatus::Ok]
    );
    assert_eq!(t.elapsed().as_millis() / 100, 50, "only the uninterruptible one was waited for");
    assert!(result_of(&harness, "a").await.contains("after it had started"));
}

/// C35: the text so far is kept and marked as interrupted. Calls and unsigned thinking are dropped.
#[tokio::test(start_paused = true)]
async fn an_interrupt_cuts_off_the_stream_and_keeps_its_text() {
    let cut = Script::new()
        .think("hm", None)
        .think("signed", Some("sig"))
        .call("a", "x", "{}")
        .stream(["w0 ", "w1 "], ms(10))
        .hang();
    let mut harness = pi([cut, Script::text("ok")], &[TestTool::new("x")]).await;
    send(&harness, "go").await;
    harness.until(|event| is_text_delta(event, "w1 ")).await;
    harness.handle.steer(Prompt::from("shorter").urgency(Urgency::Interrupt)).await.unwrap();
    assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
    assert_eq!(
        harness.transcript().await,
        ["U:go", "A:<signed>w0 w1 /Interrupted", "U:shorter", "A:ok/Stop"]
    );
    let note = "[The user interrupted the reply above; it is incomplete.]";
    let sent = harness.model.requests()[1].messages.last().unwrap().text();
    assert_eq!(sent, format!("{note}\n\nshorter"), "the model is told");
    harness.check().await;
}

/// C40: an interrupt that was received before, or is refused, cuts off no reply.
#[tokio::test(start_paused = true)]
async fn a_repeated_interrupt_cuts_off_one_reply() {
    let stop = || {
        let prompt = Prompt::from("shorter").urgency(Urgency::Interrupt);
        InputEvent::Steer(prompt).with_id("s")
    };
    let refused = || {
        let mut prompt = Prompt::from("other").urgency(Urgency::Interrupt);
        prompt.output = Some(Arc::new(OutputSchema::new("o", json!({ "type": 7 }))));
        InputEvent::Steer(prompt)
    };
    let mut harness = pi([slow(9, ms(10)), slow(2, ms(10))], &[]).await;
    send(&harness, "go").await;
    harness.until(is_delta).await;
    harness.handle.send(stop()).await.unwrap();
    harness
        .until(|e| matches!(e, AgentEvent::MessageEnd { message } if message.text() == "shorter"))
        .await;
    harness.until(is_delta).await;
    assert_eq!(harness.handle.send(stop()).await, Ok("s".into()));
    assert!(matches!(harness.handle.send(refused()).await, Err(InputError::OutputSchema(_))));
    harness.run_end().await;
    assert_eq!(
        harness.transcript().await,
        ["U:go", "A:w0 /Interrupted", "U:shorter", "A:w0 w1 /Stop"]
    );
    harness.check().await;
}

/// C35: an interrupt before the first delta leaves no message.
#[tokio::test(start_paused = true)]
async fn an_interrupt_before_the_first_delta_leaves_no_message() {
    let mut harness = pi([Script::new().hang(), Script::text("ok")], &[]).await;
    send(&harness, "go").await;
    harness.until(|e| matches!(e, AgentEvent::MessageStart { role: Role::Assistant, .. })).await;
    harness.handle.steer(Prompt::from("hello?").urgency(Urgency::Interrupt)).await.unwrap();
    harness.run_end().await;
    assert_eq!(harness.transcript().await, ["U:go", "U:hello?", "A:ok/Stop"]);
}

/// C35 C67: an interrupt cuts off a detached request too.
#[tokio::test(start_paused = true)]
async fn an_interrupt_cuts_off_a_detached_request() {
    struct Critic;
    #[async_trait::async_trait]
    impl BehaviorPattern for Critic {
        async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
            step.take_input().await?;
            let detached =
                step.ask_with(Ask::detached().also(UserMessage::from("is this wise?"))).await?;
            assert!(detached.interrupted() || !step.has_steering());
            step.take_steering().await?;
            step.ask().await?;
            Ok(StepEnd::Done)
        }
    }
    let mut harness =
        Harness::new(Critic, [Script::new().say("hm").hang(), Script::text("ok")], |a| a).await;
    send(&harness, "go").await;
    harness.until(|e| matches!(e, AgentEvent::MessageEnd { .. })).await;
    harness.handle.steer(Prompt::from("now").urgency(Urgency::Interrupt)).await.unwrap();
    harness.run_end().await;
    assert_eq!(harness.transcript().await, ["U:go", "U:now", "A:ok/Stop"]);
    assert_eq!(harness.model.requests()[0].messages.len(), 2, "the conversation and the question");
}

/// C63
#[tokio::test(start_paused = true)]
async fn a_stream_that_is_always_ready_does_not_block_inputs() {
    let endless = Script::new().stream((0..1_000_000).map(|_| "x"), Duration::ZERO);
    let mut harness = pi([endless, Script::text("ok")], &[]).await;
    send(&harness, "go").await;
    harness.until(is_delta).await;
    harness.handle.steer(Prompt::from("enough").urgency(Urgency::Interrupt)).await.unwrap();
    harness.run_end().await;
    let state = harness.handle.state().await.unwrap();
    let reply = state.messages[1].as_assistant().unwrap();
    assert_eq!(reply.stop, StopReason::Interrupted);
    assert!(reply.text().len() < 10_000, "{} deltas came first", reply.text().len());
}

/// C37: both modes of both queues.
#[tokio::test(start_paused = true)]
async fn queue_modes_set_how_many_messages_are_delivered_at_once() {
    for (mode, lines) in [
        (QueueMode::All, vec!["U:go", "A:1/Stop", "U:x", "U:y", "A:2/Stop"]),
        (QueueMode::OneAtATime, vec!["U:go", "A:1/Stop", "U:x", "A:2/Stop", "U:y", "A:3/Stop"]),
    ] {
        for steering in [true, false] {
            let gate = Gate::new();
            let replies = [Script::text("1").gate(&gate), Script::text("2"), Script::text("3")];
            let mut harness =
                pi_with(replies, &[], |a| a.steering_mode(mode).follow_up_mode(mode)).await;
            send(&harness, "go").await;
            harness.until(is_delta).await;
            for text in ["x", "y"] {
                match steering {
                    true => harness.handle.steer(text).await.unwrap(),
                    false => harness.handle.follow_up(text).await.unwrap(),
                };
            }
            gate.open();
            harness.run_end().await;
            assert_eq!(harness.transcript().await, lines, "{mode:?} steering {steering}");
        }
    }
}

/// C38: a steer to an idle session stays queued for the next run.
#[tokio::test(start_paused = true)]
async fn a_steer_to_an_idle_session_waits_for_the_next_run() {
    let harness = pi([Script::text("1"), Script::text("2")], &[]).await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.steer("x").await.unwrap();
    harness.handle.wait_for_idle().await;
    let state = harness.handle.state().await.unwrap();
    assert_eq!((state.messages.len(), state.steering_queue.len()), (2, 1));
    harness.handle.prompt("more").await.unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:1/Stop", "U:more", "U:x", "A:2/Stop"]);
}

async fn scene(urgency_tools: bool) -> Harness {
    let tools = vec![
        TestTool::new("x").takes(ms(30)),
        TestTool::new("y").takes(ms(45)),
        TestTool::new("seq").takes(ms(3)).spec(|s| if urgency_tools { s.sequential() } else { s }),
    ];
    let replies = vec![
        calls(&["x", "y", "seq"]),
        slow(5, ms(10)),
        Script::text("ok"),
        Script::text("ok"),
        Script::text("ok"),
    ];
    let harness = slow_memory(replies, tools, ms(7)).await;
    send(&harness, "go").await;
    harness
}

/// Checks the log and the events, and that the message was delivered, is queued, or was handed
/// back, exactly once. Returns whether it was delivered.
async fn accounted(harness: &mut Harness, text: &str) -> bool {
    harness.check().await;
    check_emitted(harness);
    let delivered =
        harness.transcript().await.iter().filter(|line| **line == format!("U:{text}")).count();
    let state = harness.handle.state().await.unwrap();
    let queued = state.steering_queue.iter().filter(|queued| queued.text == text).count();
    let back = harness
        .memory
        .entries()
        .iter()
        .filter(|i| matches!(i, LogEntry::RunEnded { handed_back, .. } if !handed_back.is_empty()))
        .count();
    assert_eq!(
        delivered + queued + back,
        1,
        "{text}: delivered {delivered}, queued {queued}, handed back {back}"
    );
    assert_eq!(harness.model.refused(), Vec::<String>::new());
    delivered == 1
}

/// C38 C39: a steer of any urgency at any millisecond of a run is answered in that run, or in a run
/// that starts at once. A steer after the end waits.
#[tokio::test(start_paused = true)]
async fn no_steer_is_lost_whenever_it_is_sent() {
    let t = Instant::now();
    let mut harness = scene(true).await;
    harness.run_end().await;
    let ends_at = t.elapsed().as_millis() as u64;
    for urgency in [Urgency::AfterTurn, Urgency::SkipPending, Urgency::Interrupt] {
        for at in 0..ends_at + 30 {
            let t = Instant::now();
            let mut harness = scene(true).await;
            tokio::time::sleep_until(t + ms(at)).await;
            harness.handle.steer(Prompt::from("S").urgency(urgency)).await.unwrap();
            harness.handle.wait_for_idle().await;
            let delivered = accounted(&mut harness, "S").await;
            assert!(
                at == ends_at || delivered == (at < ends_at),
                "{urgency:?} at {at} of {ends_at}: {delivered}"
            );
        }
    }
}

/// C38 C39: the same at every poll of the scheduler, without any time passing.
#[tokio::test(start_paused = true)]
async fn no_steer_is_lost_at_any_poll() {
    for urgency in [Urgency::AfterTurn, Urgency::SkipPending, Urgency::Interrupt] {
        for polls in 0..120 {
            let tools = [TestTool::new("x"), TestTool::new("seq").spec(ToolSpec::sequential)];
            let replies = [
                calls(&["x", "seq", "x"]),
                Script::text("ok"),
                Script::text("ok"),
                Script::text("ok"),
            ];
            let mut harness = pi(replies, &tools).await;
            let handle = harness.handle.clone();
            let prompt = tokio::spawn(async move { handle.prompt("go").await });
            for _ in 0..polls {
                tokio::task::yield_now().await;
            }
            harness.handle.steer(Prompt::from("S").urgency(urgency)).await.unwrap();
            prompt.await.unwrap().unwrap();
            harness.handle.wait_for_idle().await;
            accounted(&mut harness, "S").await;
        }
    }
}

/// C39 C43: a steer is acknowledged at any time, even if an abort follows it.
#[tokio::test(start_paused = true)]
async fn a_steer_and_an_abort_at_every_time_are_both_accepted() {
    for at in 0..260 {
        for gap in [0, 3, 11] {
            let t = Instant::now();
            let mut harness = scene(false).await;
            tokio::time::sleep_until(t + ms(at)).await;
            let handle = harness.handle.clone();
            let steer = tokio::spawn(async move {
                handle.steer(Prompt::from("S").urgency(Urgency::Interrupt)).await
            });
            sleep(ms(gap)).await;
            harness.handle.abort().await.unwrap();
            harness.handle.wait_for_idle().await;
            assert!(steer.await.unwrap().is_ok(), "a steer is always acknowledged");
            harness.handle.wait_for_idle().await;
            accounted(&mut harness, "S").await;
        }
    }
}

/// C35: a command is handled while events of the reply are always ready, when the task yields. The
/// budget of a task of tokio, 128 steps, says when that is.
#[tokio::test(start_paused = true)]
async fn an_interrupt_does_not_wait_for_a_pause_of_the_stream() {
    for at in [1, 64, 126, 127, 128, 129, 200] {
        let (handle, shown) = (Arc::new(OnceLock::<AgentHandle>::new()), Arc::new(Mutex::new(0)));
        let (to, count) = (handle.clone(), shown.clone());
        let steer_at = move |_: &HookContext, part: TextPart<'_>| {
            let mut shown = count.lock().unwrap();
            let is_word = part.text.starts_with('w');
            *shown += usize::from(is_word);
            if is_word && *shown == at {
                let steer = Prompt::from("stop").urgency(Urgency::Interrupt);
                // Sent by the first poll; the receipt comes when the stream is read on.
                assert!(to.get().unwrap().steer(steer).now_or_never().is_none());
            }
            TextAction::Show
        };
        let start = Script::new().event(ModelEvent::BlockStart { block: 0, kind: BlockKind::Text });
        let reply = (0..1_000).fold(start, |script, i| {
            script.event(ModelEvent::Delta { block: 0, delta: format!("w{i} ") })
        });
        let mut harness =
            pi_with([reply, Script::text("ok")], &[], |agent| agent.on_text_part(steer_at)).await;
        handle.set(harness.handle.clone()).ok().unwrap();
        send(&harness, "go").await;
        assert_eq!(end_of(&harness.run_end().await), RunStatus::Done);
        let shown = *shown.lock().unwrap();
        assert!((at..at + 150).contains(&shown), "steered at {at}, stopped at {shown}");
    }
}
