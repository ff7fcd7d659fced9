//! Sub-agents in the state: their pending actions, and the decisions that are passed on to them.

use std::sync::Arc;

use crate::event::AgentEvent;
use crate::event::action::{ExternalAction, call_of_child};
use crate::event::input::{ActionResult, Decision};
use crate::log::calls::{Call, ChildCall, ChildDecision, Phase};
use crate::log::entry::LogEntry;
use crate::log::state::SessionState;
use crate::message::CallId;

/// The reason for ending an action of a sub-agent without a decision: a steer replaced it.
const NOT_NEEDED: &str = "It is not needed any more.";

impl SessionState {
    /// Adds a sub-agent's new actions. Without `idle`, earlier actions are still pending, and
    /// earlier decisions may not have reached the sub-agent.
    pub(super) fn child_awaits(
        &mut self,
        call: &CallId,
        actions: &[Arc<ExternalAction>],
        idle: bool,
        emit: &mut dyn FnMut(AgentEvent),
    ) {
        let Some(batch) = &mut self.batch else { return };
        let Some(found) = batch.calls.iter_mut().find(|c| c.call.id == *call) else { return };
        let Some(child) = &mut found.child else { return };
        if idle {
            child.decided.clear();
            let is_over = |known: &mut Arc<ExternalAction>| {
                actions.iter().all(|action| action.call != known.call)
            };
            for over in child.actions.extract_if(.., is_over) {
                let decision = Arc::new(Decision::Deny(NOT_NEEDED.into()));
                emit(AgentEvent::ExternalActionEnd { call: over.call.clone(), decision, by: None });
            }
        }
        for action in actions {
            if !child.knows(call, &action.call) {
                batch.awaiting_since = self.info.entries;
                let action = self.info.action(&action.call).unwrap_or(action);
                child.actions.push(action.clone());
                emit(AgentEvent::ExternalAction(action.clone()));
            }
        }
    }

    /// Records a decision for a sub-agent. Returns `false` if no sub-agent has this action.
    pub(super) fn decide_for_child(
        &mut self,
        entry: &LogEntry,
        emit: &mut dyn FnMut(AgentEvent),
    ) -> bool {
        let LogEntry::Decided { input, call, digest, decision, by, source, change, .. } = entry
        else {
            return false;
        };
        let mut calls = self.batch.iter_mut().flat_map(|batch| &mut batch.calls);
        let found = calls.find_map(|c| {
            let inner = CallId::from(call_of_child(call, &c.call.id)?);
            let child = c.child.as_mut()?;
            let is_it = |action: &Arc<ExternalAction>| {
                action.call == *call && action.is_decided_by(digest.as_ref())
            };
            let at = child.actions.iter().position(is_it)?;
            Some((inner, child.actions.remove(at), child))
        });
        let Some((inner, action, child)) = found else { return false };
        let mut result = ActionResult::new(inner, action.digest.clone(), (**decision).clone());
        (result.by, result.source) = (by.clone(), source.clone());
        // The sub-agent gets one approval: several that are of different changes allow none.
        let approvals = action.approvals.iter().filter_map(|approval| approval.change.as_ref());
        let mut changes: Vec<&str> = approvals.chain(change).map(|change| &**change).collect();
        changes.dedup();
        result.change = (!changes.is_empty()).then(|| changes.join(" ").into());
        child.decided.push(ChildDecision { input: input.clone(), result });
        let decision = action.shown(decision);
        emit(AgentEvent::ExternalActionEnd { call: call.clone(), decision, by: by.clone() });
        true
    }

    /// Returns the sub-agents that work for calls of the open batch.
    pub(crate) fn children(&self) -> impl Iterator<Item = (&Call, &ChildCall)> {
        let is_open = |c: &&Call| !matches!(c.phase, Phase::Finished);
        self.calls().iter().filter(is_open).filter_map(|c| Some((c, c.child.as_deref()?)))
    }
}
