//! A long run of an agent, to check that the process does not grow: `cargo bench --bench soak`, or
//! a tenth of it with `-- --quick`.
//!
//! Three phases, each on one `Sqlite` store and on a runtime with two workers:
//!
//! - `turns`: 20,000 turns, each with a tool call, in sessions of 100 turns;
//! - `sessions`: 5,000 sessions that are opened for a request, closed, opened again and closed;
//! - `steers`: 100,000 steers, 50 during each tool call, in sessions of 1,000 steers. Each is
//!   delivered in the run.
//!
//! Four sessions are open at the same time, and every event is read. An open session keeps its
//! conversation in RAM, which must grow with each turn. The turns are therefore spread over
//! sessions, and the process is measured while no session is open: at the start of a phase, after a
//! tenth of it, and at its end. The exit code is 1 if, between the last two,
//!
//! - the resident memory grows by more than 8 MiB, which SQLite's page caches and the allocator can
//!   still need: 90 bytes per steer, 470 per turn, and less than two KiB per session; or
//! - the number of threads grows at all: the blocking threads of the runtime, which are started on
//!   demand and kept, are all started first; or
//! - the number of descriptors grows by more than 8: the store opens connections for readers when
//!   that many reads happen at once, and keeps them.
//!
//! Words after `--` select phases. Needs `/proc`, so Linux.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a benchmark that goes wrong should stop"
)]

mod agent;
mod process;

use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use agent::Steer;
use futures::future::join_all;
use loopwright_core::event::{Prompt, RunStatus, StreamEnd};
use loopwright_core::log::LogEntry;
use loopwright_core::serde_json::Value;
use loopwright_core::{AgentEvent, EventStream, GenericAgent, RunContext, SessionStore};
use loopwright_memory::Sqlite;
use process::{Phase, Usage};

/// The allocator of the binary `loopwright`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// The maximum growth of the process after the warm-up of a phase, in KiB.
const MAX_GROWTH_KIB: u64 = 8 * 1024;
/// The number of sessions that are open at the same time.
const SESSIONS_AT_ONCE: usize = 4;
/// The number of threads on which the store reads, and of the connections that it keeps for them.
const READERS: usize = 4;

const TURNS_PER_SESSION: usize = 100;
const STEERS_PER_SESSION: usize = 1_000;
const STEERS_PER_CALL: usize = 50;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let parts: Vec<&str> =
        args.iter().map(String::as_str).filter(|arg| !arg.starts_with('-')).collect();
    let share = if args.iter().any(|arg| arg == "--quick") { 10 } else { 1 };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(READERS)
        .thread_keep_alive(Duration::MAX)
        .enable_all()
        .build()
        .unwrap();
    let phases = [
        Soak::new("turns", 20_000 / share, TURNS_PER_SESSION, TURNS_PER_SESSION),
        Soak::new("sessions", 5_000 / share, 1, 1),
        Soak::new(
            "steers",
            100_000 / share,
            STEERS_PER_SESSION,
            STEERS_PER_SESSION / STEERS_PER_CALL + 1,
        ),
    ];
    let chosen = phases.iter().filter(|soak| parts.is_empty() || parts.contains(&soak.unit));
    let measured: Vec<Phase> = chosen.map(|soak| runtime.block_on(soak.run())).collect();
    process::print(&measured);
    let grown: Vec<String> = measured.iter().flat_map(|m| m.growth(MAX_GROWTH_KIB)).collect();
    grown.iter().for_each(|line| println!("{line}"));
    if grown.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// A phase: a number of sessions of the same kind.
struct Soak {
    /// The name of the counted unit.
    unit: &'static str,
    count: usize,
    sessions: usize,
    agent: GenericAgent,
}

impl Soak {
    fn new(unit: &'static str, count: usize, per_session: usize, turns: usize) -> Self {
        Soak { unit, count, sessions: count / per_session, agent: agent::agent(turns) }
    }

