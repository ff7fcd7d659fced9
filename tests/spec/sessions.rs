//! Sessions of a store: their owner, description and branches, and the view of a log's reader.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use loopwright_core::agent::attach;
use loopwright_core::event::StreamEnd;

use crate::kit::*;

fn agent(replies: impl IntoIterator<Item = Script>, tools: &[TestTool]) -> GenericAgent {
    let tools: Vec<Arc<dyn Tool>> =
        tools.iter().map(|t| Arc::new(t.clone()) as Arc<dyn Tool>).collect();
    GenericAgent::builder(ScriptedModel::new(replies), PiPattern).tools(tools).build().unwrap()
}

/// C439: a session is closed after its run in progress, although other handles exist, and can be
/// opened at once. Its streams say why they have ended.
#[tokio::test(start_paused = true)]
async fn a_session_is_closed_after_its_run() {
    let gate = Gate::new();
    let store = InMemoryStore::new();
    let replies = [Script::new().gate(&gate).say("one"), Script::text("two")];
    let agent = agent(replies, &[]);
    let handle = agent.open(&store, "s").await.unwrap();
    assert_eq!(&**handle.id(), "s");
    let mut events = handle.subscribe();
    let mut run = handle.prompt_stream("go").await.unwrap();
    assert_eq!((run.end(), events.end()), (None, None));
    let other = handle.clone();
    let closing = tokio::spawn(async move { handle.close().await });
    tokio::task::yield_now().await;
    assert!(!closing.is_finished());
    gate.open();
    closing.await.unwrap();
    assert_eq!(other.prompt("more").await, Err(InputError::Gone));
    other.close().await; // once more

    while run.next().await.is_some() {}
    let mut last = None;
    while let Some(event) = events.next().await {
        last = Some(event);
    }
    assert!(matches!(&last.unwrap().event, AgentEvent::AgentEnd(end) if &*end.text == "one"));
    assert_eq!(run.end(), Some(StreamEnd::RunEnded));
    assert_eq!(events.end(), Some(StreamEnd::Closed));
    let handle = agent.open(&store, "s").await.unwrap();
    assert_eq!(handle.prompt("more").await.unwrap().text, "two");
}

/// C440: an attached handle that is closed leaves the session open for its owner.
#[tokio::test(start_paused = true)]
async fn an_attached_handle_only_detaches() {
    let store = InMemoryStore::new();
    let agent = agent([Script::text("one")], &[]);
    let owner = agent.open(&store, "s").await.unwrap();
    let (guest, _events) = attach(&store, "s").await.unwrap();
    guest.close().await;
    assert!(guest.has_ended());
    assert_eq!(owner.prompt("go").await.unwrap().text, "one");
}

/// C72: a session has one owner at a time, until its event stream has ended.
#[tokio::test(start_paused = true)]
async fn a_session_has_one_owner() {
    let (store, agent) =
        (InMemoryStore::new(), agent([Script::text("one"), Script::text("two")], &[]));
    let handle = agent.open(&store, "s").await.unwrap();
    let refused = store.open("s").await.err().unwrap();
    assert!(matches!(&refused, MemoryError::InUse(s) if **s == *"s"), "{refused}");
    assert!(matches!(store.delete("s").await, Err(MemoryError::InUse(_))));
    handle.prompt("go").await.unwrap();
    handle.close().await;
    let handle = agent.open(&store, "s").await.unwrap();
    assert_eq!(handle.prompt("more").await.unwrap().text, "two");
}

/// C73: pending actions are listed across sessions until they are resolved.
#[tokio::test(start_paused = true)]
async fn open_actions_of_all_sessions_are_listed() {
    let store = InMemoryStore::new();
    let mutate = TestTool::new("mutate").effect(Effect::Idempotent);
    for session in ["a", "b"] {
        let agent = agent([calls(&["mutate"]), Script::text("ok")], std::slice::from_ref(&mutate));
        let handle = agent.open(&store, session).await.unwrap();
        handle.prompt("go").await.unwrap();
        let all = store.pending(&PendingQuery::all()).await.unwrap().actions;
        assert_eq!(all.iter().map(|p| &*p.session).collect::<Vec<_>>().last(), Some(&session));
        if session == "b" {
            let of_b = store
                .pending(&PendingQuery::all().session("b").tool("mutate"))
                .await
                .unwrap()
                .actions;
            assert_eq!((of_b.len(), &*of_b[0].action), (1, &handle.pending().await.unwrap()[0]));
            assert!(
                store.pending(&PendingQuery::all().tool("other")).await.unwrap().actions.is_empty()
            );
            handle.approve(&of_b[0].action).await.unwrap();
            handle.wait_for_idle().await;
        }
        handle.close().await;
    }
    let left = store.pending(&PendingQuery::all()).await.unwrap().actions;
    assert_eq!(left.iter().map(|p| &*p.session).collect::<Vec<_>>(), ["a"]);
}

