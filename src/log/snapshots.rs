//! [`Snapshots`]: the stored state of long sessions, which open without reading their whole log.

use async_trait::async_trait;

use crate::error::MemoryError;

/// The state of a session after some entries of its log, in the core's own format. Other versions
/// of the core ignore it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Number of entries before the snapshot.
    pub entries: u64,
    /// The state, in the core's own format.
    pub data: Vec<u8>,
}

impl Snapshot {
    /// Builds the snapshot of the state after this number of entries.
    pub fn new(entries: u64, data: Vec<u8>) -> Self {
        Snapshot { entries, data }
    }
}

/// Storage for the latest snapshot of an open session, returned by
/// [`Memory::snapshots`](crate::Memory::snapshots).
///
/// A session reads its snapshot when it is opened, and then only the entries that follow. When it
/// is closed, it stores a new snapshot if its log has grown by 1,000 entries. The log remains
/// complete, so a snapshot can be lost at any time.
///
/// # Contract
///
/// - A snapshot belongs to the log of its session: it is deleted with the session, and a fork does
///   not inherit it. The log must never have fewer entries than the snapshot describes, even after
///   a crash.
/// - An owner that was replaced may still store a snapshot. It is valid, since logs only grow, but
///   must not replace a snapshot of more entries.
/// - The futures may be dropped at any time.
#[async_trait]
pub trait Snapshots: Send + Sync {
    /// Returns the latest snapshot, if any.
    async fn latest(&self) -> Result<Option<Snapshot>, MemoryError>;

    /// Stores a snapshot, unless the stored one has as many entries or more.
    async fn store(&self, snapshot: Snapshot) -> Result<(), MemoryError>;
}
