//! What tests of both stores need.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::log::LogEntry;
use loopwright_core::message::{MessageId, UserMessage};
use tempfile::TempDir;

/// A directory in RAM, where there is one: many tests open a store thousands of times.
pub(crate) fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// A message of the user's.
pub(crate) fn said(text: &str) -> LogEntry {
    LogEntry::Remembered { message: Arc::new(Message::new(MessageId(1), UserMessage::from(text))) }
}
