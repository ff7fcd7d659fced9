//! Inputs, events, hand-over and interrupted runs, with workers of one process.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::agent::InputError;
use loopwright_core::event::{
    AgentEvent, Envelope, InputEvent, OwnerNote, QueueKind, RunCause, StreamEnd, Urgency,
};
use loopwright_core::log::{
    InMemoryStore, LogEntry, MemoryError, PROBATION, PendingQuery, PostedInput,
};
use loopwright_core::message::{Message, MessageId, ResultStatus, RunId, UserMessage};
use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{GenericAgent, Memory, RunContext, SessionStore};
use loopwright_durable::{Cluster, ClusterError, ClusterEvents, HandOver, Leases, agents_from_fn};
use loopwright_patterns::PiPattern;
use serde_json::json;
use tokio::time::Instant;

pub(crate) async fn worker(store: &InMemoryStore, agent: &GenericAgent) -> Cluster {
    let leases = Leases::with_sweep(Duration::from_millis(50));
    let builder = Cluster::builder(store.clone(), agent.clone()).placement(leases);
    builder.idle_timeout(Duration::from_millis(50)).start().await.unwrap()
}

pub(crate) fn agent(replies: impl IntoIterator<Item = Script>) -> GenericAgent {
    GenericAgent::builder(ScriptedModel::new(replies), PiPattern).build().unwrap()
}

/// Reads events up to the end of a run, and returns its text.
pub(crate) async fn until_end(events: &mut ClusterEvents) -> (Vec<Arc<Envelope>>, String) {
    let mut seen = Vec::new();
    loop {
        let event = events.next().await.unwrap().unwrap();
        seen.push(event.clone());
        if let AgentEvent::AgentEnd(outcome) = &event.event {
            return (seen, outcome.text.clone());
        }
    }
}

/// Waits until no worker has a session open.
pub(crate) async fn until_closed(store: &InMemoryStore, session: &str) {
    while store.in_use(session).await.unwrap() == Some(true) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn numbers(events: &[Arc<Envelope>]) -> Vec<u64> {
    let all: BTreeSet<u64> = events.iter().map(|event| event.seq).collect();
    all.into_iter().collect()
}

/// C336: any worker takes an input, and the session leaves memory when it has nothing to do.
#[tokio::test(start_paused = true)]
async fn an_input_through_any_worker_is_handled_once() {
    let store = InMemoryStore::new();
    let agent = agent([Script::text("One."), Script::text("Two.")]);
    let (a, b) = (worker(&store, &agent).await, worker(&store, &agent).await);
    let mut events = b.session("s").events(0); // it does not exist yet

    let request = InputEvent::UserRequest("first".into()).with_id("i1");
    a.session("s").post(request.clone()).await.unwrap();
    assert_eq!(until_end(&mut events).await.1, "One.");
    until_closed(&store, "s").await;
    assert_eq!(b.session("s").post(request).await.unwrap(), "i1".into());
    b.session("s").prompt("second").await.unwrap();
    assert_eq!(until_end(&mut events).await.1, "Two.");

    let queued = |entry: &LogEntry| matches!(entry, LogEntry::Queued { .. });
    let log = store.read("s", 0).await.unwrap();
    assert_eq!(log.iter().filter(|entry| queued(entry)).count(), 2, "{log:#?}");
    until_closed(&store, "s").await;
    let info = a.session("s").info().await.unwrap();
    assert_eq!((info.due, info.unread), (None, 0));
}

/// C336: decisions and aborts reach an idle session through any worker, and refusals come back.
#[tokio::test(start_paused = true)]
async fn an_approval_is_given_through_another_worker_after_the_session_has_left_memory() {
    let store = InMemoryStore::new();
    let tool = TestTool::new("pay").effect(Effect::AtMostOnce).answers("paid");
    let model = ScriptedModel::new([
        Script::calls([("c1", "pay", json!({}))]),
        Script::text("Done."),
        Script::calls([("c2", "pay", json!({}))]),
    ]);
    let agent = GenericAgent::builder(model, PiPattern).tool(tool.clone()).build().unwrap();
    let (a, b) = (worker(&store, &agent).await, worker(&store, &agent).await);
    a.session("s").prompt("Pay.").await.unwrap();
    let mut events = b.session("s").events(0);
    until_end(&mut events).await;
    until_closed(&store, "s").await;

    let pending = b.pending(&PendingQuery::all()).await.unwrap().actions;
    let action = pending[0].action.clone();
    b.session("s").approve(&action).await.unwrap();
    assert_eq!(until_end(&mut events).await.1, "Done.");
    assert_eq!(tool.ran(), 1);
    let repeated = a.session("s").approve(&action).await;
    assert!(
        matches!(repeated, Err(ClusterError::Input(InputError::NotPending(_)))),
        "{repeated:?}"
    );

    a.session("s").prompt("Pay again.").await.unwrap();
    until_end(&mut events).await;
    b.session("s").abort().await.unwrap();
    let (_, text) = until_end(&mut events).await;
    assert_eq!((text.as_str(), tool.ran()), ("", 1));
    let nothing = b.session("none").abort().await;
    assert!(matches!(nothing, Err(ClusterError::Memory(MemoryError::NoSession(_)))), "{nothing:?}");
}

/// C336: a session opened for nothing is closed at once, and a session with work a while later.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_opened_for_nothing_is_closed_at_once() {
    let store = InMemoryStore::new();
    let idle_timeout = Duration::from_secs(600);
    let builder = Cluster::builder(store.clone(), agent([Script::text("One.")]));
    let cluster = builder.idle_timeout(idle_timeout).start().await.unwrap();
    let openings = async || {
        let log = store.read("s", 0).await.unwrap();
        log.iter().filter(|entry| matches!(entry, LogEntry::Opened { .. })).count()
    };
    let start = Instant::now();
    cluster.session("s").prompt("first").await.unwrap();
    until_end(&mut cluster.session("s").events(0)).await;
    until_closed(&store, "s").await;
    assert!(start.elapsed() >= idle_timeout);

    let (start, before) = (Instant::now(), openings().await);
    cluster.wake("s").await.unwrap();
    while openings().await == before || store.in_use("s").await.unwrap() == Some(true) {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() < idle_timeout / 2, "{:?}", start.elapsed());
}

