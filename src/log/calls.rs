//! The tool calls of one reply, and the phase of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::limits::Budget;
use crate::log::action::{ExternalAction, call_of_child};
use crate::log::event::AgentEvent;
use crate::log::input::{ActionResult, Decision, Provided};
use crate::message::{AssistantMessage, CallId, Message, ResultStatus, StopReason, ToolCall};
use crate::tool::{ApprovalRecord, Resolution};

/// Holds the calls of one reply until each has its result.
#[derive(Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) message: Arc<Message>,
    pub(crate) calls: Vec<Call>,
    /// Set if the pattern made the calls.
    pub(crate) made: Option<MadeCalls>,
    /// The position in the log of the last action that became pending.
    pub(crate) asked_at: u64,
}

/// Describes calls that a pattern made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MadeCalls {
    /// The position in the log at which they were made.
    pub(crate) at: u64,
    /// The pattern's keys.
    pub(super) keys: BTreeMap<CallId, Arc<str>>,
    /// Whether the calls and their results are left out of what models see.
    pub(super) hidden: bool,
}

/// Holds the result of a call that the pattern made under a key.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeyedResult {
    pub(crate) result: Arc<Message>,
    /// The last decision on the call, if it waited for one.
    pub(crate) decision: Option<Arc<Decision>>,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) call: ToolCall,
    pub(crate) phase: Phase,
    pub(crate) result: Option<Arc<Message>>,
    /// The decision on the action for which it suspended.
    pub(crate) resolution: Option<Resolution>,
    /// Who allowed it to run, if decisions did.
    pub(crate) approvals: Arc<[ApprovalRecord]>,
    /// The sub-agent that works for it, if one was started.
    pub(crate) child: Option<Box<ChildCall>>,
    /// Whether its `tool_execution_start` was emitted.
    has_started: bool,
}

/// Describes the sub-agent that works for a call.
#[derive(Serialize, Deserialize)]
pub(crate) struct ChildCall {
    pub(crate) session: Arc<str>,
    pub(crate) share: Budget,
    /// Its pending actions, as the parent shows them.
    pub(crate) actions: Vec<Arc<ExternalAction>>,
    /// The decisions that its own log may not have, as it gets them.
    pub(crate) decided: Vec<ActionResult>,
}

impl ChildCall {
    /// Returns whether it has an action or a decision with this name, as the parent knows it.
    pub(crate) fn knows(&self, outer: &str, call: &str) -> bool {
        let inner = call_of_child(call, outer);
        self.actions.iter().any(|action| *action.call == *call)
            || self.decided.iter().any(|decided| inner == Some(&*decided.call))
    }
}

/// Names the phase of a call.
#[derive(Debug, Clone, Serialize, Deserialize)]
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
            approvals: Arc::default(),
            child: None,
            has_started: false,
        }
    }
}

impl Call {
    /// Returns whether a decision on it, or for its sub-agent, has not been carried out.
    pub(crate) fn is_decided(&self) -> bool {
        let for_child = self.child.as_ref().is_some_and(|child| !child.decided.is_empty());
        for_child || matches!(self.phase, Phase::Decided { .. })
    }

    /// Returns the arguments that a decision approved, which are those that run.
    pub(super) fn approved_arguments(&self) -> Option<&Arc<Value>> {
        match &self.phase {
            Phase::Decided { action, decision, .. } if **decision == Decision::Approve => {
                Some(&action.arguments)
            }
            _ => None,
        }
    }

    /// Returns its pending action, and those of its sub-agent.
    pub(super) fn actions_mut(&mut self) -> impl Iterator<Item = &mut Arc<ExternalAction>> {
        let own = if let Phase::Awaiting(action) = &mut self.phase { Some(action) } else { None };
        own.into_iter().chain(self.child.iter_mut().flat_map(|child| &mut child.actions))
    }

    /// Emits `tool_execution_start`, once.
    pub(crate) fn emit_start(&mut self, arguments: Arc<Value>, emit: &mut dyn FnMut(AgentEvent)) {
        if !std::mem::replace(&mut self.has_started, true) {
            let (call, name) = (self.call.id.clone(), self.call.name.clone());
            emit(AgentEvent::ToolExecutionStart { call, name, arguments });
        }
    }
}

impl Phase {
    /// Returns whether a call that ends in this phase has been made: not if it was skipped or
    /// aborted before it started.
    fn is_made(&self, status: ResultStatus) -> bool {
        let has_not_started = matches!(self, Phase::Fresh | Phase::Awaiting(_));
        !(has_not_started && matches!(status, ResultStatus::Skipped | ResultStatus::Aborted))
    }
}

impl Batch {
    /// Opens the batch of this message, unless it has no calls.
    pub(crate) fn of(message: &Arc<Message>, made: Option<MadeCalls>) -> Option<Self> {
        let calls = message.as_assistant().into_iter().flat_map(AssistantMessage::calls);
        let calls: Vec<Call> = calls.map(Call::from).collect();
        let is_open = !calls.is_empty();
        is_open.then(|| Batch { message: message.clone(), calls, made, asked_at: 0 })
    }

    /// Returns the key and what is recorded under it if the pattern made this call under a key and
    /// the call ends with this result.
    pub(super) fn keyed(
        &self,
        call: &Call,
        result: &Arc<Message>,
    ) -> Option<(Arc<str>, KeyedResult)> {
        let key = self.made.as_ref()?.keys.get(&call.call.id)?;
        let status = result.as_tool_result()?.status;
        let decision = match &call.phase {
            Phase::Decided { decision, .. } => Some(decision.clone()),
            _ => None,
        };
        let recorded = KeyedResult { result: result.clone(), decision };
        call.phase.is_made(status).then(|| (key.clone(), recorded))
    }

    /// Computes the digests of a stored batch again. A decision on something else than what is
    /// stored does not hold.
    pub(super) fn check_digests(&mut self) {
        for call in &mut self.calls {
            if let Phase::Decided { action, .. } = &call.phase {
                let stored = ExternalAction::from_log(action);
                if stored.digest != action.digest {
                    call.phase = Phase::Awaiting(stored);
                }
            }
            call.actions_mut().for_each(|action| *action = ExternalAction::from_log(action));
        }
    }

    /// Returns whether models see the calls.
    pub(super) fn is_for_model(&self) -> bool {
        self.made.as_ref().is_none_or(|made| !made.hidden)
    }

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
        time: u64,
    ) -> Option<Resolution> {
        let data = match decision {
            Decision::Approve => Value::Null,
            Decision::Provide(Provided::Input(data)) => data.clone(),
            _ => return None,
        };
        let request = action.request.clone()?;
        Some(Resolution { request, data, by: by.map(str::to_owned), time })
    }
}
