//! [`Difference`]: the deviation of a replayed session from its log.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value;

use crate::log::entry::{BUDGET_KEY, LogEntry};
use crate::message::{ContentPart, Message, MessageKind};
use crate::testing::excerpt::{excerpt, excerpts};

/// The deviation of an agent from a log. `Display` writes one sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Difference {
    request: Option<usize>,
    entry: Option<usize>,
    text: String,
}

impl Difference {
    /// Returns the number of the differing request, counted from one with detached requests, or
    /// `None` if the difference is not in a request.
    pub fn request(&self) -> Option<usize> {
        self.request
    }

    /// Returns the index of the differing log entry, or `None` if the difference is not in an
    /// entry.
    pub fn entry(&self) -> Option<usize> {
        self.entry
    }

    pub(super) fn of_request(number: usize, text: impl std::fmt::Display) -> Self {
        Difference { request: Some(number), entry: None, text: format!("request {number}{text}") }
    }

    pub(super) fn of_entry(at: usize, old: Option<&LogEntry>, new: &LogEntry) -> Self {
        let text = match old {
            Some(old) => {
                let (old, new) =
                    excerpts(&comparable(old).to_string(), &comparable(new).to_string());
                format!("entry {at} of the log differs: the log has `{old}`, now it is `{new}`")
            }
            None => format!("the log ends before entry {at}, and now `{}` follows", summary(new)),
        };
        Difference { request: None, entry: Some(at), text }
    }

    pub(super) fn at_entry(at: usize, text: String) -> Self {
        Difference { request: None, entry: Some(at), text }
    }

    pub(super) fn other(text: String) -> Self {
        Difference { request: None, entry: None, text }
    }

    /// Compares messages without their ids. Returns the first difference.
    pub(super) fn of_messages(
        number: usize,
        old: &[Arc<Message>],
        new: &[Arc<Message>],
    ) -> Option<Self> {
        let bodies = |at: usize| (old.get(at).map(|m| &m.body), new.get(at).map(|m| &m.body));
        let differ = |at: &usize| bodies(*at).0 != bodies(*at).1;
        let at = (0..old.len().max(new.len())).find(differ)?;
        let (old, new) = bodies(at);
        let (a, b) = (old.map(message_text), new.map(message_text));
        let (a, b) = if a == b { (old.map(json), new.map(json)) } else { (a, b) };
        let (a, b) = match (a, b) {
            (Some(a), Some(b)) => excerpts(&a, &b),
            (a, b) => {
                (a.unwrap_or_else(|| "no message".into()), b.unwrap_or_else(|| "no message".into()))
            }
        };
        let text = format!(": message {} differs: the log has `{a}`, now it is `{b}`", at + 1);
        Some(Self::of_request(number, text))
    }

    /// Compares a value of a request. Returns the difference, if any.
    pub(super) fn of_values(number: usize, what: &str, old: &str, new: &str) -> Option<Self> {
        let (a, b) = (old != new).then(|| excerpts(old, new))?;
        Some(Self::of_request(number, format!(": {what} differs: it was `{a}`, now it is `{b}`")))
    }
}

fn json(body: &MessageKind) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// Formats a message as one line.
fn message_text(body: &MessageKind) -> String {
    match body {
        MessageKind::User(m) => format!("user: {}", m.text()),
        MessageKind::Custom(m) => format!("{}: {}", m.kind, m.data),
        MessageKind::ToolResult(m) => {
            format!("result of {} ({:?}): {}", m.call, m.status, m.text())
        }
        MessageKind::Assistant(m) => {
            let mut out = String::from("assistant: ");
            for part in &m.parts {
                match part {
                    ContentPart::Text { text, .. } => out.push_str(text),
                    ContentPart::Thinking { text, .. } => drop(write!(out, "<{text}>")),
                    ContentPart::ToolCall(call) => {
                        let _ = write!(out, "[{} {}({})]", call.id, call.name, call.arguments);
                    }
                }
            }
            out
        }
    }
}

/// Returns an entry as JSON without the values that differ from run to run: times, message ids, and
/// costs, which are rounded.
pub(super) fn comparable(entry: &LogEntry) -> Value {
    let mut value = serde_json::to_value(entry).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        for key in ["time", "cost", "estimate"] {
            map.remove(key);
        }
        if let LogEntry::State { key, .. } = entry
            && key.starts_with(BUDGET_KEY)
        {
            map.remove("value"); // has a time
        }
        if map.contains_key("limit") {
            map.remove("error"); // says how much was used
        }
        if matches!(entry, LogEntry::AbortRequested { .. }) {
            map.remove("input"); // a generated id
        }
        if map.get("message").is_some_and(Value::is_string) {
            map.remove("message");
        }
        for key in ["message", "result"] {
            map.get_mut(key).and_then(Value::as_object_mut).map(|message| message.remove("id"));
        }
    }
    value
}

/// Formats an entry as one short line.
pub(super) fn summary(entry: &LogEntry) -> String {
    excerpt(&comparable(entry).to_string(), 0)
}
