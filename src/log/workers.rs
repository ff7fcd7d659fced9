//! [`Workers`]: the processes that share a store.

use std::sync::Arc;

use async_trait::async_trait;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::MemoryError;

/// Knows the processes that have a store open, and the sessions that wait for one of them.
/// [`SessionStore::workers`](crate::SessionStore::workers) returns it.
///
/// # Contract
///
/// - A worker that has died must not be [alive](Worker::is_alive) for longer than its sessions are
///   in use.
/// - [`due`](Workers::due) must return every session that has work to do and no owner, at the
///   latest when it is called after the session's owner has been found dead. What it returns may be
///   out of date: opening the session decides.
#[async_trait]
pub trait Workers: Send + Sync {
    /// Says under which address other workers reach this one.
    async fn announce(&self, address: &str) -> Result<(), MemoryError>;

    /// Returns the workers that have the store open, and those that have died recently, in the
    /// order in which they came.
    async fn workers(&self) -> Result<Vec<Worker>, MemoryError>;

    /// Returns the address of the worker that has a session open, or `None` if nobody has, or the
    /// worker has announced none.
    async fn address(&self, session: &str) -> Result<Option<Arc<str>>, MemoryError>;

    /// Returns at most `limit` sessions that have work to do and no owner, by the clock of the
    /// store: [`SessionInfo::due_at`](crate::log::SessionInfo::due_at) says so, and
    /// [`Due::Interrupted`](crate::log::Due::Interrupted) counts as work. If there are more, it
    /// chooses among them at random, so that several workers choose different ones.
    async fn due(&self, limit: usize) -> Result<Vec<DueSession>, MemoryError>;
}

/// Describes a process that has a store open.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Worker {
    /// Its number, which no other worker of the store has had.
    pub number: u64,
    /// Where other workers reach it, if it has announced that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<Arc<str>>,
    /// Whether its sessions are in use.
    pub is_alive: bool,
    /// The number of sessions that it owns. Those of a dead worker can be opened by others.
    pub sessions: u64,
    /// The number of sessions that it has taken over from workers that had died.
    pub takeovers: u64,
}

impl Worker {
    /// Describes a worker that is alive and has no sessions.
    pub fn new(number: u64) -> Self {
        Worker { number, address: None, is_alive: true, sessions: 0, takeovers: 0 }
    }
}

/// Names a session that has work to do.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct DueSession {
    /// The session.
    pub session: Arc<str>,
    /// The length of its log. If it is the same later, the work was not done.
    pub entries: u64,
}

impl DueSession {
    /// Names a session whose log has this length.
    pub fn new(session: impl Into<Arc<str>>, entries: u64) -> Self {
        DueSession { session: session.into(), entries }
    }
}
