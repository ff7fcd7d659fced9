//! The current turn, the usage since the last request of the user, and sums of costs.

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

/// Adds the cost of a request, if it is known. The sum stays finite, since JSON has no other
/// numbers.
pub(crate) fn add_cost(sum: &mut f64, more: Option<f64>) {
    let more = more.filter(|cost| cost.is_finite()).unwrap_or(0.0);
    *sum = (*sum + more).clamp(f64::MIN, f64::MAX);
}