/// C337: a run left by a dead process is continued without a request.
#[tokio::test(start_paused = true)]
async fn an_interrupted_run_is_continued_by_the_sweep() {
    let store = InMemoryStore::new();
    let never = agent([Script::new().hang()]);
    let (handle, events) =
        never.run(RunContext::new().stored(&store, "s").await.unwrap()).await.unwrap();
    let prompting = handle.clone();
    let run = tokio::spawn(async move { prompting.prompt("Hello").await });
    while !handle.state().await.unwrap().is_streaming {
        tokio::task::yield_now().await;
    }
    // The log that another process would find after this one was killed.
    let log = store.read("s", 0).await.unwrap();
    let store = InMemoryStore::new();
    store.open("s").await.unwrap().append(0, log.into()).await.unwrap();
    run.abort();
    drop((handle, events));
    // A request posted meanwhile does not end the run: it waits.
    let request = InputEvent::UserRequest("And then?".into());
    store.post("s", &PostedInput::new("later", request).unwrap()).await.unwrap();

    let replies = [Script::text("Hello again."), Script::text("Goodbye.")];
    let cluster = worker(&store, &agent(replies)).await;
    let mut events = cluster.session("s").events(0);
    assert_eq!(until_end(&mut events).await.1, "Hello again.");
    assert_eq!(until_end(&mut events).await.1, "Goodbye.");
}

/// Returns the log of a session whose process was killed during a request.
fn killed() -> Vec<LogEntry> {
    let message = Message::new(MessageId(1), UserMessage::from("Hello"));
    vec![
        LogEntry::Opened { epoch: 1, time: 1, parent: None, owner: None },
        LogEntry::Queued {
            input: "i".into(),
            kind: QueueKind::Request,
            urgency: Urgency::default(),
            message: message.into(),
            output: None,
            principal: None,
        },
        LogEntry::RunStarted {
            run: RunId(1),
            cause: RunCause::UserRequest("i".into()),
            time: 1,
            trace: None,
        },
        LogEntry::Delivered { input: "i".into() },
    ]
}

