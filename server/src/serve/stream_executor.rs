//! [`StreamExecutor`]: runs the requests of HTTP/2 connections, and ends those whose client stops
//! reading.
//!
//! A client can hold up one request of a connection and read the others, so a timeout for writes to
//! the connection is not enough. hyper asks a body for its next part only when the client has room
//! for it. A body that has returned a part and is not asked again is waiting for the client.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use hyper::rt::Executor;

use super::write_timeout::WRITE_TIMEOUT;

tokio::task_local! {
    static PROGRESS: Arc<Progress>;
}

/// An executor for the tasks of an HTTP/2 connection. Each handles one request and sends its
/// response.
#[derive(Clone, Copy)]
pub(super) struct StreamExecutor;

/// The progress of a response's body.
#[derive(Default)]
pub(super) struct Progress {
    polls: AtomicU64,
    /// `true` if the body has returned a part, and was not asked for the next one.
    waits_for_client: AtomicBool,
}

/// Returns the progress of the request that this task handles, if it is an HTTP/2 request.
pub(super) fn progress() -> Option<Arc<Progress>> {
    PROGRESS.try_with(Arc::clone).ok()
}

impl Progress {
    /// Records that the body was asked for a part, and whether it has returned one.
    pub(super) fn polled(&self, is_ready: bool) {
        self.polls.fetch_add(1, Ordering::Relaxed);
        self.waits_for_client.store(is_ready, Ordering::Relaxed);
    }

    /// Resolves when the client has read nothing for [`WRITE_TIMEOUT`] to twice that time.
    async fn stalled(&self) {
        let mut seen = None;
        loop {
            tokio::time::sleep(WRITE_TIMEOUT).await;
            let polls = self.polls.load(Ordering::Relaxed);
            if seen == Some(polls) && self.waits_for_client.load(Ordering::Relaxed) {
                return;
            }
            seen = Some(polls);
        }
    }
}

impl<F> Executor<F> for StreamExecutor
where
    F: Future<Output = ()> + Send + 'static,
{
    fn execute(&self, request: F) {
        let progress = Arc::<Progress>::default();
        tokio::spawn(PROGRESS.scope(progress.clone(), async move {
            tokio::select! {
                () = request => {}
                () = progress.stalled() => {
                    tracing::debug!("a request is ended: its client takes nothing of the response");
                }
            }
        }));
    }
}
