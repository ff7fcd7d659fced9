//! Stores on failing disks: power failures at any time, calls that fail, small disks, and locks of
//! stopped processes. `LOOPWRIGHT_SEED` repeats a seed.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod check;
mod child;
mod disk;
mod failing_calls;
mod power_cuts;
mod process;
mod random;
mod record;
mod small_disk;
mod stopped_owner;

/// Runs in the process whose disk is recorded or fails. The other tests start it.
#[tokio::test]
#[ignore = "the other tests start it"]
async fn child() {
    child::run().await;
}

/// The number of concurrent test cases.
const CONCURRENT_CASES: usize = 4;

/// Tries cases with several threads. `next` returns the next case, and `None` after the last.
fn for_each_case<T: Send>(next: impl FnMut() -> Option<T> + Send, test: impl AsyncFn(T) + Sync) {
    let next = std::sync::Mutex::new(next);
    std::thread::scope(|scope| {
        for _ in 0..CONCURRENT_CASES {
            scope.spawn(|| {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
                let runtime = runtime.expect("a runtime");
                let take = || next.lock().expect("no test has panicked")();
                while let Some(case) = take() {
                    runtime.block_on(test(case));
                }
            });
        }
    });
}