/// C401: a worker opens sessions that have lost an owner one after the other: each when the one
/// before has made progress, or after a second. Meanwhile other workers can open them.
#[tokio::test(start_paused = true)]
async fn sessions_that_have_lost_an_owner_are_opened_one_after_the_other() {
    let store = InMemoryStore::new();
    for session in ["a", "b"] {
        store.open(session).await.unwrap().append(0, killed().into()).await.unwrap();
    }
    let store: Arc<dyn SessionStore> = Arc::new(store);
    let (here, there) = (HandOver::new(), HandOver::new());
    let (a, b) = (Arc::from("a"), Arc::from("b"));
    let opened =
        |epoch| Arc::from([LogEntry::Opened { epoch, time: 1, parent: None, owner: None }]);
    let first = here.open(&store, &a).await.unwrap();
    first.append(4, opened(2)).await.unwrap();
    assert_eq!(here.open(&store, &b).await.err(), Some(MemoryError::InUse(b.clone())));
    let other = there.open(&store, &b).await.unwrap();
    other.close().await;
    drop(other);
    let note = LogEntry::Owner { note: OwnerNote::Left };
    first.append(5, Arc::from([note])).await.unwrap();
    assert!(here.open(&store, &b).await.is_ok());

    // The owner writes that note itself.
    let store = InMemoryStore::new();
    for session in ["a", "b"] {
        store.open(session).await.unwrap().append(0, killed().into()).await.unwrap();
    }
    let start = Instant::now();
    let _cluster = worker(&store, &agent([Script::new().hang(), Script::new().hang()])).await;
    let openings = async || {
        let mut logs = 0;
        for session in ["a", "b"] {
            logs += usize::from(store.read(session, 0).await.unwrap().len() > 4);
        }
        logs
    };
    while openings().await < 2 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert!(start.elapsed() >= PROBATION, "{:?}", start.elapsed());
    assert!(start.elapsed() < PROBATION * 2, "{:?}", start.elapsed());
}

