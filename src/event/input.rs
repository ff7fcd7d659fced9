//! [`Input`] and [`InputEvent`]: what a session is sent, such as requests, steers, follow-ups and
//! decisions.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;

use crate::extensions::Extensions;
use crate::message::{CallId, InputId, RunId, UserMessage};
use crate::model::OutputSchema;
use crate::principal::Principal;
use crate::tool::{DecisionKind, ToolOutput};
use crate::trace_context::TraceContext;

/// The principal of default decisions at a deadline.
pub(crate) const SYSTEM: &str = "system";

/// The event of an [`Input`]; see [`AgentHandle::send`](crate::AgentHandle::send).
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum InputEvent {
    /// A request of the user. During a run it waits.
    UserRequest(Prompt),
    /// The decision on a pending action.
    ExternalActionResult(ActionResult),
    /// A continuation of the conversation from its current state, with or without another message.
    Continue(Option<Prompt>),
    /// A message that should change the run in progress.
    Steer(Prompt),
    /// A message for the sub-agent that works for this call; see
    /// [`AgentHandle::steer_to`](crate::AgentHandle::steer_to).
    SteerTo {
        /// The call that the sub-agent works for. For a sub-agent of a sub-agent, the id consists
        /// of both calls with `~` between them.
        call: CallId,
        /// The message for the sub-agent.
        prompt: Prompt,
    },
    /// A message that waits until the agent would otherwise stop.
    FollowUp(Prompt),
    /// An abort of the run in progress, or of a named run.
    Abort(AbortRequest),
    /// A reset: the run ends, and an empty conversation starts.
    Reset,
    /// A withdrawal of the messages in both queues.
    ClearQueues,
    /// A compaction: a summary that follows these instructions replaces older messages; see
    /// [`AgentHandle::compact`](crate::AgentHandle::compact).
    Compact(Option<String>),
    /// An event for which the pattern waits, or will wait, under this key; see
    /// [`StepContext::wait_for_event`](crate::StepContext::wait_for_event).
    Signal {
        /// The key, at most 256 bytes.
        key: Arc<str>,
        /// The value for the pattern, at most 64 KiB of JSON.
        value: Value,
    },
    /// A request to close the session, so that another process can open it. Its event streams end
    /// as [moved](crate::event::StreamEnd::Moved). Refused with
    /// [`InputError::Busy`](crate::error::InputError::Busy) if a run is in progress or about to
    /// start.
    Release {
        /// The [epoch](crate::log::SessionLog::epoch) of the owner that should close it. A later
        /// owner accepts the input and keeps the session.
        epoch: u64,
    },
}

impl From<ActionResult> for InputEvent {
    fn from(result: ActionResult) -> InputEvent {
        InputEvent::ExternalActionResult(result)
    }
}

impl InputEvent {
    /// Builds an input from the event and an id of the client.
    pub fn with_id(self, id: impl Into<InputId>) -> Input {
        Input { id: Some(id.into()), event: self }
    }
}

/// An event for a session and the client's id of it. An event converts into an input without an id.
///
/// An input that may arrive twice needs an id: if an input with this id was accepted before, even
/// before a restart, it is acknowledged and changes nothing.
///
/// ```
/// use loopwright_core::event::InputEvent;
///
/// let steer = InputEvent::Steer("Use fewer words.".into()).with_id("click-17");
/// assert_eq!(steer.id.as_deref(), Some("click-17"));
/// ```
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Input {
    /// The client's id. For `None`, the session generates `input-N`, so clients should not use that
    /// form.
    pub id: Option<InputId>,
    /// The event.
    pub event: InputEvent,
}

impl<E: Into<InputEvent>> From<E> for Input {
    fn from(event: E) -> Input {
        Input { id: None, event: event.into() }
    }
}

/// A request to stop a run: by default the run in progress, the calls that wait for decisions, or
/// the sleep.
///
/// An abort that may arrive late must name its run, so that it does not stop the next one.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct AbortRequest {
    /// The run to stop, and no other; `None` for the run in progress.
    pub run: Option<RunId>,
}

impl AbortRequest {
    /// Builds a request to stop whatever is in progress.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the run to stop.
    pub fn run(mut self, run: RunId) -> Self {
        self.run = Some(run);
        self
    }
}

/// A message of the user and its options. A string converts into it.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Prompt {
    /// The content of the message.
    pub message: UserMessage,
    /// The urgency of a steer; `None` means the agent's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub urgency: Option<Urgency>,
    /// The schema that the answer to a request must fit; `None` means the agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<Arc<OutputSchema>>,
    /// Values for tools, hooks and predicates during a request. They replace the values of the run
    /// context. Only the [`Principal`] and the [`TraceContext`] are serialised and written to the
    /// log.
    #[serde(flatten, with = "stored_extensions")]
    pub extensions: Extensions,
}

/// Serialisation of the host's values that are stored with an input.
mod stored_extensions {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Stored {
        #[serde(default)]
        principal: Option<Principal>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<TraceContext>,
    }

