//! [`Task`]: what has followed from a message of the user so far, and its state.

use std::fmt;

use loopwright_core::event::{
    AgentEvent, Envelope, ExternalAction, Role, RunCause, RunOutcome, RunStatus,
};
use loopwright_core::message::{Message, MessageId};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::failure::RunFailure;
use crate::time::rfc_3339;

/// Names a task: by the message that has started it, and the context.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskId {
    /// The client's id of the message.
    pub message: String,
    /// The context.
    pub context: String,
}

impl TaskId {
    /// Names the task of this message.
    pub fn new(message: impl Into<String>, context: impl Into<String>) -> Self {
        TaskId { message: message.into(), context: context.into() }
    }

    /// Reads an id as it is displayed.
    pub fn parse(text: &str) -> Option<Self> {
        let (message, context) = text.split_once('.')?;
        let mut bytes = Vec::new();
        let mut rest = message.as_bytes();
        while let [first, tail @ ..] = rest {
            rest = tail;
            match (first, tail) {
                (b'%', [high, low, after @ ..])
                    if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() =>
                {
                    let digits = [*high, *low];
                    let digits = std::str::from_utf8(&digits).ok()?;
                    bytes.push(u8::from_str_radix(digits, 16).ok()?);
                    rest = after;
                }
                (b'%', _) => return None,
                (byte, _) => bytes.push(*byte),
            }
        }
        let message = String::from_utf8(bytes).ok()?;
        let is_empty = message.is_empty() || context.is_empty();
        (!is_empty).then(|| TaskId::new(message, context))
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for byte in self.message.bytes() {
            match byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b':') {
                true => write!(f, "{}", char::from(byte))?,
                false => write!(f, "%{byte:02X}")?,
            }
        }
        write!(f, ".{}", self.context)
    }
}

/// Represents the state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum TaskState {
    /// The client has not said which.
    #[serde(rename = "TASK_STATE_UNSPECIFIED")]
    Unspecified,
    /// Its message waits until an earlier task has ended.
    #[serde(rename = "TASK_STATE_SUBMITTED")]
    Submitted,
    /// A run is in progress.
    #[serde(rename = "TASK_STATE_WORKING")]
    Working,
    /// The agent has answered.
    #[serde(rename = "TASK_STATE_COMPLETED")]
    Completed,
    /// The run has failed.
    #[serde(rename = "TASK_STATE_FAILED")]
    Failed,
    /// The run was aborted.
    #[serde(rename = "TASK_STATE_CANCELED")]
    Canceled,
    /// Actions wait for decisions or answers.
    #[serde(rename = "TASK_STATE_INPUT_REQUIRED")]
    InputRequired,
    /// Not used here.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// Not used here.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// Returns whether a task in this state has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskState::Completed | TaskState::Failed | TaskState::Canceled)
    }

    fn of(outcome: &RunOutcome) -> Self {
        match outcome.end {
            RunStatus::Done => TaskState::Completed,
            RunStatus::AwaitingAction => TaskState::InputRequired,
            RunStatus::Aborted => TaskState::Canceled,
            _ => TaskState::Failed,
        }
    }
}

/// Holds a task as far as it has come.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Task {
    /// Its id.
    pub id: TaskId,
    /// Its state.
    pub state: TaskState,
    time: u64,
    message: Option<Value>,
    artifacts: Vec<Value>,
    history: Vec<Value>,
}

impl Task {
    /// Returns a task whose message waits until an earlier one has ended.
    pub fn submitted(id: TaskId, time: u64) -> Self {
        let (artifacts, history) = (Vec::new(), Vec::new());
        Task { id, state: TaskState::Submitted, time, message: None, artifacts, history }
    }

    /// Leaves out the artifacts, for a list, or for a stream that repeats them.
    pub fn without_artifacts(mut self) -> Self {
        self.artifacts.clear();
        self
    }

    /// Adds what the task waits for: the session's pending actions.
    pub fn pending(mut self, actions: &[ExternalAction]) -> Self {
        if self.state == TaskState::InputRequired {
            self.message = Some(needed(&self.id, actions));
        }
        self
    }

