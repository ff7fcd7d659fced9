//! The inputs and the events of a session: [`AgentEvent`], and the streams of them.

pub(crate) mod action;
pub(crate) mod hub;
pub(crate) mod input;
pub(crate) mod outcome;
pub(crate) mod owner_note;

pub use self::action::{ExternalAction, change_digest};
pub use self::hub::{EventStream, StreamEnd};
pub use self::input::{
    AbortRequest, ActionResult, Decision, Input, InputEvent, Prompt, Provided, QueueKind,
    QueueMode, Urgency,
};
pub use self::outcome::{IncompleteReply, RunCause, RunOutcome, RunStatus};
pub use self::owner_note::{Held, OwnerNote};

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::compaction::Compaction;
use crate::message::{CallId, InputId, Message, MessageId, ResultStatus, RunId};
use crate::model::{RetryNotice, Update};
use crate::tool::{ApprovalRecord, ToolUpdate};
use crate::trace_context::TraceContext;

/// An event with its number, session, run and time. Its JSON is one flat object with the `type` of
/// the event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Envelope {
    /// Number of the event. Events of the log are numbered without gaps, and keep their numbers
    /// after a restart. Deltas, progress, retries and the start of a streaming message have the
    /// number of the last such event.
    pub seq: u64,
    /// The id of the session.
    pub session_id: Arc<str>,
    /// The number of the run.
    pub run_id: RunId,
    /// The call that a sub-agent works for; `None` for other sessions.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<Parent>>,
    /// Time in milliseconds since 1970.
    pub time: u64,
    /// The content of the event.
    #[serde(flatten)]
    pub event: AgentEvent,
}

impl Envelope {
    /// Builds an envelope without a parent, for tests of front ends. The session numbers and stamps
    /// its events itself.
    pub fn new(
        seq: u64,
        session_id: impl Into<Arc<str>>,
        run_id: RunId,
        time: u64,
        event: AgentEvent,
    ) -> Self {
        Envelope { seq, session_id: session_id.into(), run_id, parent: None, time, event }
    }
}

/// The call that a sub-agent works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Parent {
    /// The session of the parent.
    pub session_id: Arc<str>,
    /// The call in that session.
    pub call: CallId,
    /// The session at the root, through which alone the session is opened; `None` if the host has
    /// set the parent itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root: Option<Arc<str>>,
}

impl Parent {
    /// Builds a reference to a call of a session.
    pub fn new(session_id: impl Into<Arc<str>>, call: impl Into<CallId>) -> Self {
        Parent { session_id: session_id.into(), call: call.into(), root: None }
    }
}

/// An event of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentEvent {
    /// A run started.
    AgentStart {
        /// The cause of the run.
        cause: RunCause,
        /// The trace context of the run, if the host gave one.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        trace: Option<Arc<TraceContext>>,
    },
    /// A turn started, or a turn that waited for a decision continues under its number.
    TurnStart {
        /// The number of the turn, counted from one since the last request of the user.
        turn: u32,
    },
    /// A message started.
    MessageStart {
        /// The number of the message.
        message_id: MessageId,
        /// The role: `user`, `assistant`, `tool_result` or `custom`.
        role: Role,
    },
    /// A streaming message changed.
    MessageUpdate {
        /// The number of the message.
        message_id: MessageId,
        /// The change of the message.
        #[serde(flatten)]
        update: Update,
    },
    /// A detached reply that is [shown](crate::Ask::shown) changed. Several can stream at once.
    /// There is no start: the first update of a number begins a reply. It ends with `message_end`,
    /// or is withdrawn.
    DetachedUpdate {
        /// The number of the message.
        message_id: MessageId,
        /// The pattern's name for who speaks.
        speaker: Arc<str>,
        /// The change of the message.
        #[serde(flatten)]
        update: Update,
    },
    /// A request to the model failed and will be sent again after a delay.
    Retry(Arc<RetryNotice>),
    /// A message was added to the conversation, or a detached reply to the history.
    MessageEnd {
        /// The whole message.
        message: Arc<Message>,
    },
    /// A tool call started. Calls that do not run have this event too, so every
    /// `tool_execution_end` follows one.
    ToolExecutionStart {
        /// The call that started.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// The arguments with which the call runs; the model's if it does not run.
        arguments: Arc<Value>,
    },
    /// A running tool sent an update.
    ToolExecutionUpdate {
        /// The call that runs.
        call: CallId,
        /// The tool's update.
        update: ToolUpdate,
    },
    /// A tool call ended.
    ToolExecutionEnd {
        /// The call that ended.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// The status of the result.
        status: ResultStatus,
        /// `true` if the call failed or did not run, as the model sees it.
        is_error: bool,
        /// The result, as a message.
        result: Arc<Message>,
    },
    /// The agent needs something from outside.
    ExternalAction(Arc<ExternalAction>),
    /// A principal approved an action that needs more approvals.
    ExternalActionApproval {
        /// The approved call.
        call: CallId,
        /// The approval, with its principal and time.
        approval: Arc<ApprovalRecord>,
    },
    /// A decision resolved an action.
    ExternalActionEnd {
        /// The call that waited.
        call: CallId,
        /// The decision, without the answer to a secret question.
        decision: Arc<Decision>,
        /// The principal who decided, if known; `system` for the default decision at the deadline.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// A queue of steers or follow-ups changed. The event has the change, not the queue.
    QueueUpdate {
        /// The message that was added.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        added: Option<Arc<QueuedText>>,
        /// The inputs whose messages were removed, because they were delivered, withdrawn or handed
        /// back.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        removed: Vec<InputId>,
    },
    /// Later requests contain a summary in place of older messages, or leave them out.
    Compaction(Arc<Compaction>),
    /// The pattern emitted an event.
    Custom {
        /// The pattern's name for it.
        kind: Arc<str>,
        /// The content of the event.
        data: Arc<Value>,
    },
    /// A turn ended.
    TurnEnd {
        /// The number of the turn.
        turn: u32,
        /// The reply; `None` if the turn has none.
        message: Option<Arc<Message>>,
        /// The results of the turn's calls in source order, without open calls.
        tool_results: Vec<Arc<Message>>,
    },
    /// The session waits for a person's decision, because processes ended while they worked on it.
    Held(Held),
    /// The conversation was reset.
    Reset,
    /// A run ended. Emitted once per run. If the memory fails at the end of a run, the event is
    /// emitted without a log entry, and again when the run is resumed.
    AgentEnd(Arc<RunOutcome>),
}

