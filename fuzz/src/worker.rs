//! The time that a worker of the runtime is busy with its input.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// The maximum time that a worker may be busy in an optimised build.
const MAX_BUSY: Duration = Duration::from_millis(100);
/// The slowdown of this build, which counts branches and is hardly optimised.
const SLOWDOWN: u32 = 10;
/// The minimum time that is reported.
const LEAST_REPORTED: Duration = Duration::from_millis(20);

/// The maximum time so far, in microseconds.
static MAX_MICROS: AtomicU64 = AtomicU64::new(0);

/// Runs work that a worker does without a pause. Panics if it keeps the worker busy for too long.
///
/// Measures the processor time of the whole process, because a worker can wait for a thread with a
/// larger stack, and other fuzzers share the processors. Nothing else runs in the process.
pub fn on_worker<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let began = busy(ClockId::ProcessCPUTime);
    let result = run();
    check(what, busy(ClockId::ProcessCPUTime).saturating_sub(began));
    result
}

/// Runs a task. Panics if one of its polls keeps the worker busy for too long. Work that the task
/// hands to other threads may take longer.
pub(crate) fn run_task<T>(what: &str, task: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let mut task = pin!(task);
    runtime.expect("a runtime").block_on(std::future::poll_fn(|context: &mut Context<'_>| {
        let began = busy(ClockId::ThreadCPUTime);
        let polled: Poll<T> = task.as_mut().poll(context);
        check(what, busy(ClockId::ThreadCPUTime).saturating_sub(began));
        polled
    }))
}

fn check(what: &str, busy: Duration) {
    let micros = u64::try_from(busy.as_micros()).unwrap_or(u64::MAX);
    if busy > LEAST_REPORTED && MAX_MICROS.fetch_max(micros, Ordering::Relaxed) < micros {
        eprintln!("the longest so far: a worker is busy with {what} for {busy:?}");
    }
    assert!(busy < MAX_BUSY * SLOWDOWN, "a worker is busy with {what} for {busy:?}");
}

fn busy(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or_default())
}
