//! [`Encoder`]: converts a session's events to the chunks of a reply.

use std::collections::{HashMap, HashSet, VecDeque};

use loopwright_core::event::{
    AgentEvent, Decision, Envelope, ExternalAction, IncompleteReply, RunCause, RunStatus,
};
use loopwright_core::message::{CallId, Message, MessageId, MessageKind, ResultStatus};
use loopwright_core::tool::ToolUpdate;
use serde::Serialize;
use serde_json::{Value, json};

use super::part::{STAGES, approval_id, detached, input, output, tool_metadata};
use crate::encode::{Encode, Progress};
use crate::failure::RunFailure;
use crate::reply::{Fragment, PartKind, ReplyFold};
use crate::shown_runs::{ShownRuns, Visibility, is_of_sub_agent};

/// A chunk of a UI message stream.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Chunk(Value);

/// An encoder of the events of a session as the chunks of a reply.
///
/// A custom event of kind `K` is sent as the data part `data-K`, and a detached reply that is shown
/// as the data part `data-detached`, once it is complete. The work of sub-agents is shown as the
/// call that they work for, with the actions that need decisions. The input of a call is sent once
/// the model's reply is complete.
#[derive(Default)]
pub struct Encoder {
    runs: ShownRuns,
    metadata: Value,
    is_started: bool,
    /// `true` until the message of the request has been received.
    awaits_request: bool,
    step: Option<MessageId>,
    reply: ReplyFold,
    /// The calls that the client knows.
    known_calls: HashSet<CallId>,
    /// The requested approvals, by their calls.
    approvals: HashMap<CallId, String>,
    denied: HashSet<CallId>,
}

impl Encoder {
    /// Creates the encoder of a reply that shows these runs of the session. `metadata` is an object
    /// of the host for the message, such as the id of the session.
    pub fn new(runs: ShownRuns, metadata: Value) -> Self {
        Encoder { runs, metadata, ..Encoder::default() }
    }

    /// Sets the calls that the client's message already has, for a reply that continues it.
    pub fn known_calls(mut self, calls: impl IntoIterator<Item = CallId>) -> Self {
        self.known_calls.extend(calls);
        self
    }

    /// Starts the message. The id is `None` if the client continues its message.
    fn start(&mut self, id: Option<String>, to: &mut VecDeque<Chunk>) {
        if !std::mem::replace(&mut self.is_started, true) {
            let mut start = json!({ "type": "start", "messageMetadata": self.metadata });
            if let Some(id) = id {
                start["messageId"] = id.into();
            }
            to.push_back(Chunk(start));
        }
    }

    /// Starts a step for this message, unless the message has one.
    fn step(&mut self, message: MessageId, to: &mut VecDeque<Chunk>) {
        if self.step != Some(message) {
            self.end_step(to);
            self.step = Some(message);
            push(to, json!({ "type": "start-step" }));
        }
    }

    fn end_step(&mut self, to: &mut VecDeque<Chunk>) {
        let end = self.reply.end();
        self.fragments(end, to);
        if self.step.take().is_some() {
            push(to, json!({ "type": "finish-step" }));
        }
    }

    fn fragments(&self, fragments: impl IntoIterator<Item = Fragment>, to: &mut VecDeque<Chunk>) {
        let (message, _) = self.reply.id();
        let chunk = |kind: PartKind, event: &str, block: u32| {
            let kind = if kind == PartKind::Text { "text" } else { "reasoning" };
            json!({ "type": format!("{kind}-{event}"), "id": format!("{message}-{block}") })
        };
        for fragment in fragments {
            let chunk = match fragment {
                Fragment::Start(kind, block) => chunk(kind, "start", block),
                Fragment::End(kind, block) => chunk(kind, "end", block),
                Fragment::Delta(kind, block, delta) => {
                    let mut chunk = chunk(kind, "delta", block);
                    chunk["delta"] = delta.into();
                    chunk
                }
                Fragment::Withdrawn(_) => json!({ "type": "reset-step" }),
            };
            push(to, chunk);
        }
    }

