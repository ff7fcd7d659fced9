//! [`Difference`]: the deviation of a replayed session from its log.

use std::sync::Arc;

use crate::log::entry::LogEntry;
use crate::message::{Message, MessageKind};
use crate::testing::excerpt::{excerpt, excerpts};
use crate::testing::log_text::comparable;
use crate::testing::trace::message_text;

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

/// Formats an entry as one short line.
pub(super) fn summary(entry: &LogEntry) -> String {
    excerpt(&comparable(entry).to_string(), 0)
}
