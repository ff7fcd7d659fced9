//! The crash matrix: processes that work on sessions are killed, by chance and between any two writes, and started again
//! until all is done. `LOOPWRIGHT_KILLS` says how many are killed by chance (200), `LOOPWRIGHT_SEED` repeats a seed.

mod case;
mod check;
mod child;
mod scenario;
mod stores;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use case::{Case, End, Place};
use child::Death;
use scenario::SCENARIOS;
use stores::Kind;
use tokio::task::JoinSet;

/// The process that is killed. The other tests start it, with orders.
#[tokio::test]
#[ignore = "the other tests start it"]
async fn child() {
    child::live().await;
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is no number: {text}")))
}

/// Waits for all; the first failure is the test's.
async fn all(mut cases: JoinSet<()>) {
    while let Some(done) = cases.join_next().await {
        done.unwrap_or_else(|error| std::panic::resume_unwind(error.into_panic()));
    }
}

/// C89: processes are killed at random moments; no item that was told of is lost, no once-only tool runs twice, no message
/// is delivered twice, every call is answered once, and events replay to the same messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_at_random_moments_lose_and_repeat_nothing() {
    let kills = from_env("LOOPWRIGHT_KILLS").unwrap_or(200) as usize;
    let time = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock").as_nanos() as u64;
    let seed = from_env("LOOPWRIGHT_SEED").unwrap_or(time);
    println!("LOOPWRIGHT_SEED={seed} LOOPWRIGHT_KILLS={kills}");
    let place = Arc::new(Place::new(&format!("LOOPWRIGHT_SEED={seed}")));
    let (killed, next) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut workers = JoinSet::new();
    for _ in 0..2 {
        let (place, killed, next) = (place.clone(), killed.clone(), next.clone());
        workers.spawn(async move {
            while killed.load(Ordering::Relaxed) < kills {
                let n = next.fetch_add(1, Ordering::Relaxed);
                let (store, scenario) = (Kind::ALL[n % Kind::ALL.len()], n / Kind::ALL.len() % SCENARIOS.len());
                let mut case = Case::new(&place, store, scenario, &format!("random-{n}"), seed ^ (n as u64) << 32);
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
    println!("{} kills in {} sessions", killed.load(Ordering::Relaxed), next.load(Ordering::Relaxed));
}

/// C89: a kill right before and right after every write of every scenario.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kill_between_any_two_writes_loses_and_repeats_nothing() {
    let place = Arc::new(Place::new("every write"));
    let mut cases = JoinSet::new();
    for store in Kind::ALL {
        for half in 0..2 {
            let place = place.clone();
            cases.spawn(async move {
                for scenario in 0..SCENARIOS.len() {
                    let name = SCENARIOS[scenario].name;
                    for n in 1.. {
                        let death = if half == 0 { Death::Before(n) } else { Death::After(n) };
                        let mut case = Case::new(&place, store, scenario, &format!("{name}-{half}-{n}"), n);
                        if let End::Done = case.live(None, Some(death)).await {
                            assert!(n > 10, "{name} has at least ten writes");
                            break;
                        }
                        case.finish().await;
                    }
                }
            });
        }
    }
    all(cases).await;
}
