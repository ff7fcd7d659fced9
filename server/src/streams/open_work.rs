//! [`OpenWork`]: finds the points of a session's events from which a reader can start.

use std::collections::HashSet;

use loopwright_core::event::AgentEvent;
use loopwright_core::message::{CallId, InputId};

/// The work that has started and not ended after some events of a session.
///
/// A reader that starts at a point without open work misses nothing that later events refer to,
/// except for the run, which each event names.
#[derive(Default)]
pub(crate) struct OpenWork {
    calls: HashSet<CallId>,
    /// The pending actions, by their calls.
    actions: HashSet<CallId>,
    queued: HashSet<InputId>,
}

impl OpenWork {
    /// Returns whether a reader can start before the next event, `event`: at the start of a run or
    /// turn without open work.
    pub(crate) fn can_start_at(&self, event: &AgentEvent) -> bool {
        matches!(event, AgentEvent::AgentStart { .. } | AgentEvent::TurnStart { .. })
            && self.calls.is_empty()
            && self.actions.is_empty()
            && self.queued.is_empty()
    }

    /// Applies the next event.
    pub(crate) fn apply(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::MessageEnd { message } => {
                if let Some(reply) = message.as_assistant() {
                    self.calls.extend(reply.calls().map(|call| call.id.clone()));
                } else if let Some(result) = message.as_tool_result() {
                    self.close(&result.call.clone());
                }
            }
            AgentEvent::ToolExecutionStart { call, .. } => {
                self.calls.insert(call.clone());
            }
            AgentEvent::ToolExecutionEnd { call, .. } => self.close(call),
            AgentEvent::ExternalAction(action) => {
                self.actions.insert(action.call.clone());
            }
            AgentEvent::ExternalActionEnd { call, .. } => {
                self.actions.remove(call);
            }
            AgentEvent::QueueUpdate { added, removed } => {
                self.queued.extend(added.as_ref().map(|queued| queued.input.clone()));
                removed.iter().for_each(|input| {
                    self.queued.remove(input);
                });
            }
            AgentEvent::Reset => *self = OpenWork::default(),
            _ => {}
        }
    }

    /// Closes a call, and the actions of the sub-agents that work for it.
    fn close(&mut self, call: &CallId) {
        self.calls.remove(call);
        let is_of = |action: &CallId| {
            action
                .strip_prefix(&**call)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('~'))
        };
        self.actions.retain(|action| !is_of(action));
    }
}
