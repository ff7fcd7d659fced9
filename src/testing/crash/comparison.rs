//! [`Comparison`]: a comparison of the results of a session with and without a crash.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use crate::log::entry::{BUDGET_KEY, LogEntry, StateScope};
use crate::log::replay_messages;
use crate::log::session_log::SessionLog;
use crate::log::stages::STAGES_KEY;
use crate::message::{CallId, History, Message};
use crate::testing::check_error::CheckError;
use crate::testing::recording::is_same_message;
use crate::testing::trace::line;

/// A comparison with a session that ran without a crash.
pub(super) struct Comparison<'a> {
    expected: Product,
    /// The calls whose results are not compared.
    unknown: &'a HashSet<CallId>,
}

/// The results of a session.
struct Product {
    messages: Vec<Arc<Message>>,
    context: History,
    ends: Vec<String>,
    events: Vec<String>,
    /// The pattern's state, with positions in place of message numbers, which may differ.
    state: BTreeMap<(StateScope, Arc<str>), Value>,
}

impl Product {
    fn of(entries: &[LogEntry]) -> Self {
        let end = |entry: &LogEntry| match entry {
            LogEntry::RunEnded { end, error, limit, value, handed_back, .. } => {
                let error = error.as_ref().map(|error| format!(", error: {error}"));
                let limit = limit.map(|limit| format!(", limit: {limit}"));
                let value = value.as_ref().map(|value| format!(", value: {value}"));
                let back = (!handed_back.is_empty()).then(|| format!(", back: {handed_back:?}"));
                let parts = [error, limit, value, back].into_iter().flatten();
                Some(format!("{end:?}{}", parts.collect::<String>()))
            }
            _ => None,
        };
        let event = |entry: &LogEntry| match entry {
            LogEntry::Emitted { kind, data } => Some(format!("{kind} {data}")),
            _ => None,
        };
        let log = SessionLog::of(entries);
        Product {
            messages: replay_messages(entries),
            context: log.context(),
            ends: entries.iter().filter_map(end).collect(),
            events: entries.iter().filter_map(event).collect(),
            state: log
                .all_state()
                .into_iter()
                // The usage until a part began has lost requests in it, and a restart may lead past
                // a stage, at other times.
                .filter(|((_, key), _)| !key.starts_with(BUDGET_KEY) && **key != *STAGES_KEY)
                .map(|(key, value)| (key, without_numbers(&value, &log.messages())))
                .collect(),
        }
    }
}

impl<'a> Comparison<'a> {
    pub(super) fn new(expected: &[LogEntry], unknown: &'a HashSet<CallId>) -> Self {
        Comparison { expected: Product::of(expected), unknown }
    }

    /// Checks that a session with this log has the same results.
    pub(super) fn check(&self, log: &[LogEntry]) -> Result<(), CheckError> {
        let (expected, actual) = (&self.expected, Product::of(log));
        let is_same = |a: &Arc<Message>, b: &Arc<Message>| is_same_message(a, b, self.unknown);
        let text = |message: &Arc<Message>| line(message);
        let until = |error: CheckError, message: Option<&Arc<Message>>| match message {
            Some(message) => error.log_until(log, message.id),
            None => error.log(log),
        };
        let is_end = |entry: &LogEntry| matches!(entry, LogEntry::RunEnded { .. });
        same("the end of run", &expected.ends, &actual.ends, |a, b| a == b, String::clone)
            .map_err(|(at, error)| error.log_until_nth(log, at, is_end))?;
        same("message", &expected.messages, &actual.messages, is_same, text)
            .map_err(|(at, error)| until(error, actual.messages.get(at)))?;
        let context = "the next request's message";
        same(context, &expected.context, &actual.context, is_same, text)
            .map_err(|(_, error)| error.log(log))?;
        let is_event = |entry: &LogEntry| matches!(entry, LogEntry::Emitted { .. });
        same("custom event", &expected.events, &actual.events, |a, b| a == b, String::clone)
            .map_err(|(at, error)| error.log_until_nth(log, at, is_event))?;
        if expected.state == actual.state {
            return Ok(());
        }
        let text = |state: &BTreeMap<(StateScope, Arc<str>), Value>| {
            let value = |((_, key), value): (&(StateScope, Arc<str>), _)| format!("{key}: {value}");
            state.iter().map(value).collect::<Vec<_>>().join(", ")
        };
        let error = CheckError::new("the state of the pattern differs")
            .note(format!("Observed: {}", text(&actual.state)))
            .note(format!("Expected: {}", text(&expected.state)));
        Err(error.log(log))
    }
}

/// Replaces the numbers of messages in a value with their positions.
fn without_numbers(value: &Value, messages: &[Arc<Message>]) -> Value {
    match value {
        Value::String(text) => {
            let at = messages.iter().position(|message| message.id.to_string() == *text);
            at.map_or(value.clone(), |at| Value::String(format!("message {at}")))
        }
        Value::Array(values) => values.iter().map(|v| without_numbers(v, messages)).collect(),
        Value::Object(fields) => {
            let field = |(name, v): (&String, _)| (name.clone(), without_numbers(v, messages));
            Value::Object(fields.iter().map(field).collect())
        }
        _ => value.clone(),
    }
}

/// Compares two lists. Returns the position of the first difference, and the error.
fn same<T>(
    kind: &str,
    expected: &[T],
    actual: &[T],
    is_same: impl Fn(&T, &T) -> bool,
    text: impl Fn(&T) -> String,
) -> Result<(), (usize, CheckError)> {
    let differs = |at: &usize| match (expected.get(*at), actual.get(*at)) {
        (Some(expected), Some(actual)) => !is_same(expected, actual),
        _ => true,
    };
    let Some(at) = (0..expected.len().max(actual.len())).find(differs) else { return Ok(()) };
    let text = |list: &[T]| list.get(at).map(&text);
    let (actual, expected) = (text(actual), text(expected));
    Err((at, CheckError::difference(kind, at, actual.as_deref(), expected.as_deref())))
}
