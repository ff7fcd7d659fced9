//! [`ActionChange`]: a change in the state of a pending action.

use std::sync::Arc;

use loopwright_core::log::{DecisionRecord, PendingAction};
use loopwright_core::message::CallId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A change in the state of an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActionChange {
    /// The action is pending: it is new, or a principal has approved it and more approvals are
    /// required.
    Pending {
        /// The pending action.
        action: PendingAction,
    },
    /// The action is no longer pending. An action that was resolved before it was reported as
    /// pending has only this change.
    Resolved {
        /// The id of the session.
        session: Arc<str>,
        /// The id of the call.
        call: CallId,
        /// The time since which it was pending, in milliseconds since 1970; missing if it was never
        /// reported as pending.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
        /// The decision that resolved it; missing if there was none, for example because the run
        /// was aborted or the session deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        decision: Option<DecisionRecord>,
    },
}

impl ActionChange {
    /// Returns an id that is the same when the change is reported again, even after a restart.
    pub fn id(&self) -> String {
        match self {
            ActionChange::Pending { action: PendingAction { session, since, action, .. } } => {
                format!("pending:{session}:{}:{since}:{}", action.call, action.approvals.len())
            }
            ActionChange::Resolved { session, call, decision: Some(decision), .. } => {
                // A session that is deleted and created again can repeat the position.
                let DecisionRecord { time, position, .. } = decision;
                format!("resolved:{session}:{call}:{time}:{position}")
            }
            ActionChange::Resolved { session, call, since, decision: None } => {
                format!("resolved:{session}:{call}:{}", since.unwrap_or_default())
            }
        }
    }

    /// Creates the change for an action that a decision has resolved.
    pub(super) fn decided(since: Option<u64>, decision: DecisionRecord) -> Self {
        let (session, call) = (decision.session.clone(), decision.call.clone());
        ActionChange::Resolved { session, call, since, decision: Some(decision) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C292: A call that becomes pending twice is two actions, even if nobody decides.
    #[test]
    fn a_call_that_is_pending_twice_has_two_ids() {
        let gone = |since| {
            let (session, call) = ("s".into(), "c".into());
            ActionChange::Resolved { session, call, since: Some(since), decision: None }.id()
        };
        assert_eq!(gone(5), gone(5));
        assert_ne!(gone(5), gone(6));
    }
}