    async fn run(&self) -> Phase {
        let folder = tempfile::tempdir().unwrap();
        let store = Sqlite::open(folder.path().join("sessions.db")).unwrap();
        start_readers(&store).await;
        let (started, begin) = (Instant::now(), Usage::now());
        let counted = self.use_sessions(&store, 0, self.sessions / 10).await;
        let warm = Usage::now();
        let counted = counted + self.use_sessions(&store, self.sessions / 10, self.sessions).await;
        assert_eq!(counted, self.count, "{} in the events", self.unit);
        let (end, seconds) = (Usage::now(), started.elapsed().as_secs_f64());
        assert_eq!(store.sessions().await.unwrap().len(), self.sessions + 1);
        Phase { name: format!("{} {}", self.count, self.unit), start: begin, warm, end, seconds }
    }

    /// Uses sessions, some at the same time. Returns the number of units in their events.
    async fn use_sessions(&self, store: &Sqlite, from: usize, to: usize) -> usize {
        let next = AtomicUsize::new(from);
        let worker = async || {
            let mut counted = 0;
            loop {
                let n = next.fetch_add(1, Relaxed);
                if n >= to {
                    return counted;
                }
                counted += self.use_session(store, &format!("{}-{n}", self.unit)).await;
            }
        };
        join_all((0..SESSIONS_AT_ONCE).map(|_| worker())).await.into_iter().sum()
    }

    async fn use_session(&self, store: &Sqlite, id: &str) -> usize {
        let context = RunContext::new().stored(store, id).await.unwrap();
        let (handle, events) = self.agent.run(context).await.unwrap();
        let reader = tokio::spawn(count(events));
        let to_steer = Arc::new(Mutex::new(Some(handle.clone())));
        let mut prompt = Prompt::from("Work until done.");
        if self.unit == "steers" {
            prompt = prompt.with(Steer { handle: to_steer.clone(), per_call: STEERS_PER_CALL });
        }
        let outcome = handle.prompt(prompt).await.unwrap();
        assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
        to_steer.lock().unwrap().take();
        drop(handle);
        let counts = reader.await.unwrap();
        match self.unit {
            "turns" => counts.turns,
            "steers" => counts.delivered,
            _ => {
                let context = RunContext::new().stored(store, id).await.unwrap();
                let (handle, events) = self.agent.run(context).await.unwrap();
                assert_eq!(handle.state().await.unwrap().messages.len(), 2);
                drop(handle);
                assert_eq!(count(events).await.turns, 0);
                1
            }
        }
    }
}

/// Counts from the events of a session.
#[derive(Default)]
struct Counts {
    turns: usize,
    /// The steers that were queued and delivered.
    delivered: usize,
}

/// Reads all events until the session has ended.
async fn count(mut events: EventStream) -> Counts {
    let (mut counts, mut added) = (Counts::default(), 0);
    while let Some(event) = events.next().await {
        match &event.event {
            AgentEvent::TurnEnd { .. } => counts.turns += 1,
            AgentEvent::QueueUpdate { added: new, removed } => {
                added += usize::from(new.is_some());
                counts.delivered += removed.len();
            }
            AgentEvent::AgentEnd(outcome) => assert_eq!(outcome.handed_back, [""; 0]),
            _ => {}
        }
    }
    assert!(events.end() != Some(StreamEnd::Lagged));
    assert_eq!(added, counts.delivered, "every steer is delivered");
    counts
}

/// Starts the threads and the connections for reads, and fills their page caches. It searches a
/// session that almost fills a cache, once per thread at the same time.
async fn start_readers(store: &Sqlite) {
    let text: Arc<Value> = Arc::new("x".repeat(32 * 1024).into());
    let memory = store.open("filler").await.unwrap();
    for at in 0..48 {
        let entry = LogEntry::Emitted { kind: "filler".into(), data: text.clone() };
        memory.append(at, [entry].into()).await.unwrap();
    }
    drop(memory);
    for _ in 0..10 {
        for found in join_all((0..READERS).map(|_| store.search("nothing", 1))).await {
            assert_eq!(found.unwrap(), []);
        }
    }
}