/// C74: the host's settings are logged once, and returned when the session is opened.
#[tokio::test(start_paused = true)]
async fn settings_are_kept_with_the_session() {
    let (store, agent) = (InMemoryStore::new(), agent([Script::text("one")], &[]));
    for _ in 0..2 {
        let cx =
            RunContext::new().stored(&store, "s").await.unwrap().settings(json!({"model": "m"}));
        let (handle, _events) = agent.run(cx).await.unwrap();
        assert_eq!(handle.state().await.unwrap().settings.as_deref(), Some(&json!({"model": "m"})));
        handle.close().await;
    }
    let items = store.read("s", 0).await.unwrap();
    assert_eq!(items.iter().filter(|i| matches!(i, LogEntry::Settings { .. })).count(), 1);
    assert_eq!(store.session("s").await.unwrap().settings.as_deref(), Some(&json!({"model": "m"})));
    assert_eq!(SessionLog::of(&items).settings().map(|s| &**s), Some(&json!({"model": "m"})));
}

/// C58: a log yields the events that its session has emitted.
#[tokio::test(start_paused = true)]
async fn the_events_of_a_log_are_those_that_were_emitted() {
    let mut harness = pi(
        [calls(&["read", "ask"]), Script::text("done")],
        &[TestTool::new("read"), TestTool::new("ask").effect(Effect::Idempotent)],
    )
    .await;
    send(&harness, "go").await;
    let mut emitted = harness.run_end().await;
    let open = harness.pending().await;
    harness.handle.deny(&open[0], "no").await.unwrap();
    emitted.extend(harness.run_end().await);
    let mut numbered: Vec<(u64, RunId, AgentEvent)> = Vec::new();
    for event in &emitted {
        let transient = matches!(&event.event, AgentEvent::MessageUpdate { .. })
            || matches!(&event.event, AgentEvent::MessageStart { role: Role::Assistant, .. });
        if !transient && numbered.last().is_none_or(|(seq, ..)| *seq < event.seq) {
            numbered.push((event.seq, event.run_id, event.event.clone()));
        }
    }
    let logged = SessionLog::events("s", &harness.memory.entries());
    assert_eq!(
        logged.into_iter().map(|e| (e.seq, e.run_id, e.event)).collect::<Vec<_>>(),
        numbered
    );
}

/// C75: a branch starts between turns, without the queue and the open batch of its source, and
/// continues independently.
#[tokio::test(start_paused = true)]
async fn a_branch_continues_independently() {
    let mutate = TestTool::new("mutate").effect(Effect::AtMostOnce);
    let store = InMemoryStore::new();
    let replies = [
        Script::text("one"),
        calls(&["mutate"]),
        Script::text("in the branch"),
        Script::text("after"),
    ];
    let agent = agent(replies, std::slice::from_ref(&mutate));
    let handle = agent.open(&store, "s").await.unwrap();
    handle.prompt("first").await.unwrap();
    handle.prompt("second").await.unwrap();
    handle.follow_up("waits").await.unwrap();
    let log = store.read("s", 0).await.unwrap();
    for at in 1..=log.len() as u64 {
        let to = format!("f{at}");
        let shared = store.fork("s", Some(at), &to).await.unwrap();
        let items = store.read(&to, 0).await.unwrap();
        assert_eq!(items[..shared as usize], log[..shared as usize]);
        assert!(shared <= at);
        let past = SessionLog::of(&items);
        assert!(
            past.waiting().is_empty() && past.pending().is_empty() && past.run().is_none(),
            "at {at}"
        );
        loopwright_core::log::check_log(&items).unwrap();
        loopwright_core::testing::check_transcript(&past.messages()).unwrap();
    }
    let refused = store.fork("s", None, "f9").await;
    assert!(matches!(refused, Err(MemoryError::Exists(_))), "{refused:?}");
    let branch = agent.open(&store, format!("f{}", log.len())).await.unwrap();
    assert_eq!(branch.prompt("third").await.unwrap().text, "in the branch");
    assert_eq!((mutate.ran(), handle.pending().await.unwrap().len()), (0, 1));
}

