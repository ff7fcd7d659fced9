//! [`Tree`]: the place of a session among those of an agent and its sub-agents.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::limits::Budget;
use crate::log::store::SessionStore;
use crate::session::shared_budget::SharedBudget;

/// The place of a session among those of an agent and its sub-agents. The default is a root whose
/// agent cannot start any.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    /// Has the sessions of sub-agents.
    pub(crate) store: Option<Arc<dyn SessionStore>>,
    /// What the session may use of its parent's budgets; `None` at the root.
    pub(crate) share: Option<Budget>,
    /// The budget that it shares with other sessions.
    pub(crate) shared_budget: Option<Arc<dyn SharedBudget>>,
    /// The mean of the tokens of its parent's replies; `None` at the root, or if there were none.
    pub(crate) mean_output: Option<u64>,
    /// How many levels of sub-agents there may be below; `None` at the root, where the limits say
    /// it.
    pub(crate) depth: Option<u32>,
    /// Cancelled before the abort of a session above is acknowledged. No request is sent and no
    /// call starts from then on.
    pub(crate) cancel: CancellationToken,
    /// Cancelled when nobody waits for the session any more: then it stops, and its log stays.
    /// `None` at the root.
    pub(crate) orphaned: Option<CancellationToken>,
    /// Whether each change is written at once, as in some tests.
    pub(crate) appends_each: bool,
}
