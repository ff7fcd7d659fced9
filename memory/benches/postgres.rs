//! Appends to PostgreSQL, compared with one flush of the same disk: alone, and of many sessions at
//! once; and the waking of a long session. Prints the figures, and fails if they are out of bounds.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a bench may")]

use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::limits::Budget;
use loopwright_core::log::{InMemory, LogEntry, StateScope};
use loopwright_core::message::{MessageId, UserMessage};
use loopwright_core::model::ChatRequest;
use loopwright_core::testing::{Script, ScriptedModel, TestTool};
use loopwright_core::tool::Effect;
use loopwright_core::{GenericAgent, Memory, Message, RunContext, SessionStore};
use loopwright_memory::{Durability, Postgres};
use loopwright_patterns::PiPattern;
use loopwright_test_support::postgres::Server;
use serde_json::json;
use tokio::task::JoinSet;

/// Bound for an append alone, in flushes of the disk. The round trip and the statement take 0.3 ms
/// more, so a disk that flushes in less than a millisecond fails this.
const MAX_FLUSHES: f64 = 1.3;
/// The number of concurrent sessions. Together they make at least `MIN_GAIN` times the appends of
/// one session, and at least `MIN_RATE` appends per second.
const SESSIONS: usize = 64;
const MIN_GAIN: f64 = 5.0;
const MIN_RATE: f64 = 2_000.0;
const ALONE: u64 = 400;
const AT_ONCE: u64 = 150;
/// The number of entries of a long session, which must be awake within `MAX_WAKING`.
const LONG: usize = 3_000;
const WAKINGS: usize = 20;
const MAX_WAKING: Duration = Duration::from_millis(20);

/// Returns alternately a message, which is indexed for searches, and a value.
fn entry(n: u64) -> Arc<[LogEntry]> {
    if n.is_multiple_of(2) {
        let value = Arc::new(json!({ "n": n, "text": "x".repeat(400) }));
        return [LogEntry::State { scope: StateScope::Session, key: "n".into(), value }].into();
    }
    let words = (0..60).map(|word| format!("{:06x} ", (n + 1) * 7_919 * (word + 1) % 0xff_ffff));
    let message = UserMessage::from(words.collect::<String>().as_str());
    [LogEntry::Remembered { message: Arc::new(Message::new(MessageId(n), message)) }].into()
}

fn median(mut times: Vec<Duration>) -> Duration {
    times.sort();
    times[times.len() / 2]
}

/// Returns the times of flushes of 8 KiB, a page of the server's log.
fn flushes(file: &mut File, count: u64) -> Vec<Duration> {
    let flush = |_| {
        let start = Instant::now();
        file.write_all(&[1; 8192]).unwrap();
        file.sync_data().unwrap();
        start.elapsed()
    };
    (0..count).map(flush).collect()
}

/// Appends entries to a session, and returns the time of each append.
async fn append(store: &Postgres, session: &str, count: u64) -> Vec<Duration> {
    let memory: Arc<dyn Memory> = store.open(session).await.unwrap();
    let mut times = Vec::new();
    for n in 0..count {
        let start = Instant::now();
        memory.append(n, entry(n)).await.unwrap();
        times.push(start.elapsed());
    }
    times
}

/// Builds an agent that calls two tools in each turn.
fn agent() -> GenericAgent {
    let turn = |request: &ChatRequest| {
        let n = request.messages.len();
        let text = format!("Turn {n}: {}", "the meadow is wide and green. ".repeat(8));
        let arguments = json!({ "path": format!("src/file-{n}.rs"), "lines": [n, n + 40] });
        Script::text(&text).call(&format!("a{n}"), "look", &arguments.to_string()).call(
            &format!("b{n}"),
            "look",
            &arguments.to_string(),
        )
    };
    let model = ScriptedModel::new([]).discard_requests().reply_with(turn);
    let look =
        TestTool::new("look").effect(Effect::ReadOnly).answers("a line of code\n".repeat(20));
    GenericAgent::builder(model, PiPattern)
        .tool(look)
        .limits(Budget::default().turns(LONG as u32))
        .build()
        .unwrap()
}

