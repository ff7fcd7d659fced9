//! [`Product`]: the result of a session, or of a part of it.

use std::fmt::Write;

use loopwright_core::Message;
use loopwright_core::log::{LogEntry, replay_messages};
use loopwright_core::message::{ContentPart, MessageId, MessageKind};
use loopwright_core::testing::CheckError;

/// The messages, ends of runs and custom events of a session. Numbers of messages and ids of calls
/// and inputs are left out, since they depend on the history before.
#[derive(Debug, Clone)]
pub(super) struct Product {
    messages: Vec<String>,
    /// The numbers of the messages.
    ids: Vec<MessageId>,
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
                let error = error.as_ref().map(|error| format!(", error: {error}"));
                let limit = limit.map(|limit| format!(", limit: {limit}"));
                let value = value.as_ref().map(|value| format!(", value: {value}"));
                let parts = [error, limit, value].into_iter().flatten();
                Some(format!("{end:?}{}", parts.collect::<String>()))
            }
            _ => None,
        };
        let event = |entry: &LogEntry| match entry {
            LogEntry::Emitted { kind, data } => Some(format!("{kind} {data}")),
            _ => None,
        };
        Product {
            messages: messages.iter().skip(before).map(|message| line(message)).collect(),
            ids: messages.iter().skip(before).map(|message| message.id).collect(),
            ends: log[from..].iter().filter_map(end).collect(),
            events: log[from..].iter().filter_map(event).collect(),
            requests: count_requests(&log[from..]),
        }
    }

    /// Removes the last run of `log`, which failed at its last request.
    pub(super) fn remove_failed_run(&mut self, log: &[LogEntry]) -> Result<(), CheckError> {
        let is_end = |entry: &&LogEntry| matches!(entry, LogEntry::RunEnded { .. });
        let before = log.iter().filter(is_end).count();
        if before + 1 >= self.ends.len() {
            return Err(CheckError::new("`Continue` starts no run"));
        }
        self.ends.remove(before);
        self.requests -= 1;
        Ok(())
    }

    /// Checks that the product of this log is the expected one.
    pub(super) fn expect(&self, expected: &Product, log: &[LogEntry]) -> Result<(), CheckError> {
        same("message", &self.messages, &expected.messages).map_err(|(at, error)| {
            match self.ids.get(at) {
                Some(message) => error.log_until(log, *message),
                None => error.log(log),
            }
        })?;
        let is_end = |entry: &LogEntry| matches!(entry, LogEntry::RunEnded { .. });
        same("the end of run", &self.ends, &expected.ends)
            .map_err(|(at, error)| error.log_until_nth(log, at, is_end))?;
        let is_event = |entry: &LogEntry| matches!(entry, LogEntry::Emitted { .. });
        same("custom event", &self.events, &expected.events)
            .map_err(|(at, error)| error.log_until_nth(log, at, is_event))?;
        if self.requests == expected.requests {
            return Ok(());
        }
        let text = format!("{} requests are sent instead of {}", self.requests, expected.requests);
        Err(CheckError::new(text).log(log))
    }
}

/// Compares two lists. Returns the position of the first difference, and the error.
fn same(kind: &str, observed: &[String], expected: &[String]) -> Result<(), (usize, CheckError)> {
    let count = observed.len().max(expected.len());
    let Some(at) = (0..count).find(|at| observed.get(*at) != expected.get(*at)) else {
        return Ok(());
    };
    let text = |list: &[String]| list.get(at).cloned();
    let (observed, expected) = (text(observed), text(expected));
    Err((at, CheckError::difference(kind, at, observed.as_deref(), expected.as_deref())))
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

/// Returns the position after the end of the run with this request, counted from zero, or the end
/// of the log.
pub(super) fn run_end(log: &[LogEntry], request: usize) -> usize {
    let is_sent = |end: &usize| count_requests(&log[..*end]) > request;
    let sent = (0..=log.len()).find(is_sent).unwrap_or(log.len());
    let is_end = |entry: &LogEntry| matches!(entry, LogEntry::RunEnded { .. });
    log[sent..].iter().position(is_end).map_or(log.len(), |at| sent + at + 1)
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
