//! The tool calls of one reply, with the phase of each.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::event::AgentEvent;
use crate::event::action::{ExternalAction, call_of_child};
use crate::event::input::{ActionResult, Decision, Provided, SYSTEM};
use crate::limits::Budget;
use crate::log::edited::Edited;
use crate::message::{
    AssistantMessage, CallId, InputId, Message, ResultStatus, StopReason, ToolCall,
};
use crate::tool::{ApprovalRecord, Resolution};

/// The model of the messages that contain a pattern's calls.
pub(crate) const CALLER: &str = "pattern";

/// The calls of one reply until each has its result.
#[derive(Serialize, Deserialize)]
pub(crate) struct Batch {
    pub(crate) message: Arc<Message>,
    pub(crate) calls: Vec<Call>,
    /// `Some` if the pattern made the calls.
    pub(crate) made: Option<MadeCalls>,
    /// Position in the log of the last action that became pending.
    pub(crate) awaiting_since: u64,
}

/// Details of calls that a pattern made.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct MadeCalls {
    /// Position in the log of the entry that made them.
    pub(crate) at: u64,
    /// The pattern's keys, by call.
    pub(super) keys: BTreeMap<CallId, Arc<str>>,
    /// `true` if models see neither the calls nor their results.
    pub(super) hidden: bool,
    /// The maximum number that run at the same time.
    #[serde(default)]
    pub(crate) at_most: Option<u32>,
    /// `true` if the first call that succeeds makes the others unnecessary.
    #[serde(default)]
    pub(super) first: bool,
}

/// The result of a call that the pattern made under a key.
#[derive(Serialize, Deserialize)]
pub(crate) struct KeyedResult {
    pub(crate) result: Arc<Message>,
    /// The last decision on the call, if it waited for one.
    pub(crate) decision: Option<Arc<Decision>>,
    /// `true` if the session decided, at the deadline.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) by_default: bool,
}

#[derive(Serialize, Deserialize)]
pub(crate) struct Call {
    pub(crate) call: ToolCall,
    pub(crate) phase: Phase,
    pub(crate) result: Option<Arc<Message>>,
    /// The decision on the action for which the call suspended.
    pub(crate) resolution: Option<Resolution>,
    /// The approvals that allowed the call to run, if it needed any.
    pub(crate) approvals: Arc<[ApprovalRecord]>,
    /// The arguments that a decision changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) edited: Option<Edited>,
    /// The sub-agent that works for the call, if one was started.
    pub(crate) child: Option<Box<ChildCall>>,
    /// `true` if `tool_execution_start` was emitted for the call.
    has_started: bool,
}

/// The sub-agent that works for a call.
#[derive(Serialize, Deserialize)]
pub(crate) struct ChildCall {
    pub(crate) session: Arc<str>,
    pub(crate) share: Budget,
    /// The pending actions of the sub-agent, as the parent shows them.
    pub(crate) actions: Vec<Arc<ExternalAction>>,
    /// Decisions that the sub-agent's own log may lack, in the form in which it gets them.
    pub(crate) decided: Vec<ChildDecision>,
}

/// A decision for a sub-agent.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct ChildDecision {
    /// The input of the root.
    pub(crate) input: InputId,
    pub(crate) result: ActionResult,
}

impl ChildCall {
    /// Returns whether the sub-agent has an action or a decision with this name, as known to the
    /// parent.
    pub(crate) fn knows(&self, outer: &str, call: &str) -> bool {
        let inner = call_of_child(call, outer);
        self.actions.iter().any(|action| *action.call == *call)
            || self.decided.iter().any(|decided| inner == Some(&*decided.result.call))
    }
}

/// The phase of a call.
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
            edited: None,
            child: None,
            has_started: false,
        }
    }
}

impl Call {
    /// Returns whether a decision on the call, or for its sub-agent, has not been carried out.
    pub(crate) fn is_decided(&self) -> bool {
        let for_child = self.child.as_ref().is_some_and(|child| !child.decided.is_empty());
        for_child || matches!(self.phase, Phase::Decided { .. })
    }

