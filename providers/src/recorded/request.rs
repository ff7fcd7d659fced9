//! Requests in the form for recording and comparison.

use loopwright_core::Message;
use loopwright_core::message::MessageKind;
use loopwright_core::model::ChatRequest;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

/// The last request, without the fields that may differ.
#[derive(Debug, Default)]
pub(super) struct RecordedRequest {
    settings: Value,
    messages: Vec<Value>,
}

/// The difference between a request and the one before it.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Change {
    /// All fields except the messages; `None` if they are unchanged.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    settings: Option<Value>,
    /// The number of unchanged messages at the start.
    #[serde(rename = "kept", default, skip_serializing_if = "is_zero")]
    unchanged: usize,
    /// The messages after the unchanged ones.
    messages: Vec<Value>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl From<&ChatRequest> for RecordedRequest {
    fn from(request: &ChatRequest) -> Self {
        let tools = request.tools.iter();
        let tools = tools
            .map(|t| json!({"name": t.name, "description": t.description, "schema": t.schema}));
        let mut settings = json!({
            "system": request.system,
            "tools": tools.collect::<Vec<_>>(),
            "tool_choice": request.tool_choice,
            "thinking": request.thinking,
            "output": request.output,
            "max_tokens": request.max_tokens,
            "temperature": request.temperature,
        });
        if !request.stop.is_empty() {
            settings["stop"] = json!(request.stop);
        }
        RecordedRequest {
            settings,
            messages: request.messages.iter().map(|message| meaning(message)).collect(),
        }
    }
}

/// Returns the part of a message that the model receives. Usage and details for user interfaces are
/// left out.
fn meaning(message: &Message) -> Value {
    let mut value = serde_json::to_value(&message.body).unwrap_or_default();
    if let (Some(map), MessageKind::Assistant(_) | MessageKind::ToolResult(_)) =
        (value.as_object_mut(), &message.body)
    {
        ["usage", "stop", "details", "terminate"].iter().for_each(|key| drop(map.remove(*key)));
    }
    value
}

impl RecordedRequest {
    /// Replaces the last request by `next` and returns the difference.
    pub(super) fn next(&mut self, next: RecordedRequest) -> Change {
        let unchanged =
            self.messages.iter().zip(&next.messages).take_while(|(a, b)| a == b).count();
        let settings = (self.settings != next.settings).then(|| next.settings.clone());
        let change = Change { settings, unchanged, messages: next.messages[unchanged..].to_vec() };
        *self = next;
        change
    }

    /// Applies a difference. Returns `false` if it keeps more messages than there are.
    pub(super) fn apply(&mut self, change: Change) -> bool {
        if change.unchanged > self.messages.len() {
            return false;
        }
        self.messages.truncate(change.unchanged);
        self.messages.extend(change.messages);
        self.settings = change.settings.unwrap_or(std::mem::take(&mut self.settings));
        true
    }

    /// Returns the first difference from `other`, as part of a sentence.
    pub(super) fn difference(&self, other: &RecordedRequest) -> Option<String> {
        let (none, empty) = (Value::Null, Map::new());
        let (ours, theirs) = (
            self.settings.as_object().unwrap_or(&empty),
            other.settings.as_object().unwrap_or(&empty),
        );
        for key in theirs.keys().chain(ours.keys()) {
            let (a, b) = (ours.get(key).unwrap_or(&none), theirs.get(key).unwrap_or(&none));
            if a != b {
                return Some(format!("its `{key}` {}", describe_difference(a, b)));
            }
        }
        let (ours, theirs) = (&self.messages, &other.messages);
        if let Some(at) = ours.iter().zip(theirs).position(|(a, b)| a != b) {
            return Some(format!(
                "its message {} {}",
                at + 1,
                describe_difference(&ours[at], &theirs[at])
            ));
        }
        let lengths = (ours.len(), theirs.len());
        (lengths.0 != lengths.1)
            .then(|| format!("it has {} messages, and {} were recorded", lengths.1, lengths.0))
    }
}

/// Describes the first position at which two values differ.
fn describe_difference(recorded: &Value, asked: &Value) -> String {
    let (a, b) = (text(recorded), text(asked));
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    format!("is `{}`, and `{}` was recorded", excerpt(&b, same), excerpt(&a, same))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Returns the text around the character at this index.
fn excerpt(text: &str, at: usize) -> String {
    let (begin, length) = (at.saturating_sub(30), text.chars().count());
    let fragment: String = text.chars().skip(begin).take(90).collect();
    let dots = |there: bool| if there { "…" } else { "" };
    format!("{}{fragment}{}", dots(begin > 0), dots(begin + 90 < length))
}
