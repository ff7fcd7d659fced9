//! What comes out of a session: its events.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ActionRequest, ModelErrorKind};
use crate::limits::Limit;
use crate::log::compaction::Compaction;
use crate::log::input::Decision;
use crate::message::{CallId, InputId, Message, MessageId, ResultStatus, RunId, Usage};
use crate::model::Update;
use crate::tool::ToolUpdate;

/// Something that the agent needs from outside: a call that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ExternalAction {
    /// The call.
    pub call: CallId,
    /// The tool's name.
    pub name: Arc<str>,
    /// What would run: after coercion and hooks.
    pub arguments: Arc<Value>,
    /// To be named in the answer, so that nobody approves what they were not shown.
    pub digest: Arc<str>,
    /// What a suspended tool needs; nothing means the confirmation of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<Arc<ActionRequest>>,
}

/// What a run started from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunCause {
    /// A request of the user.
    UserRequest(InputId),
    /// An answer to an external action.
    ActionResult(CallId),
    /// `Continue`, with the input of its message if it brought one.
    Continue(Option<InputId>),
    /// A steer, while a confirmation was open or too late for the run before.
    Steer,
    /// An abort or a reset of what was open at rest.
    Abort,
    /// The conversation is to be compacted, and nothing else unless somebody says something
    /// meanwhile.
    Compact {
        /// What the summary should mind.
        instructions: Option<Arc<str>>,
    },
}

impl RunCause {
    /// Whether the counters of the limits begin anew.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self, RunCause::UserRequest(_) | RunCause::Steer | RunCause::Compact { .. })
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum RunStatus {
    /// Nothing is left to do.
    Done,
    /// Calls wait for an answer from outside.
    AwaitingAction,
    /// It was aborted.
    Aborted,
    /// It failed.
    Error,
    /// A budget is used up.
    Limit,
}

/// An event with where it stands. Serialises flat, with the event's `type`, and is read back from
/// that.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Envelope {
    /// Numbers the events that tell of items of the log, without gaps, the same after a restart.
    /// Deltas, progress and the start of a message that still streams carry the last number.
    pub seq: u64,
    /// The session.
    pub session_id: Arc<str>,
    /// The run.
    pub run_id: RunId,
    /// For a sub-agent: whose call it works for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<Arc<Parent>>,
    /// Milliseconds since 1970.
    pub time: u64,
    /// What happened.
    #[serde(flatten)]
    pub event: AgentEvent,
}

/// The call that a sub-agent works for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Parent {
    /// The parent's session.
    pub session_id: Arc<str>,
    /// The call in it.
    pub call: CallId,
}

/// What happens in a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "type", rename_all = "snake_case")]
#[non_exhaustive]
pub enum AgentEvent {
    /// A run began.
    AgentStart {
        /// What it started from.
        cause: RunCause,
    },
    /// A turn began, or one that waited for the outside goes on under its number.
    TurnStart {
        /// Its number, from one, since the last request of the user.
        turn: u32,
    },
    /// A message begins.
    MessageStart {
        /// Its number.
        message_id: MessageId,
        /// Whose it is: `user`, `assistant`, `tool_result` or `custom`.
        role: Role,
    },
    /// More of a message that streams.
    MessageUpdate {
        /// Its number.
        message_id: MessageId,
        /// What is added.
        #[serde(flatten)]
        update: Update,
    },
    /// A message is in the conversation.
    MessageEnd {
        /// The whole message.
        message: Arc<Message>,
    },
    /// A tool call began. Calls that are answered without being run have it too, so every
    /// `tool_execution_end` follows one.
    ToolExecutionStart {
        /// The call.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// What runs; what the model wrote where nothing ran.
        arguments: Arc<Value>,
    },
    /// A running tool lets its watchers know something.
    ToolExecutionUpdate {
        /// The call.
        call: CallId,
        /// What it lets know.
        update: ToolUpdate,
    },
    /// A tool call has its result.
    ToolExecutionEnd {
        /// The call.
        call: CallId,
        /// The tool's name.
        name: Arc<str>,
        /// How it ended.
        status: ResultStatus,
        /// Whether the model is told that it failed or did not run.
        is_error: bool,
        /// The result.
        result: Arc<Message>,
    },
    /// The agent needs something from outside.
    ExternalAction(Arc<ExternalAction>),
    /// The outside has answered.
    ExternalActionEnd {
        /// The call.
        call: CallId,
        /// The answer.
        decision: Arc<Decision>,
        /// Who answered, if told.
        #[serde(skip_serializing_if = "Option::is_none")]
        by: Option<Arc<str>>,
    },
    /// What waits has changed.
    QueueUpdate {
        /// Texts of the steering messages that wait.
        steering: Vec<String>,
        /// Texts of the follow-ups that wait.
        follow_up: Vec<String>,
    },
    /// Messages are shown to the model as a summary from here on, or are left out.
    Compaction(Arc<Compaction>),
    /// An event of the pattern's own.
    Custom {
        /// The pattern's name for it.
        kind: Arc<str>,
        /// Its data.
        data: Arc<Value>,
    },
    /// A turn ended.
    TurnEnd {
        /// Its number.
        turn: u32,
        /// The assistant's message, unless nothing was said.
        message: Option<Arc<Message>>,
        /// The results of its calls, in source order; those still open are missing.
        tool_results: Vec<Arc<Message>>,
    },
    /// The conversation begins anew.
    Reset,
    /// A run ended. Comes exactly once per run; where the memory failed at the very end it is told
    /// without an item, and again when the run is taken up later.
    AgentEnd(Arc<RunOutcome>),
}

