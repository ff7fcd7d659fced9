//! Late and rejoining subscribers. They see the same as a subscriber that was always connected.

use std::collections::BTreeMap;

use crate::kit::*;

/// The state of a front end, built from events alone.
#[derive(Debug, Default, Clone, PartialEq)]
struct Screen {
    seq: u64,
    streaming: BTreeMap<MessageId, String>,
    finished: Vec<MessageId>,
    outputs: BTreeMap<CallId, String>,
    numbered: Vec<String>,
}

impl Screen {
    fn see(&mut self, event: &Envelope) {
        if event.seq > self.seq {
            assert_eq!(event.seq, self.seq + 1, "a numbered event is missing before {event:?}");
            self.seq = event.seq;
            self.numbered.push(format!("{:?}", event.event));
        } else {
            assert_eq!(event.seq, self.seq, "emitted twice: {event:?}");
        }
        match &event.event {
            AgentEvent::MessageStart { message_id, role: Role::Assistant } => {
                assert!(
                    self.streaming.insert(*message_id, String::new()).is_none(),
                    "{message_id} started twice"
                );
            }
            AgentEvent::MessageUpdate { message_id, update } => match update {
                Update::Withdrawn => drop(self.streaming.remove(message_id)),
                Update::Text { delta, .. }
                | Update::Thinking { delta, .. }
                | Update::ToolCall { delta, .. } => {
                    self.streaming.entry(*message_id).or_default().push_str(delta)
                }
                Update::ToolCallStart { name, .. } => {
                    self.streaming.entry(*message_id).or_default().push_str(name)
                }
                other => panic!("{other:?}"),
            },
            AgentEvent::MessageEnd { message } => {
                self.streaming.remove(&message.id);
                self.finished.push(message.id);
            }
            AgentEvent::ToolExecutionUpdate { call, update: ToolUpdate::Output(text) } => {
                self.outputs.entry(call.clone()).or_default().push_str(text)
            }
            AgentEvent::ToolExecutionEnd { call, .. } => drop(self.outputs.remove(call)),
            _ => {}
        }
    }

    /// Joins over a new connection. The outputs of running tools are sent once more.
    async fn rejoin(&mut self, handle: &AgentHandle, memory: &InMemory) -> EventStream {
        let (items, events) = handle.join().await.unwrap();
        self.outputs.clear();
        let emitted = SessionLog::events_after("s", &memory.entries()[..items as usize], self.seq);
        emitted.iter().for_each(|event| self.see(event));
        events
    }
}

/// Opens a session with two replies. The first streams text and calls a tool that sends updates.
/// The second is withdrawn once.
async fn harness() -> Harness {
    let first = Script::new().stream((0..4).map(|i| format!("w{i} ")), ms(1)).call("a", "x", "{}");
    let second =
        Script::new().say("a try").wait(ms(1)).withdraw().wait(ms(1)).say("again").wait(ms(1));
    pi([first, second], &[TestTool::new("x").sends_updates(4, ms(1))]).await
}

/// C100: a subscriber that is disconnected after any event and rejoins ends in the same state as
/// the others. No part of the current stream is lost or doubled.
#[tokio::test(start_paused = true)]
async fn a_subscriber_that_rejoins_after_any_event_ends_with_the_same_screen() {
    let mut whole = Screen::default();
    let mut uninterrupted = harness().await;
    send(&uninterrupted, "go").await;
    let events = uninterrupted.run_end().await;
    events.iter().for_each(|event| whole.see(event));
    for cut in 0..events.len() {
        let mut harness = harness().await;
        send(&harness, "go").await;
        let mut screen = Screen::default();
        for _ in 0..cut {
            screen.see(&harness.events.next().await.unwrap());
        }
        let mut live = screen.rejoin(&harness.handle, &harness.memory).await;
        let alone = harness.run_end().await; // the first subscriber is not disturbed
        assert_eq!(alone.len() + cut, events.len());
        while screen.seq < whole.seq {
            screen.see(&live.next().await.unwrap());
        }
        assert_eq!(screen, whole, "cut off after {cut} events");
    }
}