impl AgentEvent {
    /// Returns the `type` of the event in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            AgentEvent::AgentStart { .. } => "agent_start",
            AgentEvent::TurnStart { .. } => "turn_start",
            AgentEvent::MessageStart { .. } => "message_start",
            AgentEvent::MessageUpdate { .. } => "message_update",
            AgentEvent::DetachedUpdate { .. } => "detached_update",
            AgentEvent::Retry(_) => "retry",
            AgentEvent::MessageEnd { .. } => "message_end",
            AgentEvent::ToolExecutionStart { .. } => "tool_execution_start",
            AgentEvent::ToolExecutionUpdate { .. } => "tool_execution_update",
            AgentEvent::ToolExecutionEnd { .. } => "tool_execution_end",
            AgentEvent::ExternalAction(_) => "external_action",
            AgentEvent::ExternalActionApproval { .. } => "external_action_approval",
            AgentEvent::ExternalActionEnd { .. } => "external_action_end",
            AgentEvent::QueueUpdate { .. } => "queue_update",
            AgentEvent::Compaction(_) => "compaction",
            AgentEvent::Custom { .. } => "custom",
            AgentEvent::TurnEnd { .. } => "turn_end",
            AgentEvent::Held(_) => "held",
            AgentEvent::Reset => "reset",
            AgentEvent::AgentEnd(_) => "agent_end",
        }
    }
}

/// A message that was added to a queue.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct QueuedText {
    /// The input with the message.
    pub input: InputId,
    /// The queue of the message.
    pub queue: QueueKind,
    /// The text of the message.
    pub text: String,
}

impl QueuedText {
    /// Builds the description of a queued message.
    pub fn new(input: impl Into<InputId>, queue: QueueKind, text: impl Into<String>) -> Self {
        QueuedText { input: input.into(), queue, text: text.into() }
    }
}

/// The role of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Role {
    /// A message of the user.
    User,
    /// A reply of the model.
    Assistant,
    /// The result of a tool call.
    ToolResult,
    /// A message of the application.
    Custom,
    /// A reply to a detached request that is shown.
    Detached,
}

