//! [`Comparison`]: a comparison of the results of a session with and without a crash.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::Value;

use crate::log::entry::{BUDGET_KEY, LogEntry, StateScope};
use crate::log::replay_messages;
use crate::log::session_log::SessionLog;
use crate::message::{CallId, History, Message};
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
            LogEntry::RunEnded { end, error, limit, value, handed_back, .. } => Some(format!(
                "{end:?}, error {error:?}, limit {limit:?}, value {value:?}, handed back \
                 {handed_back:?}"
            )),
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
                // The usage until a part began has lost requests in it.
                .filter(|((_, key), _)| !key.starts_with(BUDGET_KEY))
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
    pub(super) fn check(&self, entries: &[LogEntry]) -> Result<(), String> {
        let (expected, actual) = (&self.expected, Product::of(entries));
        let is_same = |a: &Arc<Message>, b: &Arc<Message>| is_same_message(a, b, self.unknown);
        let text = |message: &Arc<Message>| line(message);
        same("end of a run", &expected.ends, &actual.ends, |a, b| a == b, String::clone)?;
        same("message", &expected.messages, &actual.messages, is_same, text)?;
        let context = "message of the next request";
        same(context, &expected.context, &actual.context, is_same, text)?;
        same("custom event", &expected.events, &actual.events, |a, b| a == b, String::clone)?;
        if expected.state != actual.state {
            return Err(format!(
                "the state differs: it is {:?}, and {:?} without a crash",
                actual.state, expected.state
            ));
        }
        Ok(())
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

fn same<T>(
    what: &str,
    expected: &[T],
    actual: &[T],
    is_same: impl Fn(&T, &T) -> bool,
    text: impl Fn(&T) -> String,
) -> Result<(), String> {
    let differs = |at: &usize| match (expected.get(*at), actual.get(*at)) {
        (Some(expected), Some(actual)) => !is_same(expected, actual),
        _ => true,
    };
    let Some(at) = (0..expected.len().max(actual.len())).find(differs) else { return Ok(()) };
    let text = |list: &[T]| list.get(at).map_or("missing".to_owned(), &text);
    Err(format!(
        "{what} {at} differs: it is `{}`, and `{}` without a crash",
        text(actual),
        text(expected)
    ))
}