/// C100: a new subscriber gets the current reply from its start, with its deltas merged.
#[tokio::test(start_paused = true)]
async fn a_late_subscriber_gets_the_current_stream_from_its_start() {
    let mut harness = harness().await;
    send(&harness, "go").await;
    harness.until(|event| is_text_delta(event, "w2 ")).await;
    let (items, mut events) = harness.handle.join().await.unwrap();
    let first = events.next().await.unwrap();
    assert!(
        matches!(first.event, AgentEvent::MessageStart { role: Role::Assistant, .. }),
        "{first:?}"
    );
    let second = events.next().await.unwrap();
    let AgentEvent::MessageUpdate { update: Update::Text { delta, .. }, .. } = &second.event else {
        panic!()
    };
    assert_eq!(delta, "w0 w1 w2 ");
    let emitted = SessionLog::events("s", &harness.memory.entries()[..items as usize]);
    assert_eq!(emitted.last().unwrap().seq, first.seq);
    harness
        .until(|e| {
            matches!(
                e,
                AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Output(text), .. }
                    if text == "2;"
            )
        })
        .await;
    let (_, mut events) = harness.handle.join().await.unwrap();
    let first = events.next().await.unwrap();
    let AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Output(text), .. } = &first.event
    else {
        panic!()
    };
    assert_eq!(text, "0;1;2;");
}

/// C101: if a crash disconnected a subscriber within a reply, the reply is withdrawn when it
/// rejoins, however late. A subscriber that has received later events gets no withdrawal.
#[tokio::test(start_paused = true)]
async fn a_reply_that_a_crash_cut_off_is_withdrawn_for_its_subscribers() {
    let mut harness = pi([slow(5, ms(1)), Script::text("ok"), Script::text("more")], &[]).await;
    send(&harness, "go").await;
    let mut screen = Screen::default();
    harness.until(is_delta).await;
    let (_, mut events) = harness.handle.join().await.unwrap();
    SessionLog::events("s", &harness.memory.entries()).iter().for_each(|event| screen.see(event));
    screen.see(&events.next().await.unwrap());
    screen.see(&events.next().await.unwrap());
    assert_eq!(screen.streaming.len(), 1);
    let harness = harness.restart().await;
    let mut early = screen.clone();
    early.rejoin(&harness.handle, &harness.memory).await;
    assert!(early.streaming.is_empty(), "{early:?}");
    harness.handle.continue_run().await.unwrap();
    harness.handle.prompt("more").await.unwrap();
    screen.rejoin(&harness.handle, &harness.memory).await;
    assert!(screen.streaming.is_empty(), "{screen:?}");
    let withdrawn = |after| {
        let emitted = SessionLog::events_after("s", &harness.memory.entries(), after);
        emitted.iter().filter(|e| matches!(e.event, AgentEvent::MessageUpdate { .. })).count()
    };
    assert_eq!(withdrawn(early.seq), 1);
    assert_eq!(
        (withdrawn(early.seq - 1), withdrawn(early.seq + 1), withdrawn(screen.seq)),
        (0, 0, 0)
    );
}

/// C101: after any number, the remaining numbered events follow as they were emitted.
#[tokio::test(start_paused = true)]
async fn after_any_number_the_rest_follows() {
    let mut harness = harness().await;
    send(&harness, "go").await;
    let emitted = harness.run_end().await;
    let numbered = |events: Vec<Arc<Envelope>>| -> Vec<(u64, String)> {
        let mut seq = 0;
        let numbered = events.into_iter().filter(|e| std::mem::replace(&mut seq, e.seq) < e.seq);
        numbered.map(|e| (e.seq, format!("{:?}", e.event))).collect()
    };
    let all = numbered(emitted);
    for after in 0..=all.len() {
        let rest = SessionLog::events_after("s", &harness.memory.entries(), after as u64);
        let rest: Vec<(u64, String)> =
            rest.iter().map(|e| (e.seq, format!("{:?}", e.event))).collect();
        assert_eq!(rest, all[after..]);
    }
}