    /// Returns the task in the form of the protocol.
    pub fn to_json(&self) -> Value {
        let message = self.message.clone();
        let mut task = json!({
            "id": self.id.to_string(),
            "contextId": self.id.context,
            "status": status(self.state, self.time, message),
        });
        for (name, values) in [("artifacts", &self.artifacts), ("history", &self.history)] {
            if !values.is_empty() {
                task[name] = values.clone().into();
            }
        }
        task
    }

    fn take(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::AgentStart { .. } => self.state = TaskState::Working,
            AgentEvent::MessageEnd { message } => match message.role() {
                Role::User => self.history.push(user_message(&self.id, message)),
                Role::Assistant if !message.text().is_empty() => {
                    self.artifacts.push(artifact(message.id, &message.text()));
                }
                _ => {}
            },
            AgentEvent::AgentEnd(outcome) => {
                self.state = TaskState::of(outcome);
                self.message = failure(&self.id, outcome);
            }
            _ => return,
        }
        self.time = envelope.time;
    }
}

/// Returns the tasks of a context, the last one last, from all events of its session.
pub fn tasks(context: &str, events: &[Envelope]) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    for envelope in events.iter().filter(|envelope| !is_of_sub_agent(envelope)) {
        if let AgentEvent::AgentStart { cause: RunCause::UserRequest(input), .. } = &envelope.event
        {
            let id = TaskId::new(input.to_string(), context);
            tasks.push(Task::submitted(id, envelope.time));
        }
        if let Some(task) = tasks.last_mut() {
            task.take(envelope);
        }
    }
    tasks
}

pub(super) fn is_of_sub_agent(envelope: &Envelope) -> bool {
    envelope.parent.as_ref().is_some_and(|parent| parent.root.is_some())
}

/// Returns the status of a task.
pub(super) fn status(state: TaskState, time: u64, message: Option<Value>) -> Value {
    let mut status = json!({ "state": state, "timestamp": rfc_3339(time) });
    if let Some(message) = message {
        status["message"] = message;
    }
    status
}

/// Returns the state at the end of a run, and the message of a failure.
pub(super) fn end(id: &TaskId, outcome: &RunOutcome) -> (TaskState, Option<Value>) {
    (TaskState::of(outcome), failure(id, outcome))
}

fn failure(id: &TaskId, outcome: &RunOutcome) -> Option<Value> {
    let failure =
        RunFailure::of(outcome).filter(|_| TaskState::of(outcome) == TaskState::Failed)?;
    Some(agent_message(id, "failure", json!([{ "text": failure.message }])))
}

/// Returns the message that says what a task waits for: each action as text, and as data with what
/// a decision has to name.
pub(super) fn needed(id: &TaskId, actions: &[ExternalAction]) -> Value {
    let mut parts = Vec::new();
    for action in actions {
        let text = match (action.question(), action.terms.description.as_deref()) {
            (Some(question), _) => question.question,
            (None, Some(description)) => description.to_owned(),
            (None, None) => format!("`{}` needs an approval.", action.name),
        };
        parts.push(json!({ "text": text }));
        parts.push(json!({ "data": action, "mediaType": "application/json" }));
    }
    agent_message(id, "needed", parts.into())
}

fn agent_message(id: &TaskId, kind: &str, parts: Value) -> Value {
    json!({
        "messageId": format!("{kind}-{id}"),
        "contextId": id.context,
        "taskId": id.to_string(),
        "role": "ROLE_AGENT",
        "parts": parts,
    })
}

fn user_message(id: &TaskId, message: &Message) -> Value {
    json!({
        "messageId": id.message,
        "contextId": id.context,
        "taskId": id.to_string(),
        "role": "ROLE_USER",
        "parts": [{ "text": message.text() }],
    })
}

/// Returns a reply of the agent.
pub(super) fn artifact(id: MessageId, text: &str) -> Value {
    json!({ "artifactId": format!("reply-{}", id.0), "parts": [{ "text": text }] })
}
