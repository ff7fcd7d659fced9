//! The turn that goes on, and what was used since the last request of the user.

use std::sync::Arc;
use std::time::Duration;

use crate::message::{Message, Usage};

/// The turn that goes on, or the last one.
#[derive(Default)]
pub(crate) struct Turn {
    pub(crate) number: u32,
    pub(crate) open: bool,
    pub(crate) message: Option<Arc<Message>>,
    pub(crate) results: Vec<Arc<Message>>,
}

/// What was used since the last request of the user.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Spent {
    pub(crate) usage: Usage,
    pub(crate) cost: f64,
    /// Time of the runs that have ended.
    pub(crate) time: Duration,
    /// Requests outside of the conversation; they count as turns.
    pub(crate) detached: u32,
}
