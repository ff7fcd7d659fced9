//! The current turn, and the usage since the last request of the user.

use std::sync::Arc;
use std::time::Duration;

use crate::message::{Message, Usage};

/// Holds the current or last turn.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) number: u32,
    pub(crate) open: bool,
    pub(crate) message: Option<Arc<Message>>,
    pub(crate) results: Vec<Arc<Message>>,
}

/// Counts the usage since the last request of the user.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) usage: Usage,
    pub(crate) cost: f64,
    /// The time of the runs that have ended.
    pub(crate) time: Duration,
    /// The number of detached requests, which count as turns.
    pub(crate) detached: u32,
}
