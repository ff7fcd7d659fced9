//! [`Snapshots`]: the state of a long session, so that waking it does not read its whole log.

use async_trait::async_trait;

use crate::error::MemoryError;

/// Holds the state of a session after some entries of its log, in the core's own format. Another
/// version of the core ignores it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The number of entries.
    pub entries: u64,
    /// The state.
    pub data: Vec<u8>,
}

impl Snapshot {
    /// Builds the snapshot of the state after so many entries.
    pub fn new(entries: u64, data: Vec<u8>) -> Self {
        Snapshot { entries, data }
    }
}

/// Keeps the latest snapshot of an open session. [`Memory::snapshots`](crate::Memory::snapshots)
/// returns it.
///
/// A session that is opened reads its snapshot, and then only the entries that follow. When it is
/// closed, it stores a new one if its log has become longer by 1,000 entries. The log remains
/// complete: a snapshot can be lost at any time.
///
/// # Contract
///
/// - A snapshot belongs to the log of its session: it is deleted with it, and a fork does not have
///   it. The log must have at least as many entries as the snapshot describes, also after a crash.
/// - An owner that was replaced may still store a snapshot. It is right, since logs only grow, but
///   must not replace one of more entries.
/// - The futures may be dropped at any time.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Returns the latest snapshot, or `None` if there is none.
    async fn latest(&self) -> Result<Option<Snapshot>, MemoryError>;

    /// Stores a snapshot, unless there is one of as many entries or more.
    async fn store(&self, snapshot: Snapshot) -> Result<(), MemoryError>;
}
