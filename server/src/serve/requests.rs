//! [`Requests`]: a connection's requests in progress.

use std::time::Duration;

use tokio::sync::watch;

/// A counter of a connection's requests. Clones share the counts.
#[derive(Clone, Default)]
pub(super) struct Requests(watch::Sender<Counts>);

#[derive(Default)]
struct Counts {
    started: u64,
    in_progress: usize,
}

/// A request in progress. It ends when the guard is dropped, after its response was sent.
pub(super) struct RequestGuard(watch::Sender<Counts>);

impl Requests {
    /// Counts a new request.
    pub(super) fn begin(&self) -> RequestGuard {
        self.0.send_modify(|counts| {
            counts.started += 1;
            counts.in_progress += 1;
        });
        RequestGuard(self.0.clone())
    }

    /// Resolves when the first request has arrived.
    pub(super) async fn first(&self) {
        // The sender is `self`, so it is not closed.
        let _ = self.0.subscribe().wait_for(|counts| counts.started > 0).await;
    }

    /// Resolves when no request has been in progress for this long.
    pub(super) async fn idle(&self, time: Duration) {
        let mut counts = self.0.subscribe();
        while counts.wait_for(|counts| counts.in_progress == 0).await.is_ok()
            && tokio::time::timeout(time, counts.changed()).await.is_ok()
        {}
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.send_modify(|counts| counts.in_progress -= 1);
    }
}