/// C401: a session that is handed over before it has made progress has not lost an owner.
#[tokio::test(start_paused = true)]
async fn a_session_that_is_handed_over_has_lost_no_owner() {
    let store = InMemoryStore::new();
    store.open("s").await.unwrap().append(0, killed().into()).await.unwrap();
    for _ in 0..4 {
        let hand_over = HandOver::new();
        let shared: Arc<dyn SessionStore> = Arc::new(store.clone());
        let memory = hand_over.open(&shared, &"s".into()).await.unwrap();
        hand_over.start();
        let cx = RunContext::new().session("s").memory(memory).continue_interrupted();
        let (handle, mut events) = agent([Script::text("never")]).run(cx).await.unwrap();
        while events.next().await.is_some() {}
        drop(handle);
        assert_eq!(events.end(), Some(StreamEnd::Moved));
    }
    let info = store.session("s").await.unwrap();
    assert_eq!((info.held, info.run), (None, Some(RunId(1))));
    let _cluster = worker(&store, &agent([Script::text("Hello again.")])).await;
    while store.session("s").await.unwrap().run.is_some() {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// C338: a worker that shuts down completes the turn of each session, and another one continues the
/// run. A reader sees each event once.
#[tokio::test(start_paused = true)]
async fn a_drain_hands_sessions_over_between_turns() {
    let store = InMemoryStore::new();
    let gate = Gate::new();
    let tool = TestTool::new("mow").effect(Effect::AtMostOnce).waits(&gate);
    let model = ScriptedModel::new([
        Script::calls([("c1", "mow", json!({}))]),
        Script::text("The meadow is mown."),
    ]);
    let agent = GenericAgent::builder(model.clone(), PiPattern)
        .tool(tool.clone())
        .approve(["mow"])
        .build()
        .unwrap();
    let a = worker(&store, &agent).await;
    let mut at_a = a.session("s").events(0);
    a.session("s").prompt("Mow the meadow.").await.unwrap();
    let mut seen = Vec::new();
    loop {
        let event = at_a.next().await.unwrap().unwrap();
        seen.push(event.clone());
        if matches!(event.event, AgentEvent::ToolExecutionStart { .. }) {
            break;
        }
    }
    let b = worker(&store, &agent).await;
    let draining = tokio::spawn({
        let a = a.clone();
        async move { a.drain(Duration::from_secs(600)).await }
    });
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert!(!draining.is_finished(), "the tool runs");
    gate.open();
    draining.await.unwrap();
    let (rest, text) = until_end(&mut at_a).await; // also by the worker that was drained
    seen.extend(rest);
    assert_eq!(text, "The meadow is mown.");
    assert_eq!((tool.ran(), model.requests().len()), (1, 2));
    let log = store.read("s", 0).await.unwrap();
    let openings = log.iter().filter(|entry| matches!(entry, LogEntry::Opened { .. })).count();
    assert!(openings >= 2, "{log:#?}");
    loopwright_core::log::check_log(&log).unwrap();
    let results = log.iter().filter_map(|entry| entry.message()?.as_tool_result());
    let results: Vec<ResultStatus> = results.map(|result| result.status).collect();
    assert_eq!(results, [ResultStatus::Ok], "the result is not lost with the request");

    let expected: Vec<u64> = (1..=seen.last().unwrap().seq).collect();
    assert_eq!(numbers(&seen), expected);
    let (all, _) = until_end(&mut b.session("s").events(0)).await;
    assert_eq!(numbers(&all), expected);
    a.session("s").prompt("More.").await.unwrap(); // the other worker takes it
}

/// C336: each session has the agent named in its settings. A session without an agent is left
/// alone.
#[tokio::test(start_paused = true)]
async fn the_agent_is_chosen_by_the_session() {
    let store = InMemoryStore::new();
    let named = |name: &'static str| agent([Script::text(name)]);
    for name in ["shepherd", "farmer", "nobody"] {
        let cx = RunContext::new().stored(&store, name).await.unwrap();
        let (handle, _events) = named(name).run(cx.settings(json!(name))).await.unwrap();
        handle.close().await;
    }
    let agents = agents_from_fn(move |session| {
        let name = session.settings.as_deref().and_then(|name| name.as_str().map(str::to_owned));
        let agent = match name.as_deref() {
            Some("shepherd") => Ok(named("I am the shepherd.")),
            Some("farmer") => Ok(named("I am the farmer.")),
            other => Err(ClusterError::NoAgent(format!("there is no agent {other:?}"))),
        };
        async { agent }
    });
    let leases = Leases::with_sweep(Duration::from_millis(50));
    let cluster = Cluster::builder(store.clone(), agents).placement(leases).start().await.unwrap();
    for name in ["shepherd", "farmer", "nobody"] {
        cluster.session(name).prompt("Who are you?").await.unwrap();
    }
    for name in ["shepherd", "farmer"] {
        let mut events = cluster.session(name).events(0);
        assert_eq!(until_end(&mut events).await.1, format!("I am the {name}."));
    }
    let info = cluster.session("nobody").info().await.unwrap();
    assert_eq!((info.unread, info.run), (1, None));
}

/// C336: an event stream of a deleted session ends, and waking does not bring it back.
#[tokio::test(start_paused = true)]
async fn the_events_of_a_deleted_session_end() {
    let store = InMemoryStore::new();
    let cluster = worker(&store, &agent([Script::text("One.")])).await;
    cluster.session("s").post(InputEvent::UserRequest("Hello".into())).await.unwrap();
    let mut events = cluster.session("s").events(0);
    until_end(&mut events).await;
    until_closed(&store, "s").await;
    store.delete("s").await.unwrap();
    cluster.wake("s").await.unwrap(); // does not create it
    while let Some(event) = events.next().await {
        event.unwrap();
    }
    cluster.drain(Duration::from_secs(10)).await;
    let missing = store.session("s").await;
    assert_eq!(missing, Err(MemoryError::NoSession("s".into())));
}
