//! [`Tree`], the position of a session in a tree of agents and sub-agents.

use std::sync::Arc;

use tokio_util::sync::CancellationToken;

use crate::limits::Budget;
use crate::log::store::SessionStore;
use crate::session::request::shared_budget::SharedBudget;

/// The position of a session in the tree of an agent and its sub-agents. The default is a root
/// whose agent cannot start sub-agents.
#[derive(Clone, Default)]
pub(crate) struct Tree {
    /// The store for the sessions of sub-agents.
    pub(crate) store: Option<Arc<dyn SessionStore>>,
    /// The session's share of its parent's budgets; `None` at the root.
    pub(crate) share: Option<Budget>,
    /// The budget shared with other sessions.
    pub(crate) shared_budget: Option<Arc<dyn SharedBudget>>,
    /// Mean output tokens of the parent's replies; `None` at the root, or if there were no replies.
    pub(crate) mean_output: Option<u64>,
    /// Maximum levels of sub-agents below; `None` at the root, where the limits apply.
    pub(crate) depth: Option<u32>,
    /// Cancelled before the abort of a session above is acknowledged. From then on no request is
    /// sent and no call starts.
    pub(crate) cancel: CancellationToken,
    /// Cancelled when nobody waits for the session any more. The session then stops, and its log
    /// stays. `None` at the root.
    pub(crate) orphaned: Option<CancellationToken>,
    /// Set by some tests: each change is written at once.
    pub(crate) appends_each: bool,
}
