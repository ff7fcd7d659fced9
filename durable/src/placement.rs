//! [`Placement`]: the extension point that assigns sessions to workers.

mod background;
pub(crate) mod leases;
#[cfg(feature = "restate")]
pub(crate) mod restate;

use std::sync::Arc;

use async_trait::async_trait;

pub use leases::Leases;

use crate::driver::Driver;
use crate::error::PlacementError;

/// The assignment of sessions to workers, and their waking. [`Leases`] needs only the store, and
/// `Restate` (feature `restate`) a Restate server.
///
/// # Contract
///
/// - After [`wake`](Placement::wake) has returned, some worker must host the session at least once
///   more, starting with its opening, even if this worker is killed. If it is being hosted at that
///   time, it may be hosted again afterwards. `Leases` relies on its sweep for that.
/// - A woken session is opened even if nothing seems to be due: only its owner knows.
/// - A worker that dies while it hosts a session must be replaced.
#[async_trait]
pub trait Placement: Send + Sync + 'static {
    /// Causes a session to be hosted soon: it has input, or work to do.
    ///
    /// # Errors
    ///
    /// Fails if that cannot be promised. Posted inputs stay, and a sweep may find them.
    async fn wake(&self, session: &str) -> Result<(), PlacementError>;

    /// Causes a session to be hosted at a time, in milliseconds since 1970: a deadline passes, a
    /// timer rings, or a schedule is due.
    ///
    /// # Errors
    ///
    /// Fails if that cannot be promised.
    async fn wake_at(&self, session: &str, time: u64) -> Result<(), PlacementError>;

    /// Starts to assign sessions to this worker. Called once, before all other methods.
    ///
    /// # Errors
    ///
    /// Fails if the worker cannot be assigned sessions.
    async fn start(&self, driver: Arc<dyn Driver>) -> Result<(), PlacementError>;

    /// Assigns no further sessions to this worker. The cluster closes the sessions that it hosts.
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
