//! [`SharedBudget`]: a budget of several sessions.

use async_trait::async_trait;

use crate::error::StepError;
use crate::log::turn::Estimate;

/// Holds a part of a [`SharedBudget`] for a request in progress. It is dropped when the
/// log of the session has the reply, or when the request has ended without one.
pub type BudgetPermit = Box<dyn Send + Sync>;

/// Bounds what several sessions use together, such as those of a user on a day. A session has one
/// if it is opened with [`RunContext::shared_budget`](crate::RunContext::shared_budget), and its
/// sub-agents have the same.
///
/// The session asks it before each model request, also those of sub-agents, summaries and tools,
/// after its own [`Limits`](crate::agent::Limits) and before the request is in its log. The log
/// says afterwards what was used. An error ends the run.
#[async_trait]
pub trait SharedBudget: Send + Sync {
    /// Reserves this much for a request of a session: its input, and the output that is expected.
    /// Waits while only what is reserved for other requests stands in the way. Dropping the future
    /// reserves nothing.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Limit`] and [`LimitReached::shared`] if the budget is used up, and
    /// with another error if it cannot be found out what was used.
    ///
    /// [`LimitReached::shared`]: crate::agent::LimitReached::shared
    async fn reserve(&self, session: &str, estimate: Estimate) -> Result<BudgetPermit, StepError>;

    /// Does the same without waiting: returns `None` if other requests must end first.
    ///
    /// # Errors
    ///
    /// Fails as [`reserve`](SharedBudget::reserve) does.
    async fn try_reserve(
        &self,
        session: &str,
        estimate: Estimate,
    ) -> Result<Option<BudgetPermit>, StepError>;
}
