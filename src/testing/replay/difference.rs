//! [`Difference`]: where a replayed session is not as its log, in a sentence.

use std::fmt::Write;
use std::sync::Arc;

use serde_json::Value;

use crate::log::entry::LogEntry;
use crate::message::{ContentPart, Message, MessageKind};

/// Where an agent did otherwise than a log. Its text is a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct Difference {
    request: Option<usize>,
    item: Option<usize>,
    text: String,
}

impl Difference {
    /// The request that differs, counted from one, asides included; nothing if it is not a request
    /// that differs.
    pub fn request(&self) -> Option<usize> {
        self.request
    }

    /// The item of the log that differs, counted from zero, if it is one.
    pub fn item(&self) -> Option<usize> {
        self.item
    }

    pub(super) fn of_request(number: usize, text: impl std::fmt::Display) -> Self {
        Difference { request: Some(number), item: None, text: format!("request {number}{text}") }
    }

    pub(super) fn of_item(at: usize, old: Option<&LogEntry>, new: &LogEntry) -> Self {
        let text = match old {
            Some(old) => {
                let (old, new) = apart(&plain(old).to_string(), &plain(new).to_string());
                format!("item {at} of the log differs: the log has `{old}`, now it is `{new}`")
            }
            None => format!("the log ends with item {at}, and now `{}` follows", tell(new)),
        };
        Difference { request: None, item: Some(at), text }
    }

    pub(super) fn at_item(at: usize, text: String) -> Self {
        Difference { request: None, item: Some(at), text }
    }

    pub(super) fn elsewhere(text: String) -> Self {
        Difference { request: None, item: None, text }
    }

    /// The first of the messages that differ, if any do; numbers of messages do not count.
    pub(super) fn of_messages(
        number: usize,
        old: &[Arc<Message>],
        new: &[Arc<Message>],
    ) -> Option<Self> {
        let bodies = |at: usize| (old.get(at).map(|m| &m.body), new.get(at).map(|m| &m.body));
        let differ = |at: &usize| bodies(*at).0 != bodies(*at).1;
        let at = (0..old.len().max(new.len())).find(differ)?;
        let (old, new) = bodies(at);
        let (a, b) = (old.map(say), new.map(say));
        let (a, b) = if a == b { (old.map(json), new.map(json)) } else { (a, b) };
        let (a, b) = match (a, b) {
            (Some(a), Some(b)) => apart(&a, &b),
            (a, b) => {
                (a.unwrap_or_else(|| "no message".into()), b.unwrap_or_else(|| "no message".into()))
            }
        };
        let text = format!(": message {} differs: the log has `{a}`, now it is `{b}`", at + 1);
        Some(Self::of_request(number, text))
    }

    /// That two values of a request differ, if they do.
    pub(super) fn of_values(number: usize, what: &str, old: &str, new: &str) -> Option<Self> {
        let (a, b) = (old != new).then(|| apart(old, new))?;
        Some(Self::of_request(number, format!(": {what} differs: it was `{a}`, now it is `{b}`")))
    }
}

fn json(body: &MessageKind) -> String {
    serde_json::to_string(body).unwrap_or_default()
}

/// A message as a line for people.
fn say(body: &MessageKind) -> String {
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

/// An item without what is not the same twice: times, numbers of messages, what rounding makes of a
/// cost.
pub(super) fn plain(item: &LogEntry) -> Value {
    let mut value = serde_json::to_value(item).unwrap_or_default();
    if let Some(map) = value.as_object_mut() {
        for key in ["time", "cost"] {
            map.remove(key);
        }
        if matches!(item, LogEntry::AbortRequested { .. }) {
            map.remove("input"); // made up, and of no use to anybody
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

/// An item in a few words.
pub(super) fn tell(item: &LogEntry) -> String {
    cut(&plain(item).to_string(), 0)
}

const SHOWN: usize = 200;

/// Two texts, each cut so that the first place at which they differ is seen.
fn apart(a: &str, b: &str) -> (String, String) {
    let same = a.bytes().zip(b.bytes()).take_while(|(a, b)| a == b).count();
    let from = if same < SHOWN - 60 { 0 } else { same - 60 };
    (cut(a, from), cut(b, from))
}

fn cut(text: &str, from: usize) -> String {
    let from = text.floor_char_boundary(from);
    let to = text.floor_char_boundary(from + SHOWN);
    let (before, after) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
    format!("{before}{}{after}", &text[from..to])
}
