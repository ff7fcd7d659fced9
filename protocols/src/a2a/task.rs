//! [`Task`]: the progress and the results of a message of the user.

use std::fmt;

use loopwright_core::AgentEvent;
use loopwright_core::event::{Envelope, ExternalAction, Role, RunCause, RunOutcome, RunStatus};
use loopwright_core::message::MessageId;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::code;
use crate::failure::RunFailure;
use crate::question::action_text;
use crate::rpc::RpcError;
use crate::shown_runs::is_of_sub_agent;
use crate::time::rfc_3339;

/// The characters that are escaped in the id of a message, so that the first `.` ends it.
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b':');

/// The id of a task: the ids of the message that has started it, and of its context.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct TaskId {
    /// The client's id of the message.
    pub message: String,
    /// The id of the context, which is the session's.
    pub context: String,
}

impl TaskId {
    /// Returns the id of the task of this message.
    pub fn new(message: impl Into<String>, context: impl Into<String>) -> Self {
        TaskId { message: message.into(), context: context.into() }
    }

    /// Parses an id from its text form.
    pub fn parse(text: &str) -> Option<Self> {
        let (message, context) = text.split_once('.')?;
        let message = percent_decode_str(message).decode_utf8().ok()?;
        let id = TaskId::new(message, context);
        let is_empty = id.message.is_empty() || context.is_empty();
        Some(id).filter(|id| !is_empty && id.to_string() == text)
    }

    /// Returns the error for the id of an unknown task.
    pub fn unknown() -> RpcError {
        RpcError::new(code::TASK_NOT_FOUND, "There is no such task of this agent.")
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", utf8_percent_encode(&self.message, ESCAPED), self.context)
    }
}

/// The state of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
#[non_exhaustive]
pub enum TaskState {
    /// The client has not specified a state.
    #[serde(rename = "TASK_STATE_UNSPECIFIED")]
    Unspecified,
    /// The message waits until an earlier task has ended.
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
    /// Not used by loopwright.
    #[serde(rename = "TASK_STATE_REJECTED")]
    Rejected,
    /// Not used by loopwright.
    #[serde(rename = "TASK_STATE_AUTH_REQUIRED")]
    AuthRequired,
}

impl TaskState {
    /// Returns whether a task in this state has ended.
    pub fn is_terminal(self) -> bool {
        matches!(self, TaskState::Completed | TaskState::Failed | TaskState::Canceled)
    }

    pub(super) fn of(outcome: &RunOutcome) -> Self {
        match outcome.end {
            RunStatus::Done | RunStatus::Sleeping => TaskState::Completed,
            RunStatus::AwaitingAction => TaskState::InputRequired,
            RunStatus::Aborted => TaskState::Canceled,
            _ => TaskState::Failed,
        }
    }
}

/// A task in its current state.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Task {
    /// The id, made of the message's and the context's.
    pub id: TaskId,
    /// The state after the last event.
    pub state: TaskState,
    time: u64,
    message: Option<Value>,
    artifacts: Vec<Value>,
    history: Vec<Value>,
}

impl Task {
    /// Returns a task whose message waits until an earlier task has ended.
    pub fn submitted(id: TaskId, time: u64) -> Self {
        let (artifacts, history) = (Vec::new(), Vec::new());
        Task { id, state: TaskState::Submitted, time, message: None, artifacts, history }
    }

    /// Removes the artifacts, for a list, or for a stream that repeats them.
    pub fn without_artifacts(mut self) -> Self {
        self.artifacts.clear();
        self
    }

    /// Adds the session's pending actions, which the task waits for. Without any, all are decided,
    /// and the run continues.
    pub fn pending(mut self, actions: &[ExternalAction]) -> Self {
        match self.state {
            TaskState::InputRequired if actions.is_empty() => self.state = TaskState::Working,
            TaskState::InputRequired => self.message = Some(needed(&self.id, actions)),
            _ => {}
        }
        self
    }

