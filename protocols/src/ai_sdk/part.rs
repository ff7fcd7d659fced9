//! The parts of messages that stand for calls.

use loopwright_core::event::ExternalAction;
use loopwright_core::message::{Content, DetachedMessage, MessageId, ToolCall, ToolResult};
use serde_json::{Value, json};

use crate::question::answer_schema;

/// The kind of the event with the stages of a pattern's work. Each has all stages, so conversations
/// do not keep them.
pub(super) const STAGES: &str = "stages";

/// Returns the input of a call, or its text if it is not JSON.
pub(super) fn input(call: &ToolCall) -> Value {
    match call.arguments.trim() {
        "" => json!({}),
        _ => call.parse_arguments().unwrap_or_else(|| json!(call.arguments)),
    }
}

/// Returns the output of a call: its text, or its content if it has more than text.
pub(super) fn output(result: &ToolResult) -> Value {
    let is_text = |content: &Content| matches!(content, Content::Text { .. });
    match result.content.iter().all(is_text) {
        true => json!(result.text()),
        false => json!(result.content),
    }
}

/// Returns the data part of a detached reply that is shown.
pub(super) fn detached(id: MessageId, shown: &DetachedMessage) -> Value {
    let data = json!({ "speaker": shown.speaker, "text": shown.reply.text() });
    json!({ "type": "data-detached", "id": id, "data": data })
}

/// Returns the id of an approval: the digest of the action, and the call.
pub(super) fn approval_id(action: &ExternalAction) -> String {
    format!("{}:{}", action.digest, action.call)
}

/// Returns the metadata of a call that waits for input: the digest, which the client returns with
/// the output, the request, and the schema of an answer.
pub(super) fn tool_metadata(action: &ExternalAction) -> Value {
    let mut metadata = json!({ "digest": action.digest, "request": action.request });
    if let Some(question) = action.question() {
        metadata["responseSchema"] = answer_schema(&question);
    }
    metadata
}
