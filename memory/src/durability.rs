//! When a store waits for the disk.

use loopwright_core::log::LogEntry;

/// Which appends a store on disk makes durable before they return.
///
/// Either way an append is in the file when it returns, so it survives the end of the process,
/// however that comes. This is about the end of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Durability {
    /// Those with an item that [must be durable](loopwright_core::Item::must_be_durable), and with
    /// them all before: receipts and effects. When the power fails, what came after the last of
    /// them may be missing, also where numbered events had told of it: the session then goes on
    /// with the same numbers for other events. Whoever resumes by `seq` after the end of a machine
    /// needs [`Durability::Every`].
    #[default]
    Effects,
    /// Each one.
    Every,
}

impl Durability {
    /// Whether an append of these waits for the disk.
    pub(crate) fn waits(self, items: &[LogEntry]) -> bool {
        self == Durability::Every || items.iter().any(LogEntry::must_be_durable)
    }
}
