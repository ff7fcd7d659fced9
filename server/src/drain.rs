//! The end of a server: no new runs, those that go on end or are left to be continued, clients are
//! told.

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

    /// Resolves when no run goes on any more, or those that do have no more time: then all streams
    /// end.
    pub(crate) fn over(&self) -> WaitForCancellationFutureOwned {
        self.over.clone().cancelled_owned()
    }
}

impl Server {
    /// Takes no new runs, and gives those that go on this long to end. A run of a live session that
    /// goes on after that is left: it is in its session's log, where the next process finds it
    /// interrupted. One of `/api/agent-chat` is stopped, and its client is told. Then the streams
    /// of events end.
    ///
    /// [`serve`](crate::serve) does it by itself; an app of one's own calls it when it is about to
    /// end.
    pub async fn drain(&self, grace: Duration) {
        let shared = self.shared();
        shared.drain.begin();
        let ended = async { tokio::join!(shared.live.at_rest(), shared.runs.none()) };
        if tokio::time::timeout(grace, ended).await.is_err() {
            tracing::warn!(
                "runs were cut off by the end of the server; those of sessions can be continued"
            );
        }
        shared.drain.over.cancel();
    }
}