impl AgentEvent {
    /// Its `type` in JSON.
    pub fn name(&self) -> &'static str {
        match self {
            AgentEvent::AgentStart { .. } => "agent_start",
            AgentEvent::TurnStart { .. } => "turn_start",
            AgentEvent::MessageStart { .. } => "message_start",
            AgentEvent::MessageUpdate { .. } => "message_update",
            AgentEvent::MessageEnd { .. } => "message_end",
            AgentEvent::ToolExecutionStart { .. } => "tool_execution_start",
            AgentEvent::ToolExecutionUpdate { .. } => "tool_execution_update",
            AgentEvent::ToolExecutionEnd { .. } => "tool_execution_end",
            AgentEvent::ExternalAction(_) => "external_action",
            AgentEvent::ExternalActionEnd { .. } => "external_action_end",
            AgentEvent::QueueUpdate { .. } => "queue_update",
            AgentEvent::Compaction(_) => "compaction",
            AgentEvent::Custom { .. } => "custom",
            AgentEvent::TurnEnd { .. } => "turn_end",
            AgentEvent::Reset => "reset",
            AgentEvent::AgentEnd(_) => "agent_end",
        }
    }
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user's.
    User,
    /// The model's.
    Assistant,
    /// A tool's.
    ToolResult,
    /// The application's own.
    Custom,
}

impl Message {
    /// Whose it is.
    pub fn role(&self) -> Role {
        use crate::message::MessageKind;
        match self.body {
            MessageKind::User(_) => Role::User,
            MessageKind::Assistant(_) => Role::Assistant,
            MessageKind::ToolResult(_) => Role::ToolResult,
            MessageKind::Custom(_) => Role::Custom,
        }
    }
}

/// How a run ended, in full.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct RunOutcome {
    /// How.
    pub end: RunStatus,
    /// The error, a sentence for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<Arc<str>>,
    /// The kind of the model's error, if it was one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model_error: Option<ModelErrorKind>,
    /// The budget that is used up, if that was it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<Limit>,
    /// Tokens used since the last request of the user.
    pub usage: Usage,
    /// US dollars spent since the last request of the user, as far as prices are known.
    pub cost: f64,
    /// The typed value, if an output schema was set and the run is done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Arc<Value>>,
    /// Texts of queued messages that were not delivered and are handed back.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handed_back: Vec<String>,
    /// The text of the last reply, empty if there is none.
    pub text: String,
}

impl RunOutcome {
    /// The typed value as `T`; `None` where there is none or it is of another type.
    pub fn output<T: serde::de::DeserializeOwned>(&self) -> Option<T> {
        T::deserialize(self.value.as_deref()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::UserMessage;

    /// One of each kind.
    fn all() -> [AgentEvent; 16] {
        let message = || Arc::new(Message::new(MessageId(1), UserMessage::from("Hello")));
        let (message_id, call) = (MessageId(1), CallId::from("c"));
        let action = ExternalAction {
            call: call.clone(),
            name: "n".into(),
            arguments: Arc::default(),
            digest: "d".into(),
            request: None,
        };
        let outcome = RunOutcome {
            end: RunStatus::Done,
            error: None,
            model_error: None,
            limit: None,
            usage: Usage::default(),
            cost: 0.5,
            value: Some(Arc::new(serde_json::json!({ "n": 1 }))),
            handed_back: Vec::new(),
            text: "Done.".into(),
        };
        let compaction = Compaction {
            why: crate::log::compaction::CompactionCause::Threshold,
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
            AgentEvent::AgentStart { cause: RunCause::Steer },
            AgentEvent::TurnStart { turn: 1 },
            AgentEvent::MessageStart { message_id, role: Role::User },
            AgentEvent::MessageUpdate { message_id, update: Update::Withdrawn },
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
            AgentEvent::ExternalActionEnd { call, decision: Arc::new(Decision::Approve), by: None },
            AgentEvent::QueueUpdate { steering: Vec::new(), follow_up: Vec::new() },
            AgentEvent::Compaction(Arc::new(compaction)),
            AgentEvent::Custom { kind: "k".into(), data: Arc::default() },
            AgentEvent::TurnEnd { turn: 1, message: None, tool_results: Vec::new() },
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

    /// Who is sent events as JSON reads the same ones.
    #[test]
    fn events_are_read_as_they_were_written() {
        let delta = Update::ToolCall { block: 1, delta: "{".into() };
        let delta = AgentEvent::MessageUpdate { message_id: MessageId(2), update: delta };
        for event in all().into_iter().chain([delta]) {
            let parent = Parent { session_id: "p".into(), call: CallId::from("c0") };
            let (parent, session_id) = (Some(Arc::new(parent)), "s".into());
            let told = Envelope { seq: 1, session_id, run_id: RunId(1), parent, time: 7, event };
            let read: Envelope =
                serde_json::from_str(&serde_json::to_string(&told).unwrap()).unwrap();
            assert_eq!(read, told);
        }
    }

    /// Events are made on one thread and dropped on another; up to 120 bytes, with the counts of
    /// their `Arc`, common allocators do that without a lock.
    #[test]
    fn an_event_is_small() {
        assert!(
            size_of::<Envelope>() + 2 * size_of::<usize>() <= 120,
            "{} bytes",
            size_of::<Envelope>()
        );
    }
}