    /// Returns the task as JSON of the protocol.
    pub fn to_json(&self) -> Value {
        let mut task = json!({
            "id": self.id.to_string(),
            "contextId": self.id.context,
            "status": status(self.state, self.time, self.message.clone()),
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
                Role::User => {
                    let parts = json!([{ "text": message.text() }]);
                    self.history.push(of_task(&self.id, &self.id.message, "ROLE_USER", parts));
                }
                Role::Assistant if !message.text().is_empty() => {
                    self.artifacts.push(artifact(message.id, &message.text()));
                }
                _ => {}
            },
            AgentEvent::AgentEnd(outcome) => {
                (self.state, self.message) = (TaskState::of(outcome), failure(&self.id, outcome));
            }
            _ => return,
        }
        self.time = envelope.time;
    }
}

/// Returns the tasks of a context, oldest first, from all events of its session. A new request ends
/// a waiting task.
pub fn tasks(context: &str, events: &[Envelope]) -> Vec<Task> {
    let mut tasks: Vec<Task> = Vec::new();
    let mut is_of_task = false;
    for envelope in events.iter().filter(|envelope| !is_of_sub_agent(envelope)) {
        if let AgentEvent::AgentStart { cause, .. } = &envelope.event {
            // The task of an agent that sleeps has ended.
            is_of_task = !matches!(cause, RunCause::Timer(_) | RunCause::Signal(_));
        }
        if let AgentEvent::AgentStart { cause: RunCause::UserRequest(input), .. } = &envelope.event
        {
            // The request has denied the pending actions of the last task.
            if let Some(last) = tasks.last_mut().filter(|t| t.state == TaskState::InputRequired) {
                (last.state, last.time) = (TaskState::Canceled, envelope.time);
            }
            tasks.push(Task::submitted(TaskId::new(input.to_string(), context), envelope.time));
        }
        if let Some(task) = tasks.last_mut().filter(|_| is_of_task) {
            task.take(envelope);
        }
    }
    tasks
}

/// Returns the status of a task.
pub(super) fn status(state: TaskState, time: u64, message: Option<Value>) -> Value {
    let mut status = json!({ "state": state, "timestamp": rfc_3339(time) });
    message.into_iter().for_each(|message| status["message"] = message);
    status
}

/// Returns the message about a run that has failed.
pub(super) fn failure(id: &TaskId, outcome: &RunOutcome) -> Option<Value> {
    let failure =
        RunFailure::of(outcome).filter(|_| TaskState::of(outcome) == TaskState::Failed)?;
    let parts = json!([{ "text": failure.message }]);
    Some(agent_message(id, &format!("failure-{id}"), parts))
}

/// Returns the message about the pending actions of a task: each as text, and as the data that a
/// decision refers to.
pub(super) fn needed(id: &TaskId, actions: &[ExternalAction]) -> Value {
    let text = |action: &ExternalAction| json!({ "text": action_text(action) });
    let data = |action| json!({ "data": action, "mediaType": "application/json" });
    let parts: Vec<Value> = actions.iter().flat_map(|it| [text(it), data(it)]).collect();
    agent_message(id, &format!("needed-{id}"), parts.into())
}

/// Returns a message of the agent about a task. `message` is its id.
pub(super) fn agent_message(id: &TaskId, message: &str, parts: Value) -> Value {
    of_task(id, message, "ROLE_AGENT", parts)
}

fn of_task(id: &TaskId, message: &str, role: &str, parts: Value) -> Value {
    json!({
        "messageId": message, "contextId": id.context, "taskId": id.to_string(),
        "role": role, "parts": parts,
    })
}

/// Returns a reply of the agent.
pub(super) fn artifact(id: MessageId, text: &str) -> Value {
    json!({ "artifactId": format!("reply-{}", id.0), "parts": [{ "text": text }] })
}
