//! [`Product`]: the result of a session, or of a part of it.

use std::fmt::Write;

use loopwright_core::Message;
use loopwright_core::log::{LogEntry, replay_messages};
use loopwright_core::message::{ContentPart, MessageId, MessageKind};

/// The messages, ends of runs and custom events of a session. Numbers of messages and ids of calls
/// and inputs are left out, since they depend on the history before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Product {
    messages: Vec<String>,
    ends: Vec<String>,
    events: Vec<String>,
    requests: usize,
}

impl Product {
    /// Returns the product of the entries from position `from`.
    pub(super) fn of(log: &[LogEntry], from: usize) -> Self {
        let messages = replay_messages(log);
        let before = replay_messages(&log[..from]).len();
        let end = |entry: &LogEntry| match entry {
            LogEntry::RunEnded { end, error, limit, value, .. } => {
                Some(format!("{end:?}, error {error:?}, limit {limit:?}, value {value:?}"))
            }
            _ => None,
        };
        let event = |entry: &LogEntry| match entry {
            LogEntry::Emitted { kind, data } => Some(format!("{kind} {data}")),
            _ => None,
        };
        Product {
            messages: messages.iter().skip(before).map(|message| line(message)).collect(),
            ends: log[from..].iter().filter_map(end).collect(),
            events: log[from..].iter().filter_map(event).collect(),
            requests: count_requests(&log[from..]),
        }
    }

    /// Removes the last run of `log`, which failed at its last request.
    pub(super) fn remove_failed_run(&mut self, log: &[LogEntry]) -> Result<(), String> {
        let is_end = |entry: &&LogEntry| matches!(entry, LogEntry::RunEnded { .. });
        let before = log.iter().filter(is_end).count();
        if before + 1 >= self.ends.len() {
            return Err("`Continue` starts no run".into());
        }
        self.ends.remove(before);
        self.requests -= 1;
        Ok(())
    }

    /// Checks that the product is the expected one.
    pub(super) fn expect(&self, expected: &Product) -> Result<(), String> {
        same("message", &self.messages, &expected.messages)?;
        same("end of a run", &self.ends, &expected.ends)?;
        same("custom event", &self.events, &expected.events)?;
        if self.requests == expected.requests {
            return Ok(());
        }
        Err(format!("{} requests instead of {}", self.requests, expected.requests))
    }
}

fn same(what: &str, observed: &[String], expected: &[String]) -> Result<(), String> {
    let count = observed.len().max(expected.len());
    let Some(at) = (0..count).find(|at| observed.get(*at) != expected.get(*at)) else {
        return Ok(());
    };
    let text = |list: &[String]| list.get(at).map_or("missing".to_owned(), |s| format!("`{s}`"));
    Err(format!("{what} {at} is {} instead of {}", text(observed), text(expected)))
}

/// Returns two values for each request of this log. The first is the number of requests sent up to
/// the end of its group, which is sent together. The second is whether only requests without a
/// reply are sent again: the request is alone, or all of its group have keys.
pub(super) fn request_groups(log: &[LogEntry]) -> Vec<(usize, bool)> {
    let mut groups = Vec::new();
    let has_key = |message: MessageId| {
        log.iter().any(|entry| match entry {
            LogEntry::Detached { message: reply, key, .. } => reply.id == message && key.is_some(),
            _ => false,
        })
    };
    for entry in log {
        let (count, is_kept) = match entry {
            LogEntry::RequestStarted { .. } => (1, true),
            LogEntry::DetachedStarted { requests } => {
                let has_keys = requests.iter().all(|request| has_key(request.message));
                (requests.len(), has_keys || requests.len() == 1)
            }
            _ => continue,
        };
        groups.extend(vec![(groups.len() + count, is_kept); count]);
    }
    groups
}

/// Returns the number of requests in these entries, including detached ones.
pub(super) fn count_requests(log: &[LogEntry]) -> usize {
    let count = |sent: usize, entry: &LogEntry| match entry {
        LogEntry::RequestStarted { .. } => sent + 1,
        LogEntry::DetachedStarted { requests } => sent + requests.len(),
        LogEntry::NotSent { messages } => sent.saturating_sub(messages.len()),
        _ => sent,
    };
    log.iter().fold(0, count)
}

fn line(message: &Message) -> String {
    match &message.body {
        MessageKind::User(message) => format!("user: {}", message.text()),
        MessageKind::Assistant(message) => {
            let mut out = String::from("assistant: ");
            for part in &message.parts {
                match part {
                    ContentPart::ToolCall(call) => {
                        let _ = write!(out, "[{}({})]", call.name, call.arguments);
                    }
                    ContentPart::Text { text, .. } => out.push_str(text),
                    _ => {}
                }
            }
            format!("{out} ({:?})", message.stop)
        }
        MessageKind::ToolResult(result) => {
            format!("result of {} ({:?}): {}", result.name, result.status, result.text())
        }
        MessageKind::Custom(message) => format!("{}: {}", message.kind, message.data),
        _ => String::from("another message"),
    }
}
