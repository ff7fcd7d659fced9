//! [`Durability`]: the appends that wait for the disk.

use loopwright_core::log::LogEntry;

/// The appends that a store on disk flushes before they return.
///
/// With either value the appended entries are in the file, or in the server, when the append
/// returns, so they survive any end of the process. The value matters only for power failures and
/// crashes of the machine, and for `Postgres`, which flushes every append by default, for crashes
/// of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Appends with an entry that [must be durable](LogEntry::must_be_durable), such as a receipt
    /// or an effect, together with all earlier entries.
    ///
    /// After a power failure, entries that follow the last flushed one can be missing although
    /// their events were emitted; the session then reuses their sequence numbers. A client that
    /// resumes by `seq` after a power failure needs [`Durability::Every`].
    #[default]
    Effects,
    /// All appends.
    Every,
}

impl Durability {
    /// Returns true if an append of these entries is flushed before it returns.
    pub(crate) fn must_flush(self, entries: &[LogEntry]) -> bool {
        self == Durability::Every || entries.iter().any(LogEntry::must_be_durable)
    }
}