    fn message(&mut self, message: &Message, to: &mut VecDeque<Chunk>) {
        match &message.body {
            MessageKind::Assistant(reply) => {
                self.step(message.id, to);
                let fragments = self.reply.whole(message.id, reply);
                self.fragments(fragments, to);
                for call in reply.calls() {
                    self.call(&call.id, &call.name, &input(call), to);
                }
            }
            MessageKind::User(user) if !std::mem::take(&mut self.awaits_request) => {
                let text = json!([{ "type": "text", "text": user.text() }]);
                let id = message.id.to_string();
                push(to, json!({ "type": "steering-message", "id": id, "parts": text }));
            }
            MessageKind::Detached(shown) => push(to, detached(message.id, shown)),
            _ => {}
        }
    }

    fn call(&mut self, id: &CallId, name: &str, input: &Value, to: &mut VecDeque<Chunk>) {
        self.known_calls.insert(id.clone());
        let call = json!({
            "type": "tool-input-available", "toolCallId": id, "toolName": name, "input": input,
            "providerExecuted": true,
        });
        push(to, call);
    }

    fn action(&mut self, action: &ExternalAction, to: &mut VecDeque<Chunk>) {
        if !action.path.is_empty() {
            // In its own step, because the call that the sub-agent works for has no output yet.
            push(to, json!({ "type": "start-step" }));
        }
        self.known_calls.insert(action.call.clone());
        // The arguments that would run may differ from the model's.
        let mut call = json!({
            "type": "tool-input-available", "toolCallId": action.call, "toolName": action.name,
            "input": action.arguments, "providerExecuted": action.request.is_none(),
        });
        if action.request.is_some() {
            call["toolMetadata"] = tool_metadata(action);
            return push(to, call);
        }
        push(to, call);
        let id = approval_id(action);
        let mut request =
            json!({ "type": "tool-approval-request", "approvalId": id, "toolCallId": action.call });
        if let Some(description) = &action.terms.description {
            request["reason"] = json!(description);
        }
        push(to, request);
        self.approvals.insert(action.call.clone(), id);
    }

    fn decided(&mut self, call: &CallId, decision: &Decision, to: &mut VecDeque<Chunk>) {
        let reason = match decision {
            Decision::Deny(reason) => Some(reason),
            _ => None,
        };
        if reason.is_some() {
            self.denied.insert(call.clone());
        }
        if let Some(id) = self.approvals.remove(call) {
            let mut response = json!({
                "type": "tool-approval-response", "approvalId": id, "approved": reason.is_none(),
            });
            if let Some(reason) = reason {
                response["reason"] = json!(reason);
            }
            push(to, response);
        }
        // The result of a sub-agent's call is in the sub-agent's session.
        if call.contains('~') && self.known_calls.contains(call) {
            push(
                to,
                match reason {
                    Some(_) => json!({ "type": "tool-output-denied", "toolCallId": call }),
                    None => json!({
                        "type": "tool-output-available", "toolCallId": call,
                        "output": { "decision": decision.name() }, "toolMetadata": {},
                    }),
                },
            );
        }
    }

    fn result(&mut self, call: &CallId, is_error: bool, message: &Message) -> Value {
        let result = message.as_tool_result();
        if self.denied.remove(call) && result.is_some_and(|r| r.status == ResultStatus::Denied) {
            return json!({ "type": "tool-output-denied", "toolCallId": call });
        }
        // The metadata of a question is removed: the client's next body does not answer it.
        let mut chunk = json!({ "toolCallId": call, "toolMetadata": {} });
        match is_error {
            true => {
                chunk["type"] = "tool-output-error".into();
                chunk["errorText"] = message.text().into();
            }
            false => {
                chunk["type"] = "tool-output-available".into();
                chunk["output"] = result.map(output).unwrap_or_default();
            }
        }
        chunk
    }

