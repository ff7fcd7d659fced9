//! The crash matrix: processes that work on sessions are killed, at random and between any two
//! writes, and restarted until all work is done.
//!
//! - `LOOPWRIGHT_KILLS`: the number of random kills of processes without sub-agents and of
//!   processes with them, 200 by default. Also the number of messages, at most 1,000, to processes
//!   that share a session.
//! - `LOOPWRIGHT_SEED`: repeats a seed.
//! - `LOOPWRIGHT_STORE=postgres`: tests the store in PostgreSQL instead of the stores in files.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod case;
mod check;
mod child;
mod families;
mod family;
mod poster;
mod posters;
mod scenario;
mod sleepers;
mod stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::{Case, End, Workspace};
use child::KillPoint;
use loopwright_core::event::OwnerNote;
use loopwright_core::log::LogEntry;
use loopwright_core::message::ResultStatus;
use scenario::{SCENARIOS, number};
use stores::Kind;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// The number of concurrent sessions. Their processes wait more than they work.
const CONCURRENT_SESSIONS: usize = 4;

/// Maximum number of killed processes of a session before one may finish.
const MAX_PROCESSES: usize = 50;

/// Runs in the process that is killed. The other tests start it.
#[tokio::test]
#[ignore = "the other tests start it"]
async fn child() {
    child::run().await;
}

/// Runs in the process with sub-agents that is killed. Another test starts it.
#[tokio::test]
#[ignore = "another test starts it"]
async fn family() {
    family::run().await;
}

/// Runs in one of the processes that share a session. Another test starts them.
#[tokio::test]
#[ignore = "another test starts it"]
async fn poster() {
    poster::run().await;
}

/// Runs in a process that wakes sleeping agents. Another test starts it.
#[tokio::test]
#[ignore = "another test starts it"]
async fn sleeper() {
    sleepers::run().await;
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is not a number: {text}")))
}

/// Returns the number of random kills and the seed.
fn kills_and_seed() -> (usize, u64) {
    let kills = from_env("LOOPWRIGHT_KILLS").unwrap_or(200) as usize;
    let time = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a clock")
        .as_nanos() as u64;
    let seed = from_env("LOOPWRIGHT_SEED").unwrap_or(time);
    println!("LOOPWRIGHT_SEED={seed} LOOPWRIGHT_KILLS={kills}");
    (kills, seed)
}

/// Waits for all cases, and fails with the first failure.
async fn join(mut cases: JoinSet<()>) {
    while let Some(done) = cases.join_next().await {
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
}

/// C92: after kills at random times, no entry whose event was emitted is lost, no once-only tool
/// has run twice, no message is delivered twice, every call has one result, and events replay to
/// the same messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_times_lose_and_repeat_nothing() {
    let (kills, seed) = kills_and_seed();
    let workspace = Arc::new(Workspace::new(&format!("LOOPWRIGHT_SEED={seed}")).await);
    let killed = Arc::new(AtomicUsize::new(0));
    let next = Arc::new(AtomicUsize::new(0));
    let mut workers = JoinSet::new();
    for _ in 0..CONCURRENT_SESSIONS {
        let workspace = workspace.clone();
        let killed = killed.clone();
        let next = next.clone();
        workers.spawn(async move {
            while killed.load(Ordering::Relaxed) < kills {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let store = stores::all()[n % stores::all().len()];
                let scenario = n / stores::all().len() % SCENARIOS.len();
                let mut case = Case::new(
                    &workspace,
                    store,
                    scenario,
                    &format!("random-{n}"),
                    seed ^ (n as u64) << 32,
                );
                let (_, time) = workspace.without_kills(store, scenario).await;
                for process in 0.. {
                    if process == MAX_PROCESSES {
                        case.finish().await; // the kills come too soon for any progress
                        break;
                    }
                    let kill_after = time.mul_f64(case.random() as f64 / u64::MAX as f64);
                    match case.run_process(Some(kill_after), None).await {
                        End::Killed => drop(killed.fetch_add(1, Ordering::Relaxed)),
                        End::Done => break,
                    }
                }
            }
        });
    }
    join(workers).await;
    println!("{:?}", workspace.seen.lock().expect("no test has panicked"));
    println!(
        "{} kills in {} sessions",
        killed.load(Ordering::Relaxed),
        next.load(Ordering::Relaxed)
    );
}

