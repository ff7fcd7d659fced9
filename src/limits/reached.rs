//! [`LimitReached`], the error of a budget that is used up.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::Limit;

/// The budget that is too small, or another limit. The text contains the maximum, the used amount,
/// and the needed amount, or the calls that were repeated.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LimitReached {
    /// The budget that is used up, or too small for the next request.
    pub limit: Limit,
    details: Arc<str>,
}

impl LimitReached {
    /// Builds the error for a [`SharedBudget`](crate::session::SharedBudget) that is used up. The
    /// text is the whole sentence, without a full stop.
    pub fn shared(why: impl Into<Arc<str>>) -> Self {
        LimitReached { limit: Limit::Shared, details: why.into() }
    }

    /// Builds the error for a limit that was reached before the session was opened again.
    pub(crate) fn earlier(limit: Limit) -> Self {
        LimitReached { limit, details: "before the session was opened again".into() }
    }

    pub(crate) fn turns(limit: Limit, max: u32, used: u32, (needed, kept): (u32, u32)) -> Self {
        let mut details = if needed > 1 {
            let left = max.saturating_sub(used);
            format!("{needed} turns are needed, and {left} of {max} are left")
        } else {
            format!("{used} of {max} turns are used")
        };
        if kept > 0 {
            details += &format!(", and {kept} kept for what follows");
        }
        LimitReached { limit, details: details.into() }
    }

    pub(crate) fn tokens(limit: Limit, max: u64, used: u64, needed: u64) -> Self {
        let mut details = format!("{used} of {max} tokens are used");
        if used < max {
            details += &format!(", and about {needed} more are needed");
        }
        LimitReached { limit, details: details.into() }
    }

    pub(crate) fn cost(limit: Limit, max: f64, used: f64, needed: f64) -> Self {
        let mut details = format!("{} of {} are spent", Dollars(used), Dollars(max));
        if used < max {
            details += &format!(", and about {} more is needed", Dollars(needed));
        }
        LimitReached { limit, details: details.into() }
    }

    pub(crate) fn repeated_calls(calls: &str, times: u32) -> Self {
        let details = format!("the same calls had the same results {times} times: {calls}");
        LimitReached { limit: Limit::RepeatedCalls, details: details.into() }
    }

    pub(crate) fn time(limit: Limit, max: Duration, used: Duration) -> Self {
        LimitReached { limit, details: format!("{used:.1?} of {max:?} have passed").into() }
    }
}

impl fmt::Display for LimitReached {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.limit {
            Limit::Shared => f.write_str(&self.details),
            limit => write!(f, "{limit} is reached: {}", self.details),
        }
    }
}

/// A sum of money for display. Sums below one dollar get more digits.
struct Dollars(f64);

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.abs() < 1.0 { write!(f, "${:.4}", self.0) } else { write!(f, "${:.2}", self.0) }
    }
}