impl Message {
    /// Returns the role of the message.
    pub fn role(&self) -> Role {
        use crate::message::MessageKind;
        match self.body {
            MessageKind::User(_) => Role::User,
            MessageKind::Assistant(_) => Role::Assistant,
            MessageKind::ToolResult(_) => Role::ToolResult,
            MessageKind::Custom(_) => Role::Custom,
            MessageKind::Detached(_) => Role::Detached,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::error::{ModelError, ModelErrorKind};
    use crate::event::outcome::RunStatus;
    use crate::message::{Usage, UserMessage};

    /// Returns one event of each kind.
    fn all() -> [AgentEvent; 20] {
        let message = || Arc::new(Message::new(MessageId(1), UserMessage::from("Hello")));
        let failed = ModelError::new(ModelErrorKind::Overloaded, "Busy.");
        let retry = RetryNotice::new(2, 10, Duration::from_secs(1), &failed);
        let (message_id, call) = (MessageId(1), CallId::from("c"));
        let action = ExternalAction::new(call.clone(), "n", Arc::default(), "d");
        let approval =
            ApprovalRecord { by: Some("ann".into()), time: 1, source: None, change: None };
        let outcome = RunOutcome {
            end: RunStatus::Done,
            error: None,
            model_error: None,
            incomplete: None,
            limit: None,
            wakes_at: None,
            turns: 1,
            requests: 2,
            usage: Usage::default(),
            cost: 0.5,
            value: Some(Arc::new(serde_json::json!({ "n": 1 }))),
            handed_back: Vec::new(),
            text: "Done.".into(),
        };
        let compaction = Compaction {
            why: crate::compaction::CompactionCause::Threshold,
            first: message_id,
            last: message_id,
            messages: 1,
            message: message(),
            summarised: false,
            error: None,
            tokens_before: 0,
            tokens_after: 0,
        };
        let (is_error, status) = (false, ResultStatus::Ok);
        [
            AgentEvent::AgentStart {
                cause: RunCause::Steer,
                trace: Some(TraceContext::new(1).into()),
            },
            AgentEvent::TurnStart { turn: 1 },
            AgentEvent::MessageStart { message_id, role: Role::User },
            AgentEvent::MessageUpdate { message_id, update: Update::Withdrawn },
            AgentEvent::DetachedUpdate {
                message_id,
                speaker: "s".into(),
                update: Update::Withdrawn,
            },
            AgentEvent::Retry(Arc::new(retry)),
            AgentEvent::MessageEnd { message: message() },
            AgentEvent::ToolExecutionStart {
                call: call.clone(),
                name: "n".into(),
                arguments: Arc::default(),
            },
            AgentEvent::ToolExecutionUpdate {
                call: call.clone(),
                update: ToolUpdate::Output("t".into()),
            },
            AgentEvent::ToolExecutionEnd {
                call: call.clone(),
                name: "n".into(),
                status,
                is_error,
                result: message(),
            },
            AgentEvent::ExternalAction(Arc::new(action)),
            AgentEvent::ExternalActionApproval { call: call.clone(), approval: approval.into() },
            AgentEvent::ExternalActionEnd { call, decision: Arc::new(Decision::Approve), by: None },
            AgentEvent::QueueUpdate {
                added: Some(Arc::new(QueuedText::new("i", QueueKind::Steering, "t"))),
                removed: vec!["j".into()],
            },
            AgentEvent::Compaction(Arc::new(compaction)),
            AgentEvent::Custom { kind: "k".into(), data: Arc::default() },
            AgentEvent::TurnEnd { turn: 1, message: None, tool_results: Vec::new() },
            AgentEvent::Held(Held { owners: 2, unread: 0 }),
            AgentEvent::Reset,
            AgentEvent::AgentEnd(Arc::new(outcome)),
        ]
    }

    #[test]
    fn names_are_the_types_in_json_and_none_is_forgotten() {
        let all = all();
        let names: Vec<Value> = all.iter().map(|event| event.name().into()).collect();
        let types: Vec<Value> =
            all.iter().map(|event| serde_json::to_value(event).unwrap()["type"].take()).collect();
        assert_eq!(names, types);
        let schema = schemars::schema_for!(AgentEvent);
        assert_eq!(schema.get("oneOf").and_then(Value::as_array).map(Vec::len), Some(all.len()));
    }

    /// A client parses events from JSON as the session wrote them.
    #[test]
    fn events_are_read_as_they_were_written() {
        let delta = Update::ToolCall { block: 1, delta: "{".into() };
        let delta = AgentEvent::MessageUpdate { message_id: MessageId(2), update: delta };
        for event in all().into_iter().chain([delta]) {
            let parent = Parent::new("p", "c0");
            let (parent, session_id) = (Some(Arc::new(parent)), "s".into());
            let sent = Envelope { seq: 1, session_id, run_id: RunId(1), parent, time: 7, event };
            let read: Envelope =
                serde_json::from_str(&serde_json::to_string(&sent).unwrap()).unwrap();
            assert_eq!(read, sent);
        }
    }

    /// Events are allocated on one thread and freed on another. Common allocators do that without a
    /// lock up to 120 bytes, including the counts of the `Arc`.
    #[test]
    fn an_event_is_small() {
        assert!(
            size_of::<Envelope>() + 2 * size_of::<usize>() <= 120,
            "{} bytes",
            size_of::<Envelope>()
        );
    }
}
