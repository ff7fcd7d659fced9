//! What goes into a session and what comes out of it.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::{ModelErrorKind, Need};
use crate::limits::Limit;
use crate::memory::InputId;
use crate::message::{CallId, Message, MessageId, ResultStatus, RunId, Usage, UserMessage};
use crate::model::OutputSchema;
use crate::tool::{Extensions, ToolOutput, ToolUpdate};

/// Something for a session's input loop; see [`AgentHandle::send`](crate::AgentHandle::send).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum InputEvent {
    /// A request of the user. During a run it waits its turn.
    UserRequest(Prompt),
    /// The answer to an open external action.
    ExternalActionResult(ActionResult),
    /// Go on from where the conversation stands, with or without a further message.
    Continue(Option<Prompt>),
    /// A message that should change the run that is going on.
    Steer(Prompt),
    /// A message that waits until the agent would otherwise stop.
    FollowUp(Prompt),
    /// Stop the run.
    Abort,
    /// Stop the run and begin the conversation anew.
    Reset,
    /// Take back what waits in both queues.
    ClearQueues,
}

/// A message of the user and what goes with it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Prompt {
    /// What is said.
    pub message: UserMessage,
    /// The client's id of this input; the same id again changes nothing. One is made where it is missing.
    pub id: Option<InputId>,
    /// For a steer: how urgent it is, if not as the agent's default says.
    pub urgency: Option<Urgency>,
    /// For a request: the schema that the answer must fit, instead of the agent's.
    pub output: Option<Arc<OutputSchema>>,
    /// For a request: values for tools, hooks and predicates, over those of the run context.
    pub extensions: Extensions,
}

impl<T: Into<UserMessage>> From<T> for Prompt {
    fn from(message: T) -> Self {
        Prompt { message: message.into(), ..Prompt::default() }
    }
}

impl Prompt {
    /// With the client's id.
    pub fn id(mut self, id: impl Into<InputId>) -> Self {
        self.id = Some(id.into());
        self
    }
    /// With an urgency of its own.
    pub fn urgency(mut self, urgency: Urgency) -> Self {
        self.urgency = Some(urgency);
        self
    }
    /// With a typed answer: the run converges only on JSON that fits `T`.
    pub fn output<T: schemars::JsonSchema>(mut self) -> Self {
        self.output = Some(Arc::new(OutputSchema::of::<T>()));
        self
    }
    /// With a value for tools, hooks and predicates.
    pub fn with<T: std::any::Any + Send + Sync>(mut self, value: T) -> Self {
        self.extensions = self.extensions.with(value);
        self
    }
}

impl OutputSchema {
    /// The schema of a type, under the type's name.
    pub fn of<T: schemars::JsonSchema>() -> Self {
        let mut name: String =
            T::schema_name().chars().filter(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-')).collect();
        name.truncate(64);
        if name.is_empty() {
            name.push_str("answer");
        }
        OutputSchema { name, schema: schemars::schema_for!(T).to_value() }
    }
}

/// Where a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Lane {
    /// A request waits for a run of its own.
    Request,
    /// A steer waits for the next look.
    Steering,
    /// A follow-up waits for the end.
    FollowUp,
}

/// What a steer does to what is going on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Urgency {
    /// The batch finishes first.
    AfterTurn,
    /// Calls that have not started, or wait for confirmation, are skipped.
    #[default]
    SkipPending,
    /// The model's stream and running interruptible tools are cancelled too.
    Interrupt,
}

/// How many messages of a queue are taken at a look.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueMode {
    /// All that wait.
    All,
    /// The first.
    OneAtATime,
}

/// The outside's answer to an external action.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ActionResult {
    /// The call that waits.
    pub call: CallId,
    /// The digest of what was shown.
    pub digest: Arc<str>,
    /// The answer.
    pub decision: Decision,
    /// Who answers.
    pub by: Option<Arc<str>>,
    /// The client's id of this input; the same id again changes nothing.
    pub id: Option<InputId>,
}

impl ActionResult {
    /// An answer.
    pub fn new(call: impl Into<CallId>, digest: impl Into<Arc<str>>, decision: Decision) -> Self {
        ActionResult { call: call.into(), digest: digest.into(), decision, by: None, id: None }
    }
    /// Given by this person or system.
    pub fn by(mut self, who: impl Into<Arc<str>>) -> Self {
        self.by = Some(who.into());
        self
    }
    /// With the client's id.
    pub fn id(mut self, id: impl Into<InputId>) -> Self {
        self.id = Some(id.into());
        self
    }
}

/// What the outside decides about a call that waits.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// Run it as shown.
    Approve,
    /// Run it with these arguments instead; they are validated.
    ApproveWith(Value),
    /// Do not run it; the model is told why.
    Deny(String),
    /// It was done elsewhere; this is its result.
    Result(ToolOutput),
    /// What a suspended tool asked for; it is called again with this.
    Answer(Value),
}

impl Decision {
    /// Its name in events.
    pub fn name(&self) -> &'static str {
        match self {
            Decision::Approve => "approve",
            Decision::ApproveWith(_) => "approve_with",
            Decision::Deny(_) => "deny",
            Decision::Result(_) => "result",
            Decision::Answer(_) => "answer",
        }
    }
}

/// Something that the agent needs from outside: a call that waits for an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
    pub need: Option<Arc<Need>>,
}

/// What a run started from.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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
}

impl RunCause {
    /// Whether the counters of the limits begin anew.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self, RunCause::UserRequest(_) | RunCause::Steer)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum EndKind {
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

/// An event with where it stands. Serialises flat, with the event's `type`.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    /// The parent's session.
    pub session_id: Arc<str>,
    /// The call in it.
    pub call: CallId,
}

/// What happens in a session.
#[derive(Debug, Clone, PartialEq, Serialize)]
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
    ExternalAction(ExternalAction),
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
    /// A run ended. Comes exactly once per run.
    AgentEnd(Arc<RunOutcome>),
}

/// Whose message it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
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
        use crate::message::Body;
        match self.body {
            Body::User(_) => Role::User,
            Body::Assistant(_) => Role::Assistant,
            Body::ToolResult(_) => Role::ToolResult,
            Body::Custom(_) => Role::Custom,
        }
    }
}

/// One piece of a message that streams; never the whole of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Update {
    /// Text.
    Text {
        /// The block of the message.
        block: u32,
        /// What is added.
        delta: String,
    },
    /// Thinking.
    Thinking {
        /// The block of the message.
        block: u32,
        /// What is added.
        delta: String,
    },
    /// A tool call begins.
    ToolCallStart {
        /// The block of the message.
        block: u32,
        /// The tool's name.
        name: Arc<str>,
    },
    /// Raw JSON of a call's arguments.
    ToolCall {
        /// The block of the message.
        block: u32,
        /// What is added.
        delta: String,
    },
    /// Forget this message's deltas so far: the attempt is retried, was lost in a crash, or nothing was said.
    Withdrawn,
}

/// How a run ended, in full.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RunOutcome {
    /// How.
    pub end: EndKind,
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
    #[serde(skip_serializing_if = "Vec::is_empty")]
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
