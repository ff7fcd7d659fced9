//! Messages as the JSON of the attributes `gen_ai.input.messages` and `gen_ai.output.messages`.
//! Images are left out.

use std::sync::Arc;

use loopwright_core::Message;
use loopwright_core::message::{AssistantMessage, Content, ContentPart, MessageKind};
use serde_json::{Value, json};

/// Returns messages to a model as JSON text.
pub(crate) fn input(messages: &[Arc<Message>]) -> String {
    let messages: Vec<Value> = messages.iter().filter_map(|message| to_json(message)).collect();
    Value::from(messages).to_string()
}

/// Returns a reply of a model as JSON text.
pub(crate) fn output(reply: &AssistantMessage, stop: &str) -> String {
    let parts: Vec<Value> = reply.parts.iter().map(part).collect();
    let finish_reason = if stop == "tool_calls" { "tool_call" } else { stop };
    let message = json!({ "role": "assistant", "parts": parts, "finish_reason": finish_reason });
    json!([message]).to_string()
}

fn to_json(message: &Message) -> Option<Value> {
    Some(match &message.body {
        MessageKind::User(user) => json!({ "role": "user", "parts": texts(&user.content) }),
        MessageKind::ToolResult(result) => {
            let response = result.text();
            let part =
                json!({ "type": "tool_call_response", "id": result.call, "response": response });
            json!({ "role": "tool", "parts": [part] })
        }
        MessageKind::Assistant(reply) => {
            let parts: Vec<Value> = reply.parts.iter().map(part).collect();
            json!({ "role": "assistant", "parts": parts })
        }
        _ => return None,
    })
}

fn texts(content: &[Content]) -> Vec<Value> {
    let text = |content: &Content| match content {
        Content::Text { text } => Some(json!({ "type": "text", "content": text })),
        _ => None,
    };
    content.iter().filter_map(text).collect()
}

fn part(part: &ContentPart) -> Value {
    match part {
        ContentPart::Text { text, .. } => json!({ "type": "text", "content": text }),
        ContentPart::Thinking { text, .. } => json!({ "type": "reasoning", "content": text }),
        ContentPart::ToolCall(call) => {
            // Kept as the model wrote them if they are not JSON.
            let arguments = serde_json::from_str(&call.arguments)
                .unwrap_or_else(|_| Value::from(&*call.arguments));
            json!({ "type": "tool_call", "id": call.id, "name": call.name, "arguments": arguments })
        }
        _ => Value::Null,
    }
}
