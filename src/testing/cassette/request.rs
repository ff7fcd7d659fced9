//! [`RecordedRequest`]: a request in its form for recording and comparison.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use crate::message::{Message, MessageKind};
use crate::model::{ChatRequest, ThinkingLevel, ToolChoice};
use crate::tool::ToolSpec;

/// A request in its form for recording and comparison: the model's input, without the ids of
/// messages and of the session.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct RecordedRequest {
    system: String,
    tools: Vec<Value>,
    /// All other options that differ from their defaults.
    options: Map<String, Value>,
    messages: Vec<Value>,
}

/// The difference between a request and the previous request in the file.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Change {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    system: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    tools: Option<Vec<Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    options: Option<Map<String, Value>>,
    /// Number of unchanged messages at the start.
    #[serde(default, skip_serializing_if = "is_zero")]
    kept: usize,
    /// The messages after the unchanged ones.
    messages: Vec<Value>,
}

fn is_zero(number: &usize) -> bool {
    *number == 0
}

impl RecordedRequest {
    /// Converts a request to the agent's model of this name.
    pub(super) fn new(model: Option<&str>, request: &ChatRequest) -> Self {
        let tool = |spec: &Arc<ToolSpec>| {
            let ToolSpec { name, description, schema, .. } = &**spec;
            json!({"name": name, "description": description, "schema": schema})
        };
        let ChatRequest { tool_choice, thinking, temperature, .. } = request;
        let mut options = Map::new();
        let mut set = |name: &str, value: Option<Value>| {
            options.extend(value.map(|value| (name.to_owned(), value)));
        };
        set("model", model.map(Value::from));
        set("tool_choice", (*tool_choice != ToolChoice::Auto).then(|| json!(tool_choice)));
        set("thinking", (*thinking != ThinkingLevel::Off).then(|| json!(thinking)));
        set("output", request.output.as_ref().map(|output| json!(output)));
        set("max_tokens", request.max_tokens.map(Value::from));
        // The shortest decimal number: 0.7, not 0.699999988079071.
        set("temperature", temperature.and_then(|t| t.to_string().parse().ok()));
        set("stop", (!request.stop.is_empty()).then(|| json!(request.stop)));
        RecordedRequest {
            system: request.system.to_string(),
            tools: request.tools.iter().map(tool).collect(),
            options,
            messages: request.messages.iter().map(|message| content(message)).collect(),
        }
    }

    /// Returns the difference from `last`.
    pub(super) fn change_from(&self, last: &RecordedRequest) -> Change {
        let pairs = last.messages.iter().zip(&self.messages);
        let kept = pairs.take_while(|(a, b)| a == b).count();
        Change {
            system: (self.system != last.system).then(|| self.system.clone()),
            tools: (self.tools != last.tools).then(|| self.tools.clone()),
            options: (self.options != last.options).then(|| self.options.clone()),
            kept,
            messages: self.messages[kept..].to_vec(),
        }
    }

    /// Returns the request that differs from this one by `change`, or `None` if this request has
    /// too few messages.
    pub(super) fn changed(&self, change: Change) -> Option<RecordedRequest> {
        let Change { system, tools, options, kept, messages } = change;
        let kept = self.messages.get(..kept)?.iter().cloned();
        Some(RecordedRequest {
            system: system.unwrap_or_else(|| self.system.clone()),
            tools: tools.unwrap_or_else(|| self.tools.clone()),
            options: options.unwrap_or_else(|| self.options.clone()),
            messages: kept.chain(messages).collect(),
        })
    }

    /// Returns a measure of similarity to `other`. Only the order of the numbers matters.
    pub(super) fn likeness(&self, other: &RecordedRequest) -> usize {
        let pairs = self.messages.iter().zip(&other.messages);
        let equal_start = pairs.clone().take_while(|(a, b)| a == b).count();
        let equal = pairs.filter(|(a, b)| a == b).count();
        let others = [
            self.system == other.system,
            self.tools == other.tools,
            self.options.get("model") == other.options.get("model"),
            self.messages.len() == other.messages.len(),
        ];
        2 * (equal_start + equal) + others.into_iter().filter(|is_equal| *is_equal).count()
    }

    /// Formats the last message as one line.
    pub(super) fn last_message(&self) -> String {
        let mut lines = Vec::new();
        self.messages.iter().last().into_iter().for_each(|last| {
            message_lines(self.messages.len(), last, &mut lines);
        });
        lines.iter().map(|line| line.trim()).collect::<Vec<_>>().join(" ")
    }

    /// Formats the request as lines, for comparison.
    pub(super) fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if !self.system.is_empty() {
            lines.push("system prompt:".to_owned());
            lines.extend(indented(&self.system));
        }
        for (at, message) in self.messages.iter().enumerate() {
            message_lines(at + 1, message, &mut lines);
        }
        for tool in &self.tools {
            lines.push(format!("tool {}:", text(&tool["name"])));
            lines.extend(indented(&text(&tool["description"])));
            lines.extend(indented(&pretty(&tool["schema"])));
        }
        for (name, value) in &self.options {
            match value {
                Value::Object(_) => {
                    lines.push(format!("{name}:"));
                    lines.extend(indented(&pretty(value)));
                }
                value => lines.push(format!("{name}: {}", text(value))),
            }
        }
        lines
    }
}

/// Returns the model's part of a message: without usage, and without details for front ends.
fn content(message: &Message) -> Value {
    let mut value = serde_json::to_value(&message.body).unwrap_or_default();
    if let (Some(map), MessageKind::Assistant(_) | MessageKind::ToolResult(_)) =
        (value.as_object_mut(), &message.body)
    {
        let of_front_ends = ["usage", "stop", "details", "terminate", "seconds"];
        of_front_ends.iter().for_each(|key| drop(map.remove(*key)));
    }
    value
}

/// Appends a message as lines: its role, each of its texts, and everything else as JSON.
fn message_lines(number: usize, message: &Value, lines: &mut Vec<String>) {
    let Some(fields) = message.as_object() else { return };
    let role = fields.get("role").map(text).unwrap_or_default();
    lines.push(format!("message {number}, {role}:"));
    let parts = ["content", "parts"].into_iter().filter_map(|name| fields.get(name)?.as_array());
    parts.flatten().for_each(|part| part_lines(part, lines));
    let rest = fields.iter().filter(|(name, _)| !["role", "content", "parts"].contains(&&***name));
    lines.extend(rest.map(|(name, value)| format!("  {name}: {}", text(value))));
}

fn part_lines(part: &Value, lines: &mut Vec<String>) {
    let mut rest = part.as_object().cloned().unwrap_or_default();
    let Some(Value::String(text)) = rest.remove("text") else {
        lines.push(format!("  {part}"));
        return;
    };
    lines.extend(indented(&text));
    if rest.get("type").is_some_and(|kind| kind == "text") {
        rest.remove("type");
    }
    if !rest.is_empty() {
        lines.push(format!("  {}", Value::Object(rest)));
    }
}

fn indented(text: &str) -> impl Iterator<Item = String> {
    text.lines().map(|line| format!("  {line}"))
}

fn text(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// Formats JSON with one value per line.
pub(super) fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}
