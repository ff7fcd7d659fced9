//! [`ui_messages`]: the conversation of a session as messages of a chat.

use std::collections::HashMap;

use loopwright_core::event::{AgentEvent, Decision, Envelope, ExternalAction, RunCause};
use loopwright_core::message::{
    AssistantMessage, CallId, Content, ContentPart, InputId, Message, MessageKind, ResultStatus,
};
use serde_json::{Value, json};

use super::part::{STAGES, approval_id, detached, input, output, tool_metadata};
use crate::shown_runs::request_of;

/// Returns the messages of a chat, from the numbered events of its session. A page passes them to
/// `useChat` as `messages` when it is loaded.
pub fn ui_messages(events: &[Envelope]) -> Vec<Value> {
    let mut history = History::default();
    events.iter().for_each(|envelope| history.take(envelope));
    history.messages
}

#[derive(Default)]
struct History {
    messages: Vec<Value>,
    /// The id of the reply of the following runs, and its index once it has begun.
    reply: String,
    reply_at: Option<usize>,
    request: Option<InputId>,
    /// The positions of calls: the index of the message, and of the part.
    calls: HashMap<CallId, (usize, usize)>,
}

impl History {
    fn take(&mut self, envelope: &Envelope) {
        match &envelope.event {
            AgentEvent::AgentStart { cause: RunCause::ActionResult(_), .. } => {}
            AgentEvent::AgentStart { cause, .. } => {
                (self.reply, self.reply_at) = (envelope.run_id.to_string(), None);
                self.request = request_of(cause);
            }
            AgentEvent::MessageEnd { message } => self.message(message),
            AgentEvent::ExternalAction(action) => self.action(action),
            AgentEvent::ExternalActionEnd { call, decision, .. } => self.decided(call, decision),
            AgentEvent::ToolExecutionEnd { call, is_error, result, .. } => {
                self.result(call, *is_error, result);
            }
            AgentEvent::Custom { kind, data } if **kind != *STAGES => {
                self.push(json!({ "type": format!("data-{kind}"), "data": data }));
            }
            AgentEvent::Reset => *self = History::default(),
            _ => {}
        }
    }

    fn message(&mut self, message: &Message) {
        match &message.body {
            MessageKind::Assistant(reply) => self.assistant(reply),
            MessageKind::User(user) => {
                let parts: Vec<Value> = user.content.iter().filter_map(user_part).collect();
                let (id, request) = (message.id.to_string(), self.request.take());
                match (self.reply_at, request) {
                    (Some(_), None) => {
                        self.push(json!({ "type": "steering-message", "id": id, "parts": parts }));
                    }
                    (at, request) => {
                        let id = request.unwrap_or_else(|| id.into());
                        let message = json!({ "id": id, "role": "user", "parts": parts });
                        // The pattern may already have emitted an event.
                        self.messages.insert(at.unwrap_or(self.messages.len()), message);
                        self.reply_at = at.map(|at| at + 1);
                    }
                }
            }
            MessageKind::Detached(shown) => {
                self.push(detached(message.id, shown));
            }
            _ => {}
        }
    }

    fn assistant(&mut self, reply: &AssistantMessage) {
        self.push(json!({ "type": "step-start" }));
        for part in &reply.parts {
            match part {
                ContentPart::Text { text, .. } if !text.is_empty() => {
                    self.push(json!({ "type": "text", "text": text, "state": "done" }));
                }
                ContentPart::Thinking { text, .. } if !text.is_empty() => {
                    self.push(json!({ "type": "reasoning", "text": text, "state": "done" }));
                }
                ContentPart::ToolCall(call) => self.call(&call.id, &call.name, input(call)),
                _ => {}
            }
        }
    }

    /// Appends a part to the reply, and returns its position.
    fn push(&mut self, part: Value) -> (usize, usize) {
        let at = *self.reply_at.get_or_insert_with(|| {
            let reply = json!({ "id": self.reply, "role": "assistant", "parts": [] });
            self.messages.push(reply);
            self.messages.len() - 1
        });
        match self.messages.get_mut(at).and_then(|reply| reply["parts"].as_array_mut()) {
            Some(parts) => {
                parts.push(part);
                (at, parts.len() - 1)
            }
            None => (at, 0),
        }
    }

    fn call(&mut self, id: &CallId, name: &str, input: Value) {
        let at = self.push(json!({
            "type": format!("tool-{name}"), "toolCallId": id, "state": "input-available",
            "input": input, "providerExecuted": true,
        }));
        self.calls.insert(id.clone(), at);
    }

    /// Returns the part of a call.
    fn part(&mut self, call: &CallId) -> Option<&mut Value> {
        let (message, part) = *self.calls.get(call)?;
        self.messages.get_mut(message)?["parts"].get_mut(part)
    }

    fn action(&mut self, action: &ExternalAction) {
        if !self.calls.contains_key(&action.call) {
            self.push(json!({ "type": "step-start" }));
            self.call(&action.call, &action.name, Value::Null);
        }
        let Some(part) = self.part(&action.call) else { return };
        part["input"] = json!(action.arguments);
        if action.request.is_some() {
            part["providerExecuted"] = false.into();
            part["toolMetadata"] = tool_metadata(action);
        } else {
            part["state"] = "approval-requested".into();
            part["approval"] = json!({ "id": approval_id(action) });
        }
    }

    fn decided(&mut self, call: &CallId, decision: &Decision) {
        let Some(part) = self.part(call) else { return };
        if part["state"] == "approval-requested" {
            part["state"] = "approval-responded".into();
            part["approval"]["approved"] = (!matches!(decision, Decision::Deny(_))).into();
        }
        if call.contains('~') {
            let denied = matches!(decision, Decision::Deny(_));
            part["state"] = if denied { "output-denied" } else { "output-available" }.into();
            part["output"] = json!({ "decision": decision.name() });
        }
    }

    fn result(&mut self, call: &CallId, is_error: bool, message: &Message) {
        let Some(part) = self.part(call) else { return };
        let result = message.as_tool_result();
        let is_denied = result.is_some_and(|result| result.status == ResultStatus::Denied);
        part["toolMetadata"] = json!({});
        if is_denied && part["approval"]["approved"] == false {
            part["state"] = "output-denied".into();
        } else if is_error {
            part["state"] = "output-error".into();
            part["errorText"] = message.text().into();
        } else {
            part["state"] = "output-available".into();
            part["output"] = result.map(output).unwrap_or_default();
        }
    }
}

fn user_part(content: &Content) -> Option<Value> {
    match content {
        Content::Text { text } => Some(json!({ "type": "text", "text": text })),
        Content::Image { media_type, data } => {
            let url = format!("data:{media_type};base64,{data}");
            Some(json!({ "type": "file", "mediaType": media_type, "url": url }))
        }
        _ => None,
    }
}
