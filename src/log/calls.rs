//! The tool calls of one reply, and the phase of each.

use std::sync::Arc;

use serde_json::Value;

use crate::log::action::ExternalAction;
use crate::log::event::AgentEvent;
use crate::log::input::{Decision, Provided};
use crate::message::{Message, StopReason, ToolCall};
use crate::tool::{ApprovalRecord, Resolution};

/// Holds the calls of one reply until each has its result.
pub(crate) struct Batch {
    pub(crate) message: Arc<Message>,
    pub(crate) calls: Vec<Call>,
    /// The position in the log of the last action that became pending.
    pub(crate) asked_at: u64,
}

pub(crate) struct Call {
    pub(crate) call: ToolCall,
    pub(crate) phase: Phase,
    pub(crate) result: Option<Arc<Message>>,
    /// The decision on the action for which it suspended.
    pub(crate) resolution: Option<Resolution>,
    /// Who allowed it to run, if a decision did.
    pub(crate) approval: Option<Arc<ApprovalRecord>>,
    /// Whether its `tool_execution_start` was emitted.
    has_started: bool,
}

/// Names the phase of a call.
#[derive(Debug, Clone)]
pub(crate) enum Phase {
    Fresh,
    Awaiting(Arc<ExternalAction>),
    Decided { action: Arc<ExternalAction>, decision: Arc<Decision>, by: Option<Arc<str>> },
    Started { arguments: Arc<Value> },
    Finished,
}

impl From<&ToolCall> for Call {
    fn from(call: &ToolCall) -> Self {
        Call {
            call: call.clone(),
            phase: Phase::Fresh,
            result: None,
            resolution: None,
            approval: None,
            has_started: false,
        }
    }
}

impl Call {
    /// Emits `tool_execution_start`, once.
    pub(crate) fn emit_start(&mut self, arguments: Arc<Value>, emit: &mut dyn FnMut(AgentEvent)) {
        if !std::mem::replace(&mut self.has_started, true) {
            let (call, name) = (self.call.id.clone(), self.call.name.clone());
            emit(AgentEvent::ToolExecutionStart { call, name, arguments });
        }
    }
}

impl Batch {
    /// Returns whether a limit cut the reply off, so that none of its calls may run.
    pub(crate) fn is_cut(&self) -> bool {
        self.message
            .as_assistant()
            .is_some_and(|m| matches!(m.stop, StopReason::Length | StopReason::ContentFilter))
    }
}

impl Resolution {
    /// Returns the decision that a suspended tool gets when it is called again, or `None` if it did
    /// not suspend or is not called.
    pub(crate) fn of(
        action: &ExternalAction,
        decision: &Decision,
        by: Option<&str>,
    ) -> Option<Resolution> {
        let data = match decision {
            Decision::Approve => Value::Null,
            Decision::Provide(Provided::Input(data)) => data.clone(),
            _ => return None,
        };
        action.request.is_some().then(|| Resolution { data, by: by.map(str::to_owned) })
    }
}
