//! Events: their order, envelope and sequence numbers, and slow subscribers.

use crate::kit::*;

/// C57 C58 C59: the order and the numbers of the events of a turn with tools.
#[tokio::test(start_paused = true)]
async fn the_events_of_a_run_come_in_the_order_of_the_design() {
    let mut harness = pi(
        [Script::new().say("I look.").call("a", "x", "{}"), Script::text("ok")],
        &[TestTool::new("x").sends_updates(1, ms(1))],
    )
    .await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    check_events(&events).unwrap();
    let wanted = "\
agent_start UserRequest(\"input-1\")
turn_start 1
message_start m1 User
message_end m1 U:go
message_start m2 Assistant
  m2/0: I look.
message_update m2 ToolCallStart { block: 1, name: \"x\" }
  m2/1: {}
message_end m2 A:I look.[a]/ToolCalls
tool_execution_start a x {}
tool_execution_update a Output(\"0;\")
tool_execution_end a Ok
message_start m3 ToolResult
message_end m3 R:a/Ok
turn_end 1 1
turn_start 2
message_start m4 Assistant
  m4/0: ok
message_end m4 A:ok/Stop
turn_end 2 0
agent_end Done
";
    assert_eq!(trace(&events), wanted);
    assert!(events.iter().all(|e| *e.session_id == *"s" && e.run_id == RunId(1) && e.time == 0));
}

/// C59: an event is one flat JSON object with its type in snake_case.
#[tokio::test(start_paused = true)]
async fn an_event_serialises_flat_with_its_type() {
    let mut harness = pi([Script::text("ok")], &[]).await;
    send(&harness, "go").await;
    for event in harness.run_end().await {
        let json = serde_json::to_value(&*event).unwrap();
        let map = json.as_object().unwrap();
        assert!(
            ["seq", "session_id", "run_id", "time", "type"]
                .iter()
                .all(|key| map.contains_key(*key)),
            "{json}"
        );
        assert!(json["type"].as_str().unwrap().chars().all(|c| c.is_ascii_lowercase() || c == '_'));
    }
}

/// C60 C61: a reader of one event per 10 ms does not slow down a run of 100,000 deltas and misses
/// no text.
#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_neither_stalls_nor_misses_a_word() {
    const N: usize = 100_000;
    let mut long = Script::new().event(ModelEvent::BlockStart { block: 0, kind: BlockKind::Text });
    for i in 0..N {
        let pause = if i % 1000 == 0 { ms(1) } else { ms(0) };
        long = long.wait(pause).event(ModelEvent::Delta { block: 0, delta: format!("{i} ") });
    }
    let mut harness = pi([long], &[]).await;
    let t = Instant::now();
    let handle = harness.handle.clone();
    let run = tokio::spawn(async move { (handle.prompt("go").await.unwrap().end, t.elapsed()) });
    let (mut text, mut seq) = (String::new(), 0);
    while let Some(event) = harness.events.next().await {
        sleep(ms(10)).await;
        assert!(event.seq == seq || event.seq == seq + 1);
        seq = event.seq;
        match &event.event {
            AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } => {
                text.push_str(delta)
            }
            AgentEvent::AgentEnd(_) => break,
            _ => {}
        }
    }
    let (end, took) = run.await.unwrap();
    assert_eq!(
        (end, took.as_millis()),
        (RunStatus::Done, 100),
        "the run takes what its model takes"
    );
    assert_eq!(text, (0..N).map(|i| format!("{i} ")).collect::<String>());
    assert!(harness.events.peak() <= 1024 + 8, "{}", harness.events.peak());
}

/// C60: interleaved updates of two tools do not grow the queue of a slow subscriber.
#[tokio::test(start_paused = true)]
async fn interleaved_updates_of_two_tools_do_not_grow_a_slow_queue() {
    let loud = |name: &str| TestTool::new(name).sends_updates(20_000, ms(1));
    let mut harness = pi([calls(&["x", "y"]), Script::text("ok")], &[loud("x"), loud("y")]).await;
    harness.handle.prompt("go").await.unwrap();
    let mut updates = 0;
    for event in harness.run_end().await {
        if let AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Output(delta), .. } =
            &event.event
        {
            updates += delta.matches(';').count();
        }
    }
    assert_eq!(updates, 40_000);
    assert!(harness.events.peak() <= 1024 + 20, "{}", harness.events.peak());
}

