//! The crash matrix: processes that work on sessions are killed, by chance and between any two
//! writes, and started again until all is done. `LOOPWRIGHT_KILLS` says how many are killed by
//! chance (200), `LOOPWRIGHT_SEED` repeats a seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod case;
mod check;
mod child;
mod scenario;
mod stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::{Case, End, Place};
use child::Death;
use loopwright_core::log::LogEntry;
use loopwright_core::message::ResultStatus;
use scenario::{SCENARIOS, number};
use stores::Kind;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

/// Sessions at a time; their processes wait more than they work.
const WORKERS: usize = 4;

/// The process that is killed. The other tests start it, with orders.
#[tokio::test]
#[ignore = "the other tests start it"]
async fn child() {
    child::live().await;
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name)
        .ok()
        .map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Waits for all; the first failure is the test's.
async fn all(mut cases: JoinSet<()>) {
    while let Some(done) = cases.join_next().await {
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
}

/// C89: processes are killed at random moments; no item that was told of is lost, no once-only tool
/// runs twice, no message is delivered twice, every call is answered once, and events replay to the
/// same messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_moments_lose_and_repeat_nothing() {
    let kills = from_env("LOOPWRIGHT_KILLS").unwrap_or(200) as usize;
    let time = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .expect("a clock")
        .as_nanos() as u64;
    let seed = from_env("LOOPWRIGHT_SEED").unwrap_or(time);
    println!("LOOPWRIGHT_SEED={seed} LOOPWRIGHT_KILLS={kills}");
    let place = Arc::new(Place::new(&format!("LOOPWRIGHT_SEED={seed}")));
    let (killed, next) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    for _ in 0..WORKERS {
        let (place, killed, next) = (place.clone(), killed.clone(), next.clone());
        workers.spawn(async move {
            while killed.load(Ordering::Relaxed) < kills {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let (store, scenario) =
                    (Kind::ALL[n % Kind::ALL.len()], n / Kind::ALL.len() % SCENARIOS.len());
                let mut case = Case::new(
                    &place,
                    store,
                    scenario,
                    &format!("random-{n}"),
                    seed ^ (n as u64) << 32,
                );
                let (_, time) = place.undisturbed(store, scenario).await;
                for life in 0.. {
                    if life == 50 {
                        case.finish().await; // the kills come sooner than anything gets done
                        break;
                    }
                    let moment = time.mul_f64(case.random() as f64 / u64::MAX as f64);
                    match case.live(Some(moment), None).await {
                        End::Killed => drop(killed.fetch_add(1, Ordering::Relaxed)),
                        End::Done => break,
                    }
                }
            }
        });
    }
    all(workers).await;
    println!("{:?}", place.seen.lock().expect("no test has failed"));
    println!(
        "{} kills in {} sessions",
        killed.load(Ordering::Relaxed),
        next.load(Ordering::Relaxed)
    );
}

/// C90: a kill right before and right after every write of every scenario.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_any_two_writes_loses_and_repeats_nothing() {
    let place = Arc::new(Place::new("every write"));
    let turns = Arc::new(Semaphore::new(2 * WORKERS));
    let mut cases = JoinSet::new();
    for (store, scenario, after) in every_case() {
        let (place, turns) = (place.clone(), turns.clone());
        cases.spawn(async move {
            let _turn = turns.acquire().await.expect("it is never closed");
            let name = SCENARIOS[scenario].name;
            for n in 1.. {
                let death = if after { Death::After(n) } else { Death::Before(n) };
                let mut case = Case::new(&place, store, scenario, &format!("{name}-{death:?}"), n);
                if let End::Done = case.live(None, Some(death)).await {
                    assert!(n > 10, "{name} has at least ten writes");
                    break;
                }
                case.finish().await;
            }
        });
    }
    all(cases).await;
    let calls = ["Aborted", "Denied", "Ok", "OutcomeUnknown", "Skipped"]
        .map(|status| format!("call {status}"));
    let compactions =
        ["Asked { instructions: None }", "Threshold"].map(|why| format!("compacted {why}"));
    let seen = place.seen.lock().expect("no test has failed");
    assert!(calls.iter().chain(&compactions).all(|wanted| seen.contains(wanted)), "{seen:?}");
}

fn every_case() -> impl Iterator<Item = (Kind, usize, bool)> {
    let scenarios = Kind::ALL
        .into_iter()
        .flat_map(|store| (0..SCENARIOS.len()).map(move |scenario| (store, scenario)));
    scenarios.flat_map(|(store, scenario)| [(store, scenario, false), (store, scenario, true)])
}

/// The processes that began `pay`, in order, and its status in the log.
fn paid(case: &Case) -> (Vec<u32>, Option<ResultStatus>) {
    let ran = case.notes().ran.into_iter();
    let began =
        ran.filter(|ran| ran.tool == "pay" && ran.what == "begin").map(|ran| ran.pid).collect();
    let mut results = case.items.iter().filter_map(|item| match item {
        LogEntry::CallFinished { result } => {
            result.as_tool_result().filter(|result| *result.name == *"pay")
        }
        _ => None,
    });
    (began, results.next().map(|result| result.status))
}

/// C91: a process asks and is killed, another one approves: the tool runs once, in the approving
/// process. Where that one is killed too, a third goes on: what had not begun runs there, what may
/// have run is not repeated.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_process_approves_what_a_killed_one_asked() {
    let place = Arc::new(Place::new("approvals"));
    let at = |kind: &str, after: bool| {
        if after { Death::AfterItem(kind.into()) } else { Death::BeforeItem(kind.into()) }
    };
    for store in Kind::ALL {
        let asked = async |name: &str| {
            let mut case = Case::new(&place, store, number("payment"), name, 1);
            case.ask_and_kill().await;
            assert_eq!(paid(&case), (vec![], None), "nothing is paid before somebody says so");
            case
        };
        let mut case = asked("approved").await;
        case.finish().await;
        assert_eq!(paid(&case), (vec![case.pid], Some(ResultStatus::Ok)));

        let before_effect = [("decided", false), ("decided", true), ("call_started", false)];
        for (n, (kind, after)) in before_effect.into_iter().enumerate() {
            let mut case = asked(&format!("before-{n}")).await;
            assert_eq!(case.live(None, Some(at(kind, after))).await, End::Killed);
            assert_eq!(paid(&case), (vec![], None), "killed before the effect");
            case.finish().await;
            assert_eq!(
                paid(&case),
                (vec![case.pid], Some(ResultStatus::Ok)),
                "the third process pays"
            );
        }

        let mut case = asked("recorded").await;
        assert_eq!(case.live(None, Some(at("call_started", true))).await, End::Killed);
        case.finish().await;
        assert_eq!(paid(&case), (vec![], Some(ResultStatus::OutcomeUnknown)), "it may have run");

        let mut case = asked("paid").await;
        assert_eq!(case.live(None, Some(at("call_finished", false))).await, End::Killed);
        let second = case.pid;
        case.finish().await;
        assert_eq!(paid(&case), (vec![second], Some(ResultStatus::OutcomeUnknown)), "paid once");

        let mut case = asked("finished").await;
        assert_eq!(case.live(None, Some(at("call_finished", true))).await, End::Killed);
        let second = case.pid;
        case.finish().await;
        assert_eq!(paid(&case), (vec![second], Some(ResultStatus::Ok)), "paid once, and known");
    }
}
