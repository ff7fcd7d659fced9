//! [`Heartbeat`]: the time that the only worker of a runtime is busy without a pause.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{MissedTickBehavior, interval};

/// The interval between two beats.
const INTERVAL: Duration = Duration::from_millis(1);

/// A task that is due each millisecond. The time that other tasks use between two beats is the time
/// of the longest poll, plus at most a millisecond.
///
/// Processor time is measured, so that other processes of the machine make no difference.
pub(crate) struct Heartbeat {
    max_gap: Arc<Mutex<Gap>>,
    beats: watch::Receiver<u64>,
    runtime: Handle,
}

/// The time used between two beats.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Gap {
    /// The processor time of the worker.
    pub(crate) worker: Duration,
    /// The processor time of the whole process, but not more than the elapsed time. This includes
    /// threads that the worker waited for, and unrelated threads that ran at the same time.
    pub(crate) process: Duration,
}

impl Heartbeat {
    /// Starts the heartbeat in a runtime with one worker.
    pub(crate) fn start(runtime: Handle) -> Self {
        let max_gap = Arc::new(Mutex::new(Gap::default()));
        let (beat, beats) = watch::channel(0);
        let gaps = max_gap.clone();
        runtime.spawn(async move {
            let mut ticks = interval(INTERVAL);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            let mut last = Times::now();
            loop {
                ticks.tick().await;
                let now = Times::now();
                let gap = now.since(&last);
                {
                    let mut max_gap = gaps.lock().unwrap();
                    max_gap.worker = max_gap.worker.max(gap.worker);
                    max_gap.process = max_gap.process.max(gap.process);
                }
                beat.send_modify(|beats| *beats += 1);
                last = Times::now();
            }
        });
        Heartbeat { max_gap, beats, runtime }
    }

    /// Returns the longest times since the last call.
    pub(crate) fn take(&mut self) -> Gap {
        let next = *self.beats.borrow_and_update() + 2;
        self.runtime.block_on(self.beats.wait_for(|beats| *beats >= next)).unwrap();
        std::mem::take(&mut *self.max_gap.lock().unwrap())
    }
}

/// The clocks at one time.
struct Times {
    worker: Duration,
    process: Duration,
    wall: Duration,
}

impl Times {
    fn now() -> Self {
        Times {
            worker: read(ClockId::ThreadCPUTime),
            process: read(ClockId::ProcessCPUTime),
            wall: read(ClockId::Monotonic),
        }
    }

    fn since(&self, earlier: &Times) -> Gap {
        let (process, wall) = (self.process - earlier.process, self.wall - earlier.wall);
        Gap { worker: self.worker - earlier.worker, process: process.min(wall) }
    }
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.try_into().unwrap())
}