/// The events of a log are the same whichever events a reader has missed.
#[tokio::test(start_paused = true)]
async fn a_log_that_is_resumed_says_what_the_log_says() {
    let mut harness = harness().await;
    send(&harness, "go").await;
    harness.run_end().await;
    let items = harness.memory.entries();
    for cut in 0..=items.len() {
        let items = &items[..cut];
        let (whole, events) = (SessionLog::of(items), SessionLog::events("s", items));
        assert_eq!(whole.last_seq(), events.len() as u64);
        for after in 0..=whole.last_seq() + 1 {
            let (log, missed) = SessionLog::resume("s", items, after);
            assert_eq!((log.last_seq(), log.run()), (whole.last_seq(), whole.run()));
            assert_eq!((log.messages(), log.context()), (whole.messages(), whole.context()));
            let numbered = missed.iter().filter(|event| event.seq > after);
            let rest = events.iter().filter(|event| event.seq > after);
            assert!(numbered.map(|e| format!("{e:?}")).eq(rest.map(|e| format!("{e:?}"))));
        }
    }
}

/// C100: a reader that was cut off because it was too slow gets the events it has missed from the
/// log, each once, and then the later ones.
#[tokio::test]
async fn a_reader_that_lags_misses_no_event() {
    let store = InMemoryStore::new();
    let model = ScriptedModel::new([Script::text("Hello.")]);
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    let mut events = EventReader::new(handle.clone(), handle.subscribe(), store.clone());
    let mut seen = Vec::new();
    for _ in 0..2 {
        lag(&handle).await;
        while let Some(event) = events.try_next().await {
            seen.push(event);
        }
    }
    handle.prompt("Hi.").await.unwrap();
    handle.close().await;
    while let Some(event) = events.next().await {
        seen.push(event);
    }
    assert_eq!(events.end(), Some(StreamEnd::Closed));
    let mut numbered: Vec<u64> = seen.iter().map(|event| event.seq).collect();
    numbered.dedup(); // deltas have the number of the event before
    let log = SessionLog::of(&store.read("s", 0).await.unwrap());
    assert_eq!(numbered, (1..=log.last_seq()).collect::<Vec<_>>());
    assert!(matches!(&seen.last().unwrap().event, AgentEvent::AgentEnd(_)));
}

/// C100: a reader that was cut off gets the events it has missed even if the session has ended.
#[tokio::test]
async fn a_reader_that_lags_when_the_session_ends_misses_no_event() {
    let store = InMemoryStore::new();
    let model = ScriptedModel::new([Script::text("Hello.")]);
    let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    let mut events = EventReader::new(handle.clone(), handle.subscribe(), store.clone());
    lag(&handle).await;
    handle.prompt("Hi.").await.unwrap();
    handle.close().await;
    let mut numbers = Vec::new();
    while let Some(event) = events.next().await {
        numbers.push(event.seq);
    }
    assert_eq!(events.end(), Some(StreamEnd::Closed));
    numbers.dedup();
    let log = SessionLog::of(&store.read("s", 0).await.unwrap());
    assert_eq!(numbers, (1..=log.last_seq()).collect::<Vec<_>>());
}

/// Emits more text than a stream keeps unread.
async fn lag(handle: &AgentHandle) {
    let mut stream = handle.subscribe();
    let text = "x".repeat(1_000_000);
    while stream.end() != Some(StreamEnd::Lagged) {
        handle.follow_up(text.as_str()).await.unwrap();
        handle.clear_queues().await.unwrap();
    }
    assert!(stream.next().await.is_some());
}
