//! An append that waits to be written.

use std::sync::{Arc, Mutex};

use loopwright_core::log::{LogEntry, MemoryError, SessionInfo};
use tokio::sync::oneshot;

use crate::sql::integer;

/// An append.
pub(super) struct Append {
    pub(super) number: i64,
    pub(super) epoch: i64,
    pub(super) at: u64,
    pub(super) entries: Arc<[LogEntry]>,
    pub(super) json: Vec<String>,
    /// The description of the session, which follows the log.
    pub(super) info: Arc<Mutex<SessionInfo>>,
    /// `true` if the append must be on disk before its result is sent.
    pub(super) durable: bool,
    /// The channel for the result.
    pub(super) done: oneshot::Sender<Result<(), MemoryError>>,
}

impl Append {
    /// Returns the size of its entries in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.json.iter().map(String::len).sum()
    }

    /// Returns the length of the log after the append.
    pub(super) fn end(&self) -> i64 {
        integer(self.at + self.entries.len() as u64)
    }
}