    /// Returns the arguments that a decision approved, with which the call runs.
    pub(super) fn approved_arguments(&self) -> Option<&Arc<Value>> {
        match &self.phase {
            Phase::Decided { action, decision, .. } if **decision == Decision::Approve => {
                Some(&action.arguments)
            }
            _ => None,
        }
    }

    /// Returns the pending or decided action of the call, and the pending ones of its sub-agent.
    pub(super) fn actions(&self) -> impl Iterator<Item = &Arc<ExternalAction>> {
        let own = match &self.phase {
            Phase::Awaiting(action) | Phase::Decided { action, .. } => Some(action),
            _ => None,
        };
        own.into_iter().chain(self.child.iter().flat_map(|child| &child.actions))
    }

    /// Returns the pending actions of the call and of its sub-agent.
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
    /// Returns whether a call that ends in this phase was made. A call that was skipped or aborted
    /// before it started was not.
    fn is_made(&self, status: ResultStatus) -> bool {
        let has_not_started = matches!(self, Phase::Fresh | Phase::Awaiting(_));
        !(has_not_started && matches!(status, ResultStatus::Skipped | ResultStatus::Aborted))
    }
}

impl Batch {
    /// Opens the batch of a message. Returns `None` if the message has no calls.
    pub(crate) fn of(message: &Arc<Message>, made: Option<MadeCalls>) -> Option<Self> {
        let calls = message.as_assistant().into_iter().flat_map(AssistantMessage::calls);
        let calls: Vec<Call> = calls.map(Call::from).collect();
        let is_open = !calls.is_empty();
        is_open.then(|| Batch { message: message.clone(), calls, made, awaiting_since: 0 })
    }

    /// Returns the key and its recorded result, if the pattern made this call under a key and the
    /// call ends with this result.
    pub(super) fn keyed(
        &self,
        call: &Call,
        result: &Arc<Message>,
    ) -> Option<(Arc<str>, KeyedResult)> {
        let key = self.made.as_ref()?.keys.get(&call.call.id)?;
        let status = result.as_tool_result()?.status;
        let (decision, by) = match &call.phase {
            Phase::Decided { decision, by, .. } => (Some(decision.clone()), by.as_deref()),
            _ => (None, None),
        };
        let by_default = by == Some(SYSTEM);
        let recorded = KeyedResult { result: result.clone(), decision, by_default };
        call.phase.is_made(status).then(|| (key.clone(), recorded))
    }

    /// Returns the calls without a result that the pattern made under keys that begin with `key`.
    pub(super) fn open_under(&self, key: &str) -> impl Iterator<Item = &Call> {
        let keys = self.made.as_ref().map(|made| &made.keys);
        let is_under = move |call: &&Call| {
            let of_call = keys.and_then(|keys| keys.get(&call.call.id));
            call.result.is_none() && of_call.is_some_and(|of_call| of_call.starts_with(key))
        };
        self.calls.iter().filter(is_under)
    }

    /// Returns whether a call has succeeded that makes the others unnecessary.
    pub(crate) fn is_decided(&self) -> bool {
        let succeeded = |call: &Call| {
            let result = call.result.as_ref().and_then(|result| result.as_tool_result());
            result.is_some_and(|result| result.status == ResultStatus::Ok)
        };
        self.made.as_ref().is_some_and(|made| made.first) && self.calls.iter().any(succeeded)
    }

    /// Returns whether models see the calls.
    pub(super) fn is_for_model(&self) -> bool {
        self.made.as_ref().is_none_or(|made| !made.hidden)
    }

    /// Returns whether the token limit or the content filter cut off the reply, so that none of its
    /// calls may run.
    pub(crate) fn is_cut(&self) -> bool {
        self.message
            .as_assistant()
            .is_some_and(|m| matches!(m.stop, StopReason::Length | StopReason::ContentFilter))
    }
}

impl Resolution {
    /// Returns the decision for a suspended tool that is called again, or `None` if the tool did
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