/// C76: the description of a session is updated with each entry.
#[tokio::test(start_paused = true)]
async fn the_description_of_a_session_follows_its_log() {
    let (store, agent) =
        (InMemoryStore::new(), agent([Script::text("one"), Script::text("two")], &[]));
    let handle = agent.open(&store, "s").await.unwrap();
    assert_eq!(store.session("t").await, Err(MemoryError::NoSession("t".into())));
    handle.prompt("What is it?\nSay it.").await.unwrap();
    let info = store.session("s").await.unwrap();
    assert_eq!((&*info.title, info.run, info.pending.len()), ("What is it?", None, 0));
    let items = store.read("s", 0).await.unwrap();
    assert_eq!((info.entries, &info), (items.len() as u64, &SessionInfo::of("s", &items)));
    assert!(info.started > 0 && info.changed >= info.started);
    let found = store.search("ONE", 9).await.unwrap();
    assert_eq!(found.iter().map(|f| f.message.text()).collect::<Vec<_>>(), ["one"]);
    assert!(store.search("", 9).await.unwrap().is_empty());
}

/// A clock that advances at each reading.
struct Ticks(AtomicU64);

impl Environment for Ticks {
    fn now(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    fn random(&self) -> u64 {
        0
    }
}

/// C76: the session that was opened last is first in the list, even if nothing has run in it.
#[tokio::test(start_paused = true)]
async fn the_session_that_was_opened_last_is_listed_first() {
    let (store, model) = (InMemoryStore::new(), ScriptedModel::new([Script::text("one")]));
    let agent = GenericAgent::builder(model, PiPattern)
        .environment(Ticks(AtomicU64::new(1000)))
        .build()
        .unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    handle.prompt("go").await.unwrap();
    store.fork("s", None, "branch").await.unwrap();
    for session in ["new", "branch"] {
        let _open = agent.open(&store, session).await.unwrap();
        assert_eq!(&*store.sessions().await.unwrap()[0].id, session);
    }
    assert_eq!(store.session("new").await.unwrap().started, 0);
}

/// An event after the session was opened is not earlier than the opening.
#[tokio::test(start_paused = true)]
async fn the_time_of_an_opening_is_in_the_log() {
    let (store, model) = (InMemoryStore::new(), ScriptedModel::new([Script::text("one")]));
    let agent = GenericAgent::builder(model, PiPattern)
        .environment(Ticks(AtomicU64::new(1000)))
        .build()
        .unwrap();
    let handle = agent.open(&store, "s").await.unwrap();
    handle.prompt("go").await.unwrap();
    handle.close().await;
    let handle = agent.open(&store, "s").await.unwrap();
    handle.steer("and then").await.unwrap();
    let items = store.read("s", 0).await.unwrap();
    let opened = items
        .iter()
        .rev()
        .find_map(|item| if let LogEntry::Opened { time, .. } = item { Some(*time) } else { None });
    let last = SessionLog::events("s", &items).pop().unwrap();
    assert!(matches!(last.event, AgentEvent::QueueUpdate { .. }), "{last:?}");
    assert_eq!(Some(last.time), opened);
}

/// Returns the due work of each prefix of a log, without repetitions.
fn dues(entries: &[LogEntry]) -> Vec<Option<Due>> {
    let mut info = SessionInfo::new("s");
    let mut dues = Vec::new();
    for entry in entries {
        info.apply(entry);
        dues.push(info.due);
    }
    dues.dedup();
    dues
}

/// C76: `due` is the next action of a session when it is opened: none, a queued request, a
/// decision, or an interrupted run that waits for the user.
#[tokio::test(start_paused = true)]
async fn a_description_says_what_the_session_does_next() {
    use Due::{Decision as Decided, Interrupted, Request};
    let pay = TestTool::new("pay").effect(Effect::AtMostOnce);
    let mut harness = pi([calls(&["pay"]), Script::text("paid")], &[pay]).await;
    harness.handle.prompt("go").await.unwrap();
    harness.resolve(0, Decision::Approve).await.unwrap();
    harness.run_end().await;
    let entries = harness.memory.entries();
    let expected =
        [None, Some(Request), Some(Interrupted), None, Some(Decided), Some(Interrupted), None];
    assert_eq!(dues(&entries), expected);

    // A steer and then a request instead of a decision.
    let mut harness =
        pi([calls(&["pay"])], &[TestTool::new("pay").effect(Effect::AtMostOnce)]).await;
    harness.handle.prompt("go").await.unwrap();
    harness.drain_events();
    harness.handle.steer("not so").await.unwrap();
    harness.run_end().await;
    let entries = harness.memory.entries();
    let expected =
        [None, Some(Request), Some(Interrupted), None, Some(Due::Steer), Some(Interrupted), None];
    assert_eq!(dues(&entries), expected);
}

/// C76, C53: A request that was acknowledged before the process was killed is due, and runs as soon
/// as the session is opened.
#[tokio::test(start_paused = true)]
async fn an_acknowledged_request_is_due_and_runs() {
    let harness = pi([Script::text("ok")], &[]).await;
    harness.handle.prompt("go").await.unwrap();
    let entries = harness.memory.entries();
    let queued = entries.iter().position(|entry| matches!(entry, LogEntry::Queued { .. })).unwrap();
    let cut = entries[..=queued].to_vec();
    assert_eq!(SessionInfo::of("s", &cut).due, Some(Due::Request));
    let harness = pi([Script::text("ok")], &[]).await.restart_from(cut).await;
    harness.handle.wait_for_idle().await;
    assert_eq!(harness.transcript().await, ["U:go", "A:ok/Stop"]);
}

/// C76: A store reports whether a session is open, without opening it.
#[tokio::test(start_paused = true)]
async fn a_store_says_whether_a_session_is_open() {
    let store = InMemoryStore::new();
    let handle = agent([Script::text("ok")], &[]).open(&store, "s").await.unwrap();
    assert_eq!(store.in_use("s").await, Ok(Some(true)));
    drop(handle);
    tokio::task::yield_now().await;
    assert_eq!(store.in_use("s").await, Ok(Some(false)));
    assert_eq!(store.in_use("missing").await, Ok(Some(false)));
}

/// A store whose list contains a deleted session.
struct Late(InMemoryStore);

#[async_trait::async_trait]
impl SessionStore for Late {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        self.0.open(session).await
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.read(session, from).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        let mut all = self.0.sessions().await?;
        all.insert(0, SessionInfo::new("deleted by now"));
        Ok(all)
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.0.delete(session).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_search_skips_sessions_that_were_deleted_meanwhile() {
    let (store, agent) = (Late(InMemoryStore::new()), agent([Script::text("one")], &[]));
    let handle = agent.open(&store.0, "s").await.unwrap();
    handle.prompt("go").await.unwrap();
    let found = store.search("one", 9).await.unwrap();
    assert_eq!(found.iter().map(|f| &*f.session).collect::<Vec<_>>(), ["s"]);
}

/// A memory that counts how often it is read.
struct Counting(InMemory, Arc<AtomicUsize>);

#[async_trait::async_trait]
impl Memory for Counting {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.0.append(at, items).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.1.fetch_add(1, Ordering::SeqCst);
        self.0.load(from).await
    }
}

/// C76: the log is read when the session is opened, but not by any turn.
#[tokio::test(start_paused = true)]
async fn a_turn_does_not_read_the_log() {
    let loads = Arc::new(AtomicUsize::new(0));
    let count = loads.clone();
    let wrap = move |memory| Arc::new(Counting(memory, count)) as Arc<dyn Memory>;
    let replies = [calls(&["x"]), Script::text("one"), Script::text("two"), Script::text("three")];
    let harness = Harness::with_memory(
        PiPattern,
        replies,
        |a| a.tool(TestTool::new("x")),
        InMemory::new(),
        wrap,
    )
    .await;
    for text in ["one", "two", "three"] {
        assert_eq!(harness.handle.prompt("go").await.unwrap().text, text);
        harness.handle.state().await.unwrap();
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

/// A memory that repaired its log.
struct Repaired(InMemory);

#[async_trait::async_trait]
impl Memory for Repaired {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.0.append(at, items).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }

    fn repaired(&self) -> Option<String> {
        Some("a torn line was cut off".into())
    }
}

/// C69: a repair of the log at the opening is in the snapshot of the session.
#[tokio::test(start_paused = true)]
async fn a_repair_is_reported() {
    let wrap = |memory| Arc::new(Repaired(memory)) as Arc<dyn Memory>;
    let harness = Harness::with_memory(PiPattern, [], |a| a, InMemory::new(), wrap).await;
    assert_eq!(
        harness.handle.state().await.unwrap().repaired.as_deref(),
        Some("a torn line was cut off")
    );
    let whole = pi([], &[]).await;
    assert_eq!(whole.handle.state().await.unwrap().repaired, None);
}
