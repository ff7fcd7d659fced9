//! Bounds, in bytes, of a session's memory: its queues, its replies, unread streams.

use crate::kit::*;

/// Starts a run whose tool waits for the gate.
async fn at_work(gate: &Gate) -> Harness {
    let tool = TestTool::new("wait").waits(gate);
    let mut harness = pi([calls(&["wait"]), Script::text("ok")], &[tool]).await;
    send(&harness, "go").await;
    harness.until(starts).await;
    harness
}

/// C52: At most 1,000 steers and follow-ups wait. A refused one changes nothing. There is room
/// again once the others are delivered.
#[tokio::test(start_paused = true)]
async fn a_thousand_messages_can_be_queued_and_no_more() {
    let gate = Gate::new();
    let mut harness = at_work(&gate).await;
    for n in 0..500 {
        harness.handle.steer(format!("s{n}")).await.unwrap();
        harness.handle.follow_up(format!("f{n}")).await.unwrap();
    }
    let entries = harness.memory.entries().len();
    let refused = harness.handle.steer("one more").await;
    assert!(
        matches!(refused, Err(InputError::QueueFull { messages: 1_000, bytes: 3_780 })),
        "{refused:?}"
    );
    assert!(harness.handle.follow_up("one more").await.is_err());
    assert_eq!(harness.memory.entries().len(), entries);
    let known = harness.handle.send(InputEvent::Steer("s".into()).with_id("input-2")).await;
    assert_eq!(known.unwrap().as_ref(), "input-2", "an input that is known is acknowledged");
    gate.open();
    harness.run_end().await;
    harness.handle.steer("there is room").await.unwrap();
    harness.check().await;
}

/// C52: The content of queued messages is bounded too: no message is queued when 1 MiB waits. A
/// single message may be longer.
#[tokio::test(start_paused = true)]
async fn a_megabyte_of_messages_can_be_queued() {
    let gate = Gate::new();
    let mut harness = at_work(&gate).await;
    let long = "x".repeat(60_000);
    let mut queued = 0;
    while harness.handle.follow_up(long.as_str()).await.is_ok() {
        queued += 1;
    }
    assert_eq!(queued, (1024 * 1024) / 60_000 + 1);
    gate.open();
    harness.run_end().await;
    harness.handle.follow_up(long.repeat(50)).await.unwrap();
    assert!(harness.handle.follow_up("short").await.is_err());
}

/// C60: `queue_update` contains only the change, so its size does not grow with the queue.
#[tokio::test(start_paused = true)]
async fn an_update_of_a_queue_is_as_long_as_its_change() {
    let gate = Gate::new();
    let mut harness = at_work(&gate).await;
    let mut max_bytes = 0;
    for n in 0..300 {
        harness.handle.steer(format!("steer {n}")).await.unwrap();
        let events = harness.drain_events();
        let [event] = &events[..] else { panic!("{events:?}") };
        let AgentEvent::QueueUpdate { added: Some(added), removed } = &event.event else {
            panic!("{event:?}");
        };
        assert_eq!((added.queue, removed.len()), (QueueKind::Steering, 0));
        assert_eq!(added.text, format!("steer {n}"));
        max_bytes = max_bytes.max(serde_json::to_string(event).unwrap().len());
    }
    assert!(max_bytes < 250, "{max_bytes}");
    gate.open();
    let events = harness.run_end().await;
    let removed = events.iter().filter_map(|event| match &event.event {
        AgentEvent::QueueUpdate { added: None, removed } => Some(removed.len()),
        _ => None,
    });
    assert_eq!(removed.sum::<usize>(), 300);
}

/// C49: A reply that is longer than its limit is cut off and fails the run. The session stays
/// usable.
#[tokio::test(start_paused = true)]
async fn a_reply_is_bounded() {
    let endless = || Script::new().stream((0..1_000).map(|_| "0123456789"), ms(1));
    let replies = [endless(), Script::text("short")];
    let limits = |agent: AgentBuilder| agent.limits(Limits::default().reply_bytes(5_000));
    let harness = pi_with(replies, &[], limits).await;
    let outcome = harness.handle.prompt("go").await.unwrap();
    assert_eq!(outcome.end, RunStatus::Error);
    assert!(outcome.error.unwrap().contains("longer than 5000 bytes"));
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "short");
    harness.check().await;
}

/// C49: A withdrawn attempt does not count.
#[tokio::test(start_paused = true)]
async fn a_withdrawn_attempt_does_not_count_as_a_part_of_the_reply() {
    let attempt = "x".repeat(40);
    let reply = Script::new().say(&attempt).withdraw().say(&attempt);
    let limits = |agent: AgentBuilder| agent.limits(Limits::default().reply_bytes(50));
    let harness = pi_with([reply], &[], limits).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, attempt);
}
