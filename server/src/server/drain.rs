//! The shutdown of a server in two steps: first no new runs, then no open streams.

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::error::{ApiError, ErrorKind};

/// The shutdown state of a server. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Drain {
    started: CancellationToken,
    finished: CancellationToken,
}

impl Drain {
    /// Stops new runs.
    pub(crate) fn start(&self) {
        self.started.cancel();
    }

    /// Ends all streams of events.
    pub(crate) fn finish(&self) {
        self.finished.cancel();
    }

    /// Returns whether the shutdown has started.
    pub(crate) fn is_draining(&self) -> bool {
        self.started.is_cancelled()
    }

    /// Returns an error if the shutdown has started, for requests that would start a run.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        match self.is_draining() {
            true => Err(ApiError::new(
                ErrorKind::Draining,
                "The server shuts down and takes no new runs: try again soon.",
            )),
            false => Ok(()),
        }
    }

    /// Resolves when the shutdown starts.
    pub(crate) fn started(&self) -> WaitForCancellationFutureOwned {
        self.started.clone().cancelled_owned()
    }

    /// Resolves when no run is in progress, or the grace period is over. Streams must then end.
    pub(crate) fn finished(&self) -> WaitForCancellationFutureOwned {
        self.finished.clone().cancelled_owned()
    }
}