/// C93: kills before and after every write of every scenario lose and repeat nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_any_two_writes_loses_and_repeats_nothing() {
    let workspace = Arc::new(Workspace::new("every write").await);
    let permits = Arc::new(Semaphore::new(2 * CONCURRENT_SESSIONS));
    let mut cases = JoinSet::new();
    for (store, scenario, after) in every_case() {
        let workspace = workspace.clone();
        let permits = permits.clone();
        cases.spawn(async move {
            let _permit = permits.acquire().await.expect("the semaphore is never closed");
            let name = SCENARIOS[scenario].name;
            for n in 1.. {
                let kill = if after { KillPoint::After(n) } else { KillPoint::Before(n) };
                let mut case =
                    Case::new(&workspace, store, scenario, &format!("{name}-{kill:?}"), n);
                if let End::Done = case.run_process(None, Some(kill)).await {
                    let min = if after { 10 } else { 5 }; // joined, as outside of tests
                    assert!(n > min, "{name} has at least {min} writes");
                    break;
                }
                case.finish().await;
            }
        });
    }
    join(cases).await;
    let calls = ["Aborted", "Denied", "Ok", "OutcomeUnknown", "Skipped"]
        .map(|status| format!("call {status}"));
    let compactions =
        ["Asked { instructions: None }", "Threshold"].map(|why| format!("compacted {why}"));
    let seen = workspace.seen.lock().expect("no test has panicked");
    assert!(calls.iter().chain(&compactions).all(|wanted| seen.contains(wanted)), "{seen:?}");
}

fn every_case() -> impl Iterator<Item = (Kind, usize, bool)> {
    let scenarios = stores::all()
        .iter()
        .copied()
        .flat_map(|store| (0..SCENARIOS.len()).map(move |scenario| (store, scenario)));
    scenarios.flat_map(|(store, scenario)| [(store, scenario, false), (store, scenario, true)])
}

/// Returns the processes that started `pay`, in order, and its status in the log.
fn paid(case: &Case) -> (Vec<u32>, Option<ResultStatus>) {
    let ran = case.record().tool_runs.into_iter();
    let started =
        ran.filter(|ran| ran.tool == "pay" && ran.what == "start").map(|ran| ran.pid).collect();
    let mut results = case.entries.iter().filter_map(|entry| match entry {
        LogEntry::CallFinished { result } => {
            result.as_tool_result().filter(|result| *result.name == *"pay")
        }
        _ => None,
    });
    (started, results.next().map(|result| result.status))
}

/// C94: a process requests an approval and is killed, and another one approves: the tool runs once,
/// in the approving process. If that process is killed too, a third continues. A call that had not
/// started runs there; a call that may have run is not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_approves_the_request_of_a_killed_one() {
    let workspace = Arc::new(Workspace::new("approvals").await);
    let at = |kind: &str, after: bool| {
        if after { KillPoint::AfterEntry(kind.into()) } else { KillPoint::BeforeEntry(kind.into()) }
    };
    for &store in stores::all() {
        let awaiting = async |name: &str| {
            let mut case = Case::new(&workspace, store, number("payment"), name, 1);
            case.kill_while_awaiting().await;
            assert_eq!(paid(&case), (vec![], None), "nothing is paid before the approval");
            case
        };
        let mut case = awaiting("approved").await;
        case.finish().await;
        assert_eq!(paid(&case), (vec![case.pid], Some(ResultStatus::Ok)));

        let before_effect = [("decided", false), ("decided", true), ("call_started", false)];
        for (n, (kind, after)) in before_effect.into_iter().enumerate() {
            let mut case = awaiting(&format!("before-{n}")).await;
            assert_eq!(case.run_process(None, Some(at(kind, after))).await, End::Killed);
            assert_eq!(paid(&case), (vec![], None), "killed before the effect");
            case.finish().await;
            assert_eq!(
                paid(&case),
                (vec![case.pid], Some(ResultStatus::Ok)),
                "the third process pays"
            );
        }

        let mut case = awaiting("recorded").await;
        assert_eq!(case.run_process(None, Some(at("call_started", true))).await, End::Killed);
        case.finish().await;
        assert_eq!(paid(&case), (vec![], Some(ResultStatus::OutcomeUnknown)), "it may have run");

        let mut case = awaiting("paid").await;
        assert_eq!(case.run_process(None, Some(at("call_finished", false))).await, End::Killed);
        let second = case.pid;
        case.finish().await;
        assert_eq!(paid(&case), (vec![second], Some(ResultStatus::OutcomeUnknown)), "paid once");

        let mut case = awaiting("finished").await;
        assert_eq!(case.run_process(None, Some(at("call_finished", true))).await, End::Killed);
        let second = case.pid;
        case.finish().await;
        assert_eq!(paid(&case), (vec![second], Some(ResultStatus::Ok)), "paid once, and known");
    }
}

/// C398: a request is held if kills at random times end every process before it makes progress. It
/// is done once a person continues it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_held_request_is_done_when_a_person_continues_it() {
    let workspace = Arc::new(Workspace::new("held").await);
    for &store in stores::all() {
        for (scenario, it) in SCENARIOS.iter().enumerate() {
            let mut case = Case::new(&workspace, store, scenario, &format!("held-{scenario}"), 1);
            let after = |kind: &str| Some(KillPoint::AfterEntry(kind.into()));
            for kind in ["queued", "opened", "opened"] {
                assert_eq!(case.run_process(None, after(kind)).await, End::Killed, "{}", it.name);
            }
            case.finish().await;
            let is_held =
                |entry: &LogEntry| matches!(entry, LogEntry::Owner { note: OwnerNote::Held(_) });
            assert!(case.entries.iter().any(is_held), "{}", it.name);
        }
    }
}
