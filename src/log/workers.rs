//! [`Workers`]: the processes that share a store.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::MemoryError;

/// The processes that have a store open, and the sessions that wait for one of them, returned by
/// [`SessionStore::workers`](crate::SessionStore::workers).
///
/// # Contract
///
/// - A dead worker must not be [alive](Worker::is_alive) for longer than its sessions are in use.
/// - [`due`](Workers::due) must return every session that has work to do and no owner. It must
///   return a dead owner's session in the first call after the owner has been found dead. Its
///   result may be outdated: opening the session decides.
#[async_trait]
pub trait Workers: Send + Sync {
    /// Announces the address under which other workers reach this worker.
    async fn announce(&self, address: &str) -> Result<(), MemoryError>;

    /// Returns the workers that have the store open, and workers that died recently, in order of
    /// arrival.
    async fn workers(&self) -> Result<Vec<Worker>, MemoryError>;

    /// Returns the address of the worker that has a session open, or `None` if no worker has, or
    /// the worker has announced no address.
    async fn address(&self, session: &str) -> Result<Option<Arc<str>>, MemoryError>;

    /// Returns at most `limit` sessions that have work to do and no owner, by the clock of the
    /// store: according to [`SessionInfo::due_at`](crate::log::SessionInfo::due_at), and
    /// [`Due::Interrupted`](crate::log::Due::Interrupted) counts as work. If there are more, it
    /// chooses among them at random, so that several workers choose different ones.
    async fn due(&self, limit: usize) -> Result<Vec<DueSession>, MemoryError>;
}

/// A process that has a store open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Worker {
    /// The number of the worker, which no other worker of the store has had.
    pub number: u64,
    /// The address under which other workers reach it, if it has announced one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// `true` while its sessions are in use.
    pub is_alive: bool,
    /// Number of sessions that it owns. Others can open the sessions of a dead worker.
    pub sessions: u64,
    /// Number of sessions that it has taken over from dead workers.
    pub takeovers: u64,
}

impl Worker {
    /// Builds a live worker without sessions.
    pub fn new(number: u64) -> Self {
        Worker { number, address: None, is_alive: true, sessions: 0, takeovers: 0 }
    }
}

/// A session that has work to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueSession {
    /// The id of the session.
    pub session: Arc<str>,
    /// Length of the session's log. If it is the same later, the work was not done.
    pub entries: u64,
}

impl DueSession {
    /// Builds an entry for a session whose log has this length.
    pub fn new(session: impl Into<Arc<str>>, entries: u64) -> Self {
        DueSession { session: session.into(), entries }
    }
}
