//! The writes that a store passes to its writer.

use std::sync::Arc;

use loopwright_core::log::{LogEntry, MemoryError, PostedInput, SessionInfo};
use loopwright_core::message::InputId;
use tokio::sync::{Notify, oneshot};

/// A write and the channel for its result.
pub(super) struct Job {
    pub(super) session: Arc<str>,
    pub(super) write: Write,
    /// True if the write must be on disk before its result is sent.
    pub(super) durable: bool,
    /// Receives the result.
    pub(super) done: oneshot::Sender<Result<(), MemoryError>>,
}

/// A change of a session.
pub(super) enum Write {
    /// Makes `owner` the owner of the session, creating the session if it is missing. `posted` is
    /// notified of inputs in its mailbox.
    Open { owner: Arc<str>, posted: Arc<Notify> },
    /// Frees the session. Nobody waits for the result, so a failed release is retried.
    Release { owner: Arc<str> },
    /// Appends entries after the first `at`. `json` has the encoded entries.
    Append { owner: Arc<str>, at: u64, entries: Arc<[LogEntry]>, json: Vec<String> },
    /// Adds an input to the mailbox, unless it has one with this id.
    Post { input: PostedInput },
    /// Writes the receipt of an input, unless it has one. Fails unless `owner` is the owner.
    Acknowledge { owner: Arc<str>, input: InputId, receipt: String, is_accepted: bool },
    /// Creates a branch with this information and these own entries. Fails unless the
    /// parent still has the number `parent`.
    Fork { parent: i64, info: Box<SessionInfo>, json: Vec<String> },
    /// Deletes the session.
    Delete,
    /// Changes nothing. Fails if the session has an owner that is alive. It is a job, so that
    /// releases that were sent before it come first.
    CheckFree,
    /// Changes nothing.
    Nothing,
}
