//! [`Encoder`]: converts the events of a session to updates of a task.

use std::collections::VecDeque;

use loopwright_core::event::{AgentEvent, Envelope, ExternalAction, Role};
use loopwright_core::message::MessageId;
use loopwright_core::model::Update;
use serde_json::{Value, json};

use super::task::{Task, TaskId, TaskState, agent_message, artifact, failure, needed, status};
use crate::encode::{Encode, Progress};
use crate::rpc::RpcError;
use crate::shown_runs::{ShownRuns, Visibility, is_of_sub_agent};

/// An encoder of the events of a session as the responses of a stream.
///
/// Each reply of the agent is an artifact, whose first part replaces everything sent of it before.
/// So the repeated reply replaces a reply that the model's server has cut off.
#[derive(Debug)]
pub struct Encoder {
    /// The client's id of its request.
    request: Value,
    task: TaskId,
    runs: ShownRuns,
    /// The streaming reply, if a part of it was sent.
    reply: Option<MessageId>,
    last: Option<(TaskState, u64, Option<Value>)>,
}

impl Encoder {
    /// Creates the encoder of a stream for the request with this id, which shows these runs of a
    /// task.
    pub fn new(request: Value, task: TaskId, runs: ShownRuns) -> Self {
        Encoder { request, task, runs, reply: None, last: None }
    }

    /// Returns the first response, which contains the task.
    pub fn start(&self, task: &Task) -> Value {
        self.response(json!({ "task": task.to_json() }))
    }

    fn response(&self, result: Value) -> Value {
        json!({ "jsonrpc": "2.0", "id": self.request, "result": result })
    }

    fn status(&self, status: Value) -> Value {
        self.response(json!({ "statusUpdate": {
            "taskId": self.task.to_string(), "contextId": self.task.context, "status": status,
        } }))
    }

    fn text(&mut self, id: MessageId, text: &str, is_last: bool) -> Value {
        let append = self.reply == Some(id);
        self.reply = Some(id);
        self.response(json!({ "artifactUpdate": {
            "taskId": self.task.to_string(), "contextId": self.task.context,
            "artifact": artifact(id, text), "append": append, "lastChunk": is_last,
        } }))
    }

    fn event(&mut self, envelope: &Envelope, to: &mut VecDeque<Value>) {
        match &envelope.event {
            AgentEvent::AgentStart { .. } => {
                to.push_back(self.status(status(TaskState::Working, envelope.time, None)));
            }
            AgentEvent::MessageUpdate { message_id, update: Update::Text { delta, .. } } => {
                to.push_back(self.text(*message_id, delta, false));
            }
            AgentEvent::MessageUpdate { update: Update::Withdrawn, .. } => self.reply = None,
            AgentEvent::MessageEnd { message } if message.role() == Role::Assistant => {
                let text = message.text();
                if self.reply != Some(message.id) && !text.is_empty() {
                    to.push_back(self.text(message.id, &text, true));
                }
                self.reply = None;
            }
            AgentEvent::ToolExecutionStart { call, name, arguments } => {
                let data = json!({ "call": call, "name": name, "arguments": arguments });
                let parts = json!([{ "data": data, "mediaType": "application/json" }]);
                let message = agent_message(&self.task, &format!("call-{call}"), parts);
                let status = status(TaskState::Working, envelope.time, Some(message));
                to.push_back(self.status(status));
            }
            AgentEvent::Retry(notice) => {
                let parts = json!([{ "text": notice.reason }, { "data": notice }]);
                let message = agent_message(&self.task, &format!("retry-{}", envelope.time), parts);
                to.push_back(self.status(status(TaskState::Working, envelope.time, Some(message))));
            }
            AgentEvent::AgentEnd(outcome) => {
                let state = TaskState::of(outcome);
                self.last = Some((state, envelope.time, failure(&self.task, outcome)));
            }
            _ => {}
        }
    }
}

impl Encode for Encoder {
    type Event = Value;

    fn encode(&mut self, envelope: &Envelope, to: &mut VecDeque<Value>) -> Progress {
        let shown = self.runs.take(envelope);
        if matches!(shown, Visibility::Yes | Visibility::Last) && !is_of_sub_agent(envelope) {
            self.event(envelope, to);
        }
        shown.progress()
    }

    fn finish(&mut self, pending: &[ExternalAction], to: &mut VecDeque<Value>) {
        let Some((state, time, message)) = self.last.take() else { return };
        let needed = (state == TaskState::InputRequired).then(|| needed(&self.task, pending));
        let message = needed.or(message);
        to.push_back(self.status(status(state, time, message)));
    }

    fn cut_off(&mut self, _kind: &str, why: &str, to: &mut VecDeque<Value>) {
        to.push_back(RpcError::internal(why).response(&self.request));
    }
}
