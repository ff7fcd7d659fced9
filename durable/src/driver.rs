//! [`Driver`]: a worker from the view of its placement.

use std::sync::Arc;

use async_trait::async_trait;
use loopwright_core::SessionStore;
use loopwright_core::log::DueSession;

use crate::error::ClusterError;

/// A worker that hosts sessions in this process, for a [`Placement`](crate::Placement). A
/// [`Cluster`](crate::Cluster) passes it to the placement.
#[async_trait]
pub trait Driver: Send + Sync + 'static {
    /// Opens a session and lets it work until it has nothing to do. If the future is dropped, the
    /// session continues.
    ///
    /// # Errors
    ///
    /// Fails if the session cannot be opened here.
    async fn drive(&self, session: &str) -> Result<Drive, ClusterError>;

    /// Posts the inputs of due schedules, of one session or of all, and sets their next times.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn post_schedules(&self, session: Option<&str>) -> Result<(), ClusterError>;

    /// Returns at most `limit` sessions that have work to do and no owner.
    ///
    /// # Errors
    ///
    /// Fails if the store fails.
    async fn due(&self, limit: usize) -> Result<Vec<DueSession>, ClusterError>;

    /// Returns the store that the workers share.
    fn store(&self) -> &Arc<dyn SessionStore>;
}

/// The outcome of [`Driver::drive`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Drive {
    /// The session has nothing more to do.
    Closed {
        /// The time of its next work, in milliseconds since 1970: the deadline of a pending action,
        /// or a timer. `None` without one.
        next: Option<u64>,
    },
    /// The session is handed over to another worker.
    HandedOver,
    /// Another worker has it open.
    InUse,
}
