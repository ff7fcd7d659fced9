//! The extension point for who hosts which session, [`Placement`].

mod background;
pub(crate) mod leases;
#[cfg(feature = "restate")]
pub(crate) mod restate;

use std::sync::Arc;

use async_trait::async_trait;

pub use leases::Leases;

use crate::driver::Driver;
use crate::error::PlacementError;

/// Decides which worker hosts a session, and wakes it: [`Leases`] needs only the store, and
/// `Restate` (feature `restate`) a Restate server.
///
/// # Contract
///
/// - When [`wake`](Placement::wake) has returned, the session must be hosted at least once more
///   from its opening on, by some worker, even if this one is killed. If it is being hosted at that
///   moment, it may be hosted again afterwards. `Leases` relies on its sweep for that.
/// - A session that is to be hosted is opened even if nothing seems to be due: only its owner can
///   tell.
/// - A worker that dies while it hosts a session must be replaced.
#[async_trait]
pub trait Placement: Send + Sync + 'static {
    /// Has a session hosted soon: it has input, or work to do.
    ///
    /// # Errors
    ///
    /// Fails if that cannot be promised. What was posted stays, and a sweep may find it.
    async fn wake(&self, session: &str) -> Result<(), PlacementError>;

    /// Has a session looked after at a time, in milliseconds since 1970: a deadline passes, or a
    /// schedule is due.
    ///
    /// # Errors
    ///
    /// Fails if that cannot be promised.
    async fn wake_at(&self, session: &str, time: u64) -> Result<(), PlacementError>;

    /// Starts to give sessions to this worker. Called once, before all other methods.
    ///
    /// # Errors
    ///
    /// Fails if the worker cannot be given sessions.
    async fn start(&self, driver: Arc<dyn Driver>) -> Result<(), PlacementError>;

    /// Gives this worker no further sessions. Those that it hosts are closed by the cluster.
    async fn stop(&self);
}

#[async_trait]
impl<P: Placement + ?Sized> Placement for Arc<P> {
    async fn wake(&self, session: &str) -> Result<(), PlacementError> {
        (**self).wake(session).await
    }

    async fn wake_at(&self, session: &str, time: u64) -> Result<(), PlacementError> {
        (**self).wake_at(session, time).await
    }

    async fn start(&self, driver: Arc<dyn Driver>) -> Result<(), PlacementError> {
        (**self).start(driver).await
    }

    async fn stop(&self) {
        (**self).stop().await
    }
}
