//! The conversation of a session as messages of the protocol.

use std::sync::Arc;

use loopwright_core::event::{AgentEvent, Envelope};
use loopwright_core::message::{AssistantMessage, InputId, Message, MessageKind, ToolCall};
use serde_json::{Value, json};

use super::event::content;
use crate::shown_runs::request_of;

/// Returns the messages of a session, from its numbered events. A request of the user has the id of
/// its input, which is the id of the client's message.
pub(super) fn messages(events: &[Envelope]) -> Vec<Value> {
    let mut messages = Vec::new();
    let mut request = None;
    for envelope in events {
        match &envelope.event {
            AgentEvent::AgentStart { cause, .. } => request = request_of(cause),
            AgentEvent::MessageEnd { message } => {
                messages.extend(converted(message, &mut request));
            }
            AgentEvent::Reset => messages.clear(),
            _ => {}
        }
    }
    messages
}

fn converted(message: &Arc<Message>, request: &mut Option<InputId>) -> Option<Value> {
    let id = message.id.to_string();
    match &message.body {
        MessageKind::User(user) => {
            let id = request.take().map_or(id, |request| request.to_string());
            Some(json!({ "id": id, "role": "user", "content": content(&user.content) }))
        }
        MessageKind::Assistant(reply) => Some(assistant(id, reply)),
        MessageKind::ToolResult(result) => Some(json!({
            "id": id, "role": "tool", "toolCallId": result.call,
            "content": content(&result.content), "metadata": { "status": result.status },
        })),
        MessageKind::Detached(shown) => Some(json!({
            "id": id, "role": "assistant", "name": shown.speaker, "content": shown.reply.text(),
        })),
        _ => None,
    }
}

fn assistant(id: String, reply: &AssistantMessage) -> Value {
    let mut message = json!({ "id": id, "role": "assistant", "content": reply.text() });
    let call = |call: &ToolCall| {
        let function = json!({ "name": call.name, "arguments": call.arguments });
        json!({ "id": call.id, "type": "function", "function": function })
    };
    let calls: Vec<Value> = reply.calls().map(call).collect();
    if !calls.is_empty() {
        message["toolCalls"] = calls.into();
    }
    message
}