/// Stores a conversation with many entries as several sessions.
async fn store_long(store: &Postgres) {
    let source = InMemory::new();
    let (handle, _events) = agent().run(RunContext::new().memory(source.clone())).await.unwrap();
    let running = handle.clone();
    tokio::spawn(async move { running.prompt("Look at everything.").await.map(drop) });
    while source.entries().len() < LONG {
        tokio::task::yield_now().await;
    }
    let entries: Arc<[LogEntry]> = source.entries()[..LONG].into();
    drop(handle);
    for n in 0..WAKINGS {
        let memory = store.open(&format!("long {n}")).await.unwrap();
        memory.append(0, entries.clone()).await.unwrap();
    }
}

/// Returns the time to open a long session and to know its state.
async fn wake(store: &Postgres, session: &str) -> Duration {
    let start = Instant::now();
    let cx = RunContext::new().stored(store, session).await.unwrap();
    let (handle, _events) = agent().run(cx).await.unwrap();
    assert!(handle.state().await.unwrap().messages.len() > LONG / 3);
    let time = start.elapsed();
    handle.close().await;
    time
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let server = Server::start_in(tempfile::tempdir().unwrap(), "");
    let store = Postgres::connect(server.url()).await.unwrap().durability(Durability::Every);
    let mut file = tempfile::tempfile().unwrap();
    drop(append(&store, "warm", 50).await);

    // Alternating, since the speed of the disk varies.
    let (mut alone, mut flushed) = (Vec::new(), Vec::new());
    for n in 0..8 {
        flushed.extend(flushes(&mut file, ALONE / 8));
        alone.extend(append(&store, &format!("alone {n}"), ALONE / 8).await);
    }
    let (alone, flushed) = (median(alone), median(flushed));
    let ratio = alone.as_secs_f64() / flushed.as_secs_f64();
    println!("a flush {flushed:?}, an append alone {alone:?}: {ratio:.2} flushes");

    let (start, mut sessions) = (Instant::now(), JoinSet::new());
    for n in 0..SESSIONS {
        let store = store.clone();
        sessions.spawn(async move { append(&store, &format!("s{n}"), AT_ONCE).await });
    }
    let mut times = Vec::new();
    while let Some(done) = sessions.join_next().await {
        times.extend(done.unwrap());
    }
    let rate = times.len() as f64 / start.elapsed().as_secs_f64();
    let gain = rate * alone.as_secs_f64();
    println!(
        "{SESSIONS} sessions: {rate:.0} appends/s, p50 {:?}; {gain:.1} times one",
        median(times)
    );

    let effects = store.clone().durability(Durability::Effects);
    let times = append(&effects, "effects", ALONE).await;
    println!("an append that need not be on disk: {:?}", median(times));
    store_long(&store).await;
    // The first wake stores a snapshot, which the second one reads.
    let (mut from_log, mut from_snapshot) = (Vec::new(), Vec::new());
    for n in 0..WAKINGS {
        let session = format!("long {n}");
        from_log.push(wake(&store, &session).await);
        from_snapshot.push(wake(&store, &session).await);
    }
    let (from_log, waking) = (median(from_log), median(from_snapshot));
    println!(
        "the waking of a session of {LONG} entries: {waking:?}; without snapshot {from_log:?}"
    );
    assert!(waking <= MAX_WAKING, "a session of {LONG} entries wakes in {waking:?}");
    assert!(waking < from_log, "a snapshot makes waking slower: {from_log:?}");
    assert!(rate >= MIN_RATE, "{SESSIONS} sessions make {rate:.0} appends/s");
    assert!(ratio <= MAX_FLUSHES, "an append takes {ratio:.2} flushes");
    assert!(gain >= MIN_GAIN, "{SESSIONS} sessions make {gain:.1} times the appends of one");
}
