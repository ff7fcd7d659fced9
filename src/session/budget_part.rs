//! [`Part`], a part of a pattern's work with a budget of its own.

use std::time::Duration;

use crate::limits::{Budget, PartBudget, Spent};

/// The time that is kept for a request behind a part.
const TIME_OF_KEPT: Duration = Duration::from_secs(30);

/// A part of the work; see [`StepContext::with_budget`](crate::StepContext::with_budget).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Part {
    /// The budget, without the time that is kept.
    pub(crate) budget: Budget,
    /// The number of requests behind the part for which there is room.
    pub(crate) kept: u32,
    /// The usage of the user's request when the part began.
    from: Spent,
}

impl Part {
    /// Begins a part at this usage of the user's request.
    pub(crate) fn new(PartBudget { budget, kept }: PartBudget, from: Spent) -> Self {
        let without_kept = |time: Duration| time - (TIME_OF_KEPT * kept).min(time / 4);
        let budget = Budget { time: budget.time.map(without_kept), ..budget };
        Part { budget, kept, from }
    }

    /// Returns the usage of the part, from the usage of the user's request.
    pub(crate) fn spent(&self, now: &Spent) -> Spent {
        now.since(&self.from)
    }
}
