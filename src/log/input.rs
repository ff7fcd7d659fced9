//! What goes into a session: requests, steers, follow-ups, answers.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::extensions::Extensions;
use crate::message::{CallId, InputId, UserMessage};
use crate::model::OutputSchema;
use crate::tool::ToolOutput;

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
    /// Replace older messages by a summary, minding these instructions; see
    /// [`AgentHandle::compact`](crate::AgentHandle::compact).
    Compact(Option<String>),
}

/// A message of the user and what goes with it.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Prompt {
    /// What is said.
    pub message: UserMessage,
    /// The client's id of this input; the same id again changes nothing. Where it is missing one is
    /// made, `input-N`: a client that names its own should not use that form.
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

/// Where a message waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum QueueKind {
    /// A request waits for a run of its own.
    Request,
    /// A steer waits for the next look.
    Steering,
    /// A follow-up waits for the end.
    FollowUp,
}

/// What a steer does to what is going on.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema,
)]
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Decision {
    /// Run it as shown.
    Approve,
    /// Run it with these arguments instead; they are validated.
    ApproveWith(Value),
    /// Do not run it; the model is told why.
    Deny(String),
    /// Supply what is missing: the result of a call that was carried out elsewhere, or the input
    /// that a suspended tool asked for.
    Provide(Provided),
}

impl Decision {
    /// Its name in events.
    pub fn name(&self) -> &'static str {
        match self {
            Decision::Approve => "approve",
            Decision::ApproveWith(_) => "approve_with",
            Decision::Deny(_) => "deny",
            Decision::Provide(_) => "provide",
        }
    }
}

/// What a [`Decision::Provide`] supplies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Provided {
    /// The result of a call that was carried out elsewhere. The tool does not run.
    Result(ToolOutput),
    /// The input that a suspended tool asked for. The tool is called again with it.
    Input(Value),
}