/// C62: any number of subscribers see the same events. The stream of a run ends with it.
#[tokio::test(start_paused = true)]
async fn subscribers_see_the_same_and_a_run_stream_ends_with_its_run() {
    let mut harness = pi([Script::text("one"), Script::text("two")], &[]).await;
    let mut second = harness.handle.subscribe();
    let mut run = harness.handle.prompt_stream("go").await.unwrap();
    let mut events = vec![];
    while let Some(event) = run.next().await {
        events.push(event);
    }
    assert_eq!(end_of(&events), RunStatus::Done);
    harness.handle.prompt("more").await.unwrap();
    let first: Vec<u64> = harness.drain_events().iter().map(|e| e.seq).collect();
    let second: Vec<u64> = std::iter::from_fn(|| second.try_next()).map(|e| e.seq).collect();
    assert_eq!(first, second);
}

/// C64: replaying the events of a session rebuilds its messages exactly.
#[tokio::test(start_paused = true)]
async fn the_events_of_a_session_rebuild_its_messages() {
    let mut harness = pi(
        [calls(&["x", "y"]), Script::text("ok"), Script::text("more")],
        &[TestTool::new("x").takes(ms(9)), TestTool::new("y")],
    )
    .await;
    harness.handle.prompt("go").await.unwrap();
    harness.handle.prompt("go on").await.unwrap();
    let replayed: Vec<Arc<Message>> = harness
        .drain_events()
        .iter()
        .filter_map(|e| {
            if let AgentEvent::MessageEnd { message } = &e.event {
                Some(message.clone())
            } else {
                None
            }
        })
        .collect();
    assert_eq!(replayed, **harness.handle.state().await.unwrap().messages);
}

/// C66: a retry is an event with the number of the attempt, the delay and the reason. A subscriber
/// that joins during the delay gets it with the remaining delay.
#[tokio::test(start_paused = true)]
async fn a_retry_is_reported_also_to_those_who_join_later() {
    let failed = ModelError::new(ModelErrorKind::RateLimited, "Too many requests.");
    let notice = RetryNotice::new(2, 10, Duration::from_secs(20), &failed);
    let gate = Gate::new();
    let retried = Script::new()
        .event(ModelEvent::Retry(Arc::new(notice.clone())))
        .wait(Duration::from_secs(8))
        .gate(&gate)
        .say("done");
    let mut harness =
        pi_with([retried], &[], |agent| agent.environment(PausedClock(Instant::now()))).await;
    send(&harness, "go").await;
    let is_retry = |event: &AgentEvent| matches!(event, AgentEvent::Retry(_));
    let mut events = harness.until(is_retry).await;
    assert_eq!(events.last().unwrap().event, AgentEvent::Retry(Arc::new(notice)));
    tokio::time::advance(Duration::from_secs(8)).await;
    let (_, mut late) = harness.handle.join().await.unwrap();
    let joined = std::iter::from_fn(|| late.try_next());
    let left: Vec<_> = joined
        .filter_map(|e| match &e.event {
            AgentEvent::Retry(notice) => Some(notice.delay_ms),
            _ => None,
        })
        .collect();
    assert_eq!(left, [12_000]);
    gate.open();
    events.extend(harness.run_end().await);
    check_events(&events).unwrap();
    let (_, mut after) = harness.handle.join().await.unwrap();
    assert!(after.try_next().is_none(), "nothing waits any more");
}

/// C65: a retried attempt is withdrawn: its deltas are not part of the message, and an event
/// reports it.
#[tokio::test(start_paused = true)]
async fn a_withdrawn_attempt_is_reported_and_no_part_of_the_message() {
    let retried = Script::new()
        .say("first try")
        .withdraw()
        .event(ModelEvent::BlockStart { block: 0, kind: BlockKind::Text })
        .event(ModelEvent::Delta { block: 0, delta: "second".into() });
    let mut harness = pi([retried], &[]).await;
    send(&harness, "go").await;
    let events = harness.run_end().await;
    assert!(
        events.iter().any(|e| matches!(
            e.event,
            AgentEvent::MessageUpdate { update: Update::Withdrawn, .. }
        ))
    );
    check_events(&events).unwrap();
    assert_eq!(harness.transcript().await, ["U:go", "A:second/Stop"]);
}
