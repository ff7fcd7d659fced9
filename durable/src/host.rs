//! [`Host`]: the extension point for opening sessions.

use async_trait::async_trait;
use loopwright_core::AgentHandle;

use crate::error::ClusterError;

/// The opener of sessions in this process. A [`Cluster`](crate::Cluster) has a host that uses its
/// [`Agents`](crate::Agents). An application that opens sessions itself, such as a server,
/// implements it.
#[async_trait]
pub trait Host: Send + Sync + 'static {
    /// Opens a session, unless it is open here, and waits until it is closed. The session continues
    /// an interrupted run, does all its other work, and is closed when it has nothing more to do.
    /// While it is open here, further calls wait for the same end.
    ///
    /// A future that is dropped does not close the session.
    ///
    /// # Errors
    ///
    /// Fails if the session cannot be opened.
    async fn host(&self, session: &str) -> Result<Hosted, ClusterError>;

    /// Creates a session that has no log yet.
    ///
    /// # Errors
    ///
    /// Fails if sessions are not created in this way, for example with
    /// [`MemoryError::NoSession`](loopwright_core::log::MemoryError::NoSession).
    async fn create(&self, session: &str) -> Result<(), ClusterError>;

    /// Returns the handle of a session that is open here.
    async fn open_session(&self, session: &str) -> Option<AgentHandle>;

    /// Opens no further sessions, and closes open ones, each between two turns. Resolves when all
    /// are closed.
    async fn drain(&self);
}

/// The outcome of hosting a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hosted {
    /// It was open here, and has nothing more to do.
    Closed,
    /// It was open here, and another worker continues: after [`Host::drain`], or because that
    /// worker has taken it over.
    HandedOver,
    /// Another process has it open.
    InUse,
}
