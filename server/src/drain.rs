//! The end of a server: no new runs, those that go on end or are left to be continued, clients are told.

use std::time::Duration;

use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};

use crate::config::Server;
use crate::error::{ApiError, Kind};

/// Whether the server is about to end.
#[derive(Default)]
pub(crate) struct Drain {
    begun: CancellationToken,
    over: CancellationToken,
}

impl Drain {
    /// From here on nothing new begins.
    pub(crate) fn begin(&self) {
        self.begun.cancel();
    }
    /// Whether it has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.begun.is_cancelled()
    }
    /// Refuses what would begin a run.
    pub(crate) fn check(&self) -> Result<(), ApiError> {
        let why = "The server is about to end and takes no new runs: try again soon.";
        if self.is_draining() { Err(ApiError::new(Kind::Draining, why)) } else { Ok(()) }
    }
    /// Resolves when it begins.
    pub(crate) fn begun(&self) -> WaitForCancellationFutureOwned {
        self.begun.clone().cancelled_owned()
    }
    /// Resolves when the streams of events are to end.
    pub(crate) fn over(&self) -> WaitForCancellationFutureOwned {
        self.over.clone().cancelled_owned()
    }
}

/// Takes no new runs, and gives those of live sessions this long to end. What goes on after that is left: it is in its
/// session's log, where the next process finds it interrupted. Then the streams of events end.
pub(crate) async fn drain(server: &Server, grace: Duration) {
    let shared = server.shared();
    shared.drain.begin();
    if tokio::time::timeout(grace, shared.live.at_rest()).await.is_err() {
        tracing::warn!("runs were cut off by the end of the server; they can be continued");
    }
    shared.drain.over.cancel();
}
