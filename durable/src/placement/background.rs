//! Background tasks of a placement, from its start to its stop.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio_util::sync::CancellationToken;
#[cfg(feature = "restate")]
use tokio_util::sync::WaitForCancellationFutureOwned;
use tokio_util::task::TaskTracker;

use crate::error::PlacementError;

/// The tasks of a placement.
#[derive(Default)]
pub(super) struct Background {
    is_started: AtomicBool,
    stopped: CancellationToken,
    tasks: TaskTracker,
}

impl Background {
    /// Marks the start. A placement belongs to one worker, and starts once.
    pub(super) fn start(&self) -> Result<(), PlacementError> {
        match self.is_started.swap(true, Ordering::Relaxed) {
            true => Err(PlacementError::new(
                "the placement was started before: build one for each cluster and each attempt",
            )),
            false => Ok(()),
        }
    }

    /// Runs a task. [`stop`](Background::stop) waits for its end.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(task);
    }

    /// Repeats a task, with this pause, until the stop.
    pub(super) fn repeat<F, R>(&self, pause: Duration, task: F)
    where
        F: Fn() -> R + Send + Sync + 'static,
        R: Future<Output = ()> + Send,
    {
        let stopped = self.stopped.clone();
        self.spawn(async move {
            let repeated = async {
                loop {
                    task().await;
                    tokio::time::sleep(pause).await;
                }
            };
            stopped.run_until_cancelled(repeated).await;
        });
    }

    /// Resolves at the stop.
    #[cfg(feature = "restate")]
    pub(super) fn stopped(&self) -> WaitForCancellationFutureOwned {
        self.stopped.clone().cancelled_owned()
    }

    /// Ends repeated tasks, and waits until all tasks have ended.
    pub(super) async fn stop(&self) {
        self.stopped.cancel();
        self.tasks.close();
        self.tasks.wait().await;
    }
}
