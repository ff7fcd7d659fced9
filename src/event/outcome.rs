//! [`RunCause`] and [`RunOutcome`]: the causes and outcomes of runs.

use std::fmt;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::ModelErrorKind;
use crate::limits::Limit;
use crate::message::{AssistantMessage, CallId, InputId, StopReason, Usage};

/// The cause of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunCause {
    /// A request of the user.
    UserRequest(InputId),
    /// A decision on an external action.
    ActionResult(CallId),
    /// `Continue`, with the input of its message if it has one.
    Continue(Option<InputId>),
    /// A steer that arrived while an action was pending, or too late for the previous run.
    Steer,
    /// The pattern's [timer](crate::StepContext::sleep_until) under this key rang.
    Timer(Arc<str>),
    /// The [signal](crate::AgentHandle::signal) for which the pattern waited under this key
    /// arrived.
    Signal(Arc<str>),
    /// An abort or a reset while an action was pending, or while the session slept.
    Abort,
    /// A request to compact the conversation. The run does nothing else unless another input
    /// arrives.
    Compact {
        /// Instructions for the summary.
        instructions: Option<Arc<str>>,
    },
}

impl RunCause {
    /// Returns whether the run continues the work for an earlier request.
    pub fn is_continuation(&self) -> bool {
        use RunCause::*;
        matches!(self, ActionResult(_) | Continue(_) | Timer(_) | Signal(_) | Abort)
    }

    /// Returns whether the run resets the counters of the limits.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self, RunCause::UserRequest(_) | RunCause::Steer | RunCause::Compact { .. })
    }
}

/// The ending of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// The agent finished, or answered at its [limit](RunOutcome::limit).
    Done,
    /// Tool calls wait for decisions.
    AwaitingAction,
    /// The agent continues at a [time](RunOutcome::wakes_at), or when an event arrives.
    Sleeping,
    /// The run was aborted.
    Aborted,
    /// The run failed.
    Error,
    /// A budget is used up, or another limit is reached.
    Limit,
    /// The agent finished, but its last reply is not a whole answer; see
    /// [`RunOutcome::incomplete`].
    Incomplete,
}

/// The defect of a reply that is not a whole answer, although the request succeeded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IncompleteReply {
    /// The token limit truncated it.
    Length,
    /// The provider's content filter truncated it.
    ContentFilter,
    /// It has neither text nor calls.
    Empty,
}

impl IncompleteReply {
    /// Returns the defect of a reply, or `None` if the reply is whole, calls tools, failed, or was
    /// cut off by the user.
    pub fn of(reply: &AssistantMessage) -> Option<Self> {
        let has_calls = reply.calls().next().is_some();
        match reply.stop {
            _ if has_calls => None,
            StopReason::Length => Some(IncompleteReply::Length),
            StopReason::ContentFilter => Some(IncompleteReply::ContentFilter),
            StopReason::Stop | StopReason::ToolCalls if !reply.has_text() => {
                Some(IncompleteReply::Empty)
            }
            _ => None,
        }
    }
}

impl fmt::Display for IncompleteReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IncompleteReply::Length => {
                "the reply is incomplete: it reached the model's limit of output tokens"
            }
            IncompleteReply::ContentFilter => {
                "the reply is incomplete: the provider's content filter cut it off"
            }
            IncompleteReply::Empty => {
                "the model's reply is empty: it has no text and calls no tool"
            }
        })
    }
}

/// The outcome of a run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RunOutcome {
    /// The ending of the run.
    pub end: RunStatus,
    /// The text of the error, if the run failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// The kind of the error, if a model caused it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_error: Option<ModelErrorKind>,
    /// The defect of the last reply, if the run ended with [`RunStatus::Incomplete`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incomplete: Option<IncompleteReply>,
    /// The exhausted budget, or another limit, if that ended the run. With [`RunStatus::Done`], the
    /// text is the answer at the [limit](crate::limits::WrapUp).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// The time at which the session's next [wait](crate::StepContext::sleep_until) is over, in
    /// milliseconds since 1970. Missing with [`RunStatus::Sleeping`] if the agent waits for an
    /// event only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wakes_at: Option<u64>,
    /// Turns since the last request of the user: the number of the last `turn_start`. Each is a
    /// reply of the conversation and its calls.
    #[serde(default)]
    pub turns: u32,
    /// Requests to models since the last request of the user, as budgets count them
    /// ([`Budget::turns`](crate::limits::Budget::turns)): also detached ones, failed ones, and
    /// requests of sub-agents.
    #[serde(default)]
    pub requests: u32,
    /// Tokens used since the last request of the user.
    pub usage: Usage,
    /// Cost since the last request of the user in US dollars, as far as prices are known.
    pub cost: f64,
    /// The typed value, if an output schema was set and the run ended with `Done`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Arc<Value>>,
    /// The texts of undelivered queued messages, which are handed back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_back: Vec<String>,
    /// The text of the last reply, whatever the pattern called after it; empty if the run has no
    /// reply.
    pub text: String,
}

impl RunOutcome {
    /// Returns whether the agent had nothing left to do when the run ended: it was done, or sleeps.
    /// Returns `false` for an answer at a limit, for a failed or aborted run, and while a decision
    /// is missing.
    pub fn has_finished(&self) -> bool {
        use RunStatus::*;
        matches!(self.end, Done | Sleeping | Incomplete) && self.limit.is_none()
    }

    /// Returns the typed value as `T`, or `None` if the run has no value or the value does not fit
    /// `T`.
    pub fn output<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.value.as_deref()?).ok()
    }
}
