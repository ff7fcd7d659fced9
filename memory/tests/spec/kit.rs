//! Helpers for the tests of both stores.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::log::LogEntry;
use loopwright_core::message::{MessageId, UserMessage};
use tempfile::TempDir;

/// Creates a temporary directory, in RAM if possible, since many tests open a store thousands of
/// times.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Returns an entry with a message of the user.
pub(crate) fn remembered(text: &str) -> LogEntry {
    LogEntry::Remembered { message: Arc::new(Message::new(MessageId(1), UserMessage::from(text))) }
}