    fn show(&mut self, envelope: &Envelope, to: &mut VecDeque<Chunk>) {
        match &envelope.event {
            AgentEvent::AgentStart { cause, .. } => {
                self.awaits_request = matches!(cause, RunCause::UserRequest(_));
                let continues = matches!(cause, RunCause::ActionResult(_));
                self.start((!continues).then(|| envelope.run_id.to_string()), to);
            }
            AgentEvent::MessageUpdate { message_id, update } => {
                self.step(*message_id, to);
                let fragments = self.reply.update(*message_id, update);
                self.fragments(fragments, to);
            }
            AgentEvent::MessageEnd { message } => self.message(message, to),
            AgentEvent::ToolExecutionStart { call, name, arguments }
                if !self.known_calls.contains(call) =>
            {
                self.call(call, name, arguments, to);
            }
            AgentEvent::ToolExecutionUpdate { call, update } => push(
                to,
                match update {
                    ToolUpdate::Progress(progress) => {
                        json!({ "type": "data-progress", "id": call, "data": progress })
                    }
                    ToolUpdate::Output(delta) => {
                        transient("tool-output", json!({ "toolCallId": call, "delta": delta }))
                    }
                    _ => return,
                },
            ),
            AgentEvent::ToolExecutionEnd { call, is_error, result, .. } => {
                let result = self.result(call, *is_error, result);
                push(to, result);
            }
            AgentEvent::ExternalAction(action) => self.action(action, to),
            AgentEvent::ExternalActionEnd { call, decision, .. } => {
                self.start(None, to);
                self.decided(call, decision, to);
            }
            AgentEvent::Custom { kind, data } if **kind == *STAGES => {
                push(to, transient(kind, json!(data)));
            }
            AgentEvent::Custom { kind, data } => {
                push(to, json!({ "type": format!("data-{kind}"), "data": data }));
            }
            AgentEvent::Retry(notice) => push(to, transient("retry", json!(notice))),
            AgentEvent::Compaction(done) => push(to, transient("compaction", json!(done))),
            _ => {}
        }
    }
}

impl Encode for Encoder {
    type Event = Chunk;

    fn encode(&mut self, envelope: &Envelope, to: &mut VecDeque<Chunk>) -> Progress {
        let shown = self.runs.take(envelope);
        if matches!(shown, Visibility::Yes | Visibility::Last) && !is_of_sub_agent(envelope) {
            self.show(envelope, to);
        }
        shown.progress()
    }

    fn finish(&mut self, _: &[ExternalAction], to: &mut VecDeque<Chunk>) {
        self.start(None, to);
        self.end_step(to);
        let ended = self.runs.outcome();
        let reason = match ended.map(|outcome| (outcome.end, outcome.incomplete)) {
            Some((RunStatus::Done | RunStatus::Sleeping, _)) => "stop",
            Some((RunStatus::AwaitingAction, _)) => "tool-calls",
            Some((RunStatus::Aborted, _)) | None => {
                push(to, json!({ "type": "abort", "reason": "The run was aborted." }));
                "interrupted"
            }
            Some((_, Some(IncompleteReply::Length))) => "length",
            Some((_, Some(IncompleteReply::ContentFilter))) => "content-filter",
            Some(_) => {
                let why = ended.and_then(RunFailure::of).map(|why| why.sentence());
                return push(to, json!({ "type": "error", "errorText": why }));
            }
        };
        let mut finish = json!({ "type": "finish", "finishReason": reason });
        if let Some(outcome) = ended {
            finish["messageMetadata"] = json!({ "usage": outcome.usage, "cost": outcome.cost });
            if let Some(limit) = outcome.limit {
                finish["messageMetadata"]["limit"] = String::from(limit).into();
            }
        }
        push(to, finish);
    }

    fn cut_off(&mut self, _: &str, why: &str, to: &mut VecDeque<Chunk>) {
        self.start(None, to);
        self.end_step(to);
        push(to, json!({ "type": "error", "errorText": why }));
    }
}

fn push(to: &mut VecDeque<Chunk>, chunk: Value) {
    to.push_back(Chunk(chunk));
}

fn transient(kind: &str, data: Value) -> Value {
    json!({ "type": format!("data-{kind}"), "data": data, "transient": true })
}