    pub(super) fn serialize<S: Serializer>(
        extensions: &Extensions,
        to: S,
    ) -> Result<S::Ok, S::Error> {
        let principal = Principal::of(extensions).cloned();
        Stored { principal, trace: TraceContext::of(extensions).cloned() }.serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Extensions, D::Error> {
        let Stored { principal, trace } = Stored::deserialize(from)?;
        let mut extensions = Extensions::new();
        if let Some(principal) = principal {
            extensions = extensions.with(principal);
        }
        Ok(match trace {
            Some(trace) => extensions.with(trace),
            None => extensions,
        })
    }
}

impl<T: Into<UserMessage>> From<T> for Prompt {
    fn from(message: T) -> Self {
        Prompt { message: message.into(), ..Prompt::default() }
    }
}

impl Prompt {
    /// Sets the urgency of a steer.
    pub fn urgency(mut self, urgency: Urgency) -> Self {
        self.urgency = Some(urgency);
        self
    }

    /// Requests a typed answer: JSON that deserialises into `T`.
    pub fn output<T: schemars::JsonSchema>(mut self) -> Self {
        self.output = Some(Arc::new(OutputSchema::of::<T>()));
        self
    }

    /// Adds a value for tools, hooks and predicates. The session keeps it until the next request,
    /// since a decision or `Continue` can resume the run. So a value that owns a handle of the
    /// session keeps the session open.
    pub fn with<T: std::any::Any + Send + Sync>(mut self, value: T) -> Self {
        self.extensions = self.extensions.with(value);
        self
    }
}

impl OutputSchema {
    /// Builds the schema of a type, named after the type.
    pub fn of<T: schemars::JsonSchema>() -> Self {
        let mut name: String = T::schema_name()
            .chars()
            .filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
            .collect();
        name.truncate(64);
        if name.is_empty() {
            name.push_str("answer");
        }
        OutputSchema { name, schema: schemars::schema_for!(T).to_value() }
    }
}

/// The queue in which a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueueKind {
    /// Requests; each starts its own run.
    Request,
    /// Steers; the pattern takes them between its steps.
    Steering,
    /// Follow-ups; the pattern takes them when it would otherwise stop.
    FollowUp,
}

/// The effect of a steer on the work in progress.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// The open batch of calls finishes first.
    AfterTurn,
    /// Pending calls, which have not started or wait for a decision, are skipped.
    #[default]
    SkipPending,
    /// The model's stream and running interruptible tools are cancelled too.
    Interrupt,
}

/// The number of messages that the pattern takes from a queue at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum QueueMode {
    /// All queued messages.
    #[default]
    All,
    /// The oldest message only.
    OneAtATime,
}

/// The decision on an external action, as an input.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ActionResult {
    /// The call that waits.
    pub call: CallId,
    /// The digest of the action as shown to the person who decides.
    pub digest: Arc<str>,
    /// The decision, with its data.
    pub decision: Decision,
    /// The principal who decided. The session itself decides as `system`, which is refused here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<Arc<str>>,
    /// The front end that sent the decision, such as `http` or `terminal`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Arc<str>>,
    /// The digest of the change that was shown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub change: Option<Arc<str>>,
}

impl ActionResult {
    /// Builds a decision on `call`. `digest` is the digest of the action as shown.
    pub fn new(call: impl Into<CallId>, digest: impl Into<Arc<str>>, decision: Decision) -> Self {
        let (call, digest) = (call.into(), digest.into());
        ActionResult { call, digest, decision, by: None, source: None, change: None }
    }

    /// Sets the person or system that decided.
    pub fn by(mut self, who: impl Into<Arc<str>>) -> Self {
        self.by = Some(who.into());
        self
    }

    /// Sets the front end that sent the decision: a short name such as `http` or `terminal`.
    pub fn source(mut self, source: impl Into<Arc<str>>) -> Self {
        self.source = Some(source.into());
        self
    }

    /// Says which change was shown to the person who approves: the
    /// [`change_digest`](crate::event::change_digest) of the [preview](crate::Tool::preview), if it
    /// was one.
    ///
    /// The call is then carried out only if the preview of its tool, computed again when the call
    /// is about to start, is of the same change. Otherwise, or if it fails, the model learns that
    /// the call has not run, or, after a crash, that it may have. A tool whose preview is `None`
    /// runs unchecked, and so does what follows when a tool suspends.
    pub fn change(mut self, shown: impl Into<Option<Arc<str>>>) -> Self {
        self.change = shown.into();
        self
    }
}

/// A decision on a waiting call.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// The call runs with the arguments that were shown.
    Approve,
    /// The call runs with these arguments instead, which are validated.
    ApproveWith(Value),
    /// The call does not run. Its result contains this reason for the model.
    Deny(String),
    /// The result of the call, or the input that a suspended tool asked for.
    Provide(Provided),
}

impl Decision {
    /// Returns the name of the decision in events.
    pub fn name(&self) -> &'static str {
        self.kind().name()
    }

    /// Returns the kind of the decision.
    pub fn kind(&self) -> DecisionKind {
        match self {
            Decision::Approve => DecisionKind::Approve,
            Decision::ApproveWith(_) => DecisionKind::ApproveWith,
            Decision::Deny(_) => DecisionKind::Deny,
            Decision::Provide(_) => DecisionKind::Provide,
        }
    }

    /// Returns whether the tool runs after this decision.
    pub(crate) fn runs_the_tool(&self) -> bool {
        !matches!(self, Decision::Deny(_) | Decision::Provide(Provided::Result(_)))
    }
}

/// The data of a [`Decision::Provide`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Provided {
    /// The result of a call that was carried out outside the agent. The tool does not run.
    Result(ToolOutput),
    /// The input that a suspended tool asked for. The tool is called again with it.
    Input(Value),
}
