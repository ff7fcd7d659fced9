//! [`ActionChange`]: what happened to a pending action.

use std::sync::Arc;

use loopwright_core::log::{DecisionRecord, PendingAction};
use loopwright_core::message::CallId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Says what happened to an action.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum ActionChange {
    /// It is pending: it is new, or a principal has approved it and more approvals are required.
    Pending {
        /// The action.
        action: PendingAction,
    },
    /// It is not pending any more. An action that was decided at once, or by another process while
    /// nobody looked, is reported only so.
    Resolved {
        /// Its session.
        session: Arc<str>,
        /// Its call.
        call: CallId,
        /// The time since which it waited, in milliseconds since 1970; missing if it was not
        /// reported as pending before.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        since: Option<u64>,
        /// The decision that resolved it; missing if there was none, for example because the run
        /// was aborted or the session deleted.
        #[serde(default, skip_serializing_if = "Option::is_none")]
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

    /// Reports that a decision has resolved an action.
    pub(super) fn decided(since: Option<u64>, decision: DecisionRecord) -> Self {
        let (session, call) = (decision.session.clone(), decision.call.clone());
        ActionChange::Resolved { session, call, since, decision: Some(decision) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// C292: A call that becomes pending twice is two actions, also if nobody decides.
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
