//! [`ActionChange`]: what happened to a pending action.

use std::sync::Arc;

use loopwright_core::log::{DecisionRecord, PendingAction};
use loopwright_core::message::CallId;
use schemars::JsonSchema;
use serde::Serialize;

/// Says what happened to an action.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActionChange {
    /// It is pending: it is new, or a principal has approved it and more approvals are required.
    Pending {
        /// The action.
        action: PendingAction,
    },
    /// It is not pending any more.
    Resolved {
        /// Its session.
        session: Arc<str>,
        /// Its call.
        call: CallId,
        /// The decision that resolved it; missing if there was none, for example because the run
        /// was aborted or the session deleted.
        #[serde(skip_serializing_if = "Option::is_none")]
        decision: Option<DecisionRecord>,
    },
}

impl ActionChange {
    /// Returns an id that is the same when the change is reported again, also after a restart.
    pub fn id(&self) -> String {
        match self {
            ActionChange::Pending { action: PendingAction { session, since, action, .. } } => {
                format!("pending:{session}:{}:{since}:{}", action.call, action.approvals.len())
            }
            ActionChange::Resolved { session, call, decision } => {
                let position = decision.as_ref().map_or(0, |decision| decision.position);
                format!("resolved:{session}:{call}:{position}")
            }
        }
    }
}
