//! Writes that a store sends to its writer.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use loopwright_core::log::{LogEntry, MemoryError, PostedInput, Schedule, SessionInfo, Snapshot};
use loopwright_core::message::InputId;
use tokio::sync::{Notify, oneshot};

/// A write and the channel for its result.
pub(super) struct Job {
    pub(super) session: Arc<str>,
    pub(super) write: Write,
    /// `true` if the write must be on disk before its result is sent.
    pub(super) durable: bool,
    /// The channel for the result.
    pub(super) done: oneshot::Sender<Result<(), MemoryError>>,
}

/// A change of a session.
pub(super) enum Write {
    /// Make `owner` the owner of the session, and create the session if it is missing. `posted` is
    /// notified of inputs in its mailbox.
    Open { owner: Arc<str>, posted: Arc<Notify> },
    /// Free the session. No caller waits for the result, so a failed release is retried.
    Release { owner: Arc<str> },
    /// Append entries after the first `at`. `json` has the encoded entries.
    Append { owner: Arc<str>, at: u64, entries: Arc<[LogEntry]>, json: Vec<String> },
    /// Add an input to the mailbox, unless it has one with this id.
    Post { input: PostedInput },
    /// Write the receipt of an input, unless it has one. Fails unless `owner` is the owner.
    Acknowledge { owner: Arc<str>, input: InputId, receipt: String, is_accepted: bool },
    /// Create a branch with this information and these own entries. Fails if the parent does not
    /// have the number `parent` any more.
    Fork { parent: i64, info: Box<SessionInfo>, json: Vec<String> },
    /// Store a snapshot, unless the stored one has at least as many entries, or `owner` is not the
    /// owner any more.
    Snapshot { owner: Arc<str>, snapshot: Snapshot },
    /// Add a schedule of the session, or replace the schedule with its id.
    PutSchedule { schedule: Box<Schedule> },
    /// Replace a schedule of the session by the next one, or remove it, if it is the same.
    /// `has_changed` is then set.
    Advance { schedule: Box<Schedule>, next: Option<Box<Schedule>>, has_changed: Arc<AtomicBool> },
    /// Remove the schedule with this id. `has_changed` is set if there was one.
    RemoveSchedule { id: Arc<str>, has_changed: Arc<AtomicBool> },
    /// Delete the session.
    Delete,
    /// Change nothing, but fail if the session has a live owner. As a job, it comes after releases
    /// that were sent before.
    CheckFree,
    /// Change nothing.
    Nothing,
}
