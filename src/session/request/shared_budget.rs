//! [`SharedBudget`], a budget of several sessions.

use async_trait::async_trait;

use crate::error::StepError;
use crate::log::turn::Estimate;

/// A reserved part of a [`SharedBudget`], for a request in progress. It is dropped when the
/// session's log has the reply, or when the request has ended without one.
pub type BudgetPermit = Box<dyn Send + Sync>;

/// A budget that several sessions share, such as the daily budget of a user. A session gets it with
/// [`RunContext::shared_budget`](crate::RunContext::shared_budget), and shares it with its
/// sub-agents.
///
/// The session reserves from it before each model request, including requests of sub-agents,
/// summaries and tools. It does so after checking its own [`Limits`](crate::limits::Limits), and
/// before it logs the request. Later the log contains the actual usage. An error ends the run.
#[async_trait]
pub trait SharedBudget: Send + Sync {
    /// Reserves the estimate for a request of a session: its input and its expected output. Waits
    /// while the budget is only blocked by reservations of other requests. Dropping the future
    /// reserves nothing.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Limit`] and [`LimitReached::shared`] if the budget is used up, and
    /// with another error if the earlier usage cannot be determined.
    ///
    /// [`LimitReached::shared`]: crate::limits::LimitReached::shared
    async fn reserve(&self, session: &str, estimate: Estimate) -> Result<BudgetPermit, StepError>;

    /// Reserves without waiting. Returns `None` if other requests must end first.
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
