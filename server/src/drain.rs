//! The end of a server: no new runs, those that go on end or are suspended, clients are told.

use tokio_util::sync::CancellationToken;

/// Whether the server is about to end.
#[derive(Default)]
pub(crate) struct Drain(CancellationToken);

impl Drain {
    /// From here on nothing new begins.
    pub(crate) fn begin(&self) {
        self.0.cancel();
    }
    /// Whether it has begun.
    pub(crate) fn is_draining(&self) -> bool {
        self.0.is_cancelled()
    }
    /// Resolves when it begins.
    pub(crate) async fn begun(&self) {
        self.0.cancelled().await
    }
}
