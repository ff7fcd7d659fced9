//! The checks after each crash: no call ran too often, and the events equal the events of the log.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use serde_json::Value;

use super::ended_session::EndedSession;
use crate::error::ToolError;
use crate::event::Envelope;
use crate::log::entry::LogEntry;
use crate::log::session_log::SessionLog;
use crate::message::{CallId, ResultStatus};
use crate::testing::check_error::CheckError;
use crate::testing::trace::describe;
use crate::tool::{Effect, Tool, ToolContext, ToolOutput, ToolSpec};

/// The calls that ran, in order. Clones share the list.
#[derive(Clone, Default)]
pub(super) struct RecordedCalls(Arc<Mutex<Vec<CallId>>>);

impl RecordedCalls {
    /// Wraps `tool` so that its calls are recorded here.
    pub(super) fn record(&self, tool: Arc<dyn Tool>) -> Arc<dyn Tool> {
        Arc::new(RecordedTool { tool, calls: self.clone() })
    }

    fn push(&self, call: CallId) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(call);
    }

    /// Returns the number of runs of this call.
    fn count(&self, call: &CallId) -> usize {
        let calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        calls.iter().filter(|id| *id == call).count()
    }
}

struct RecordedTool {
    tool: Arc<dyn Tool>,
    calls: RecordedCalls,
}

#[async_trait]
impl Tool for RecordedTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        self.tool.spec()
    }

    async fn call(&self, arguments: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        self.calls.push(cx.call_id().clone());
        self.tool.call(arguments, cx).await
    }

    fn check_arguments(&self, arguments: &Value) -> Option<Result<(), String>> {
        self.tool.check_arguments(arguments)
    }

    async fn preview(&self, arguments: &Value) -> Result<Option<String>, ToolError> {
        self.tool.preview(arguments).await
    }
}

/// Checks that no call that had finished before the crash ran after it, and that no started
/// at-most-once call ran a second time.
///
/// `logged` are the entries before the crash, `entries` all entries, and `calls` the calls after
/// the crash.
pub(super) fn check_calls(
    logged: &[LogEntry],
    entries: &[LogEntry],
    calls: &RecordedCalls,
    effects: &HashMap<Arc<str>, Effect>,
) -> Result<(), CheckError> {
    let result_of = |entries: &[LogEntry], id: &CallId| {
        entries.iter().find_map(|entry| match entry {
            LogEntry::CallFinished { result } => {
                result.as_tool_result().filter(|result| result.call == *id).cloned()
            }
            _ => None,
        })
    };
    let started = logged.iter().filter_map(|entry| {
        if let LogEntry::CallStarted { call, .. } = entry { Some(call) } else { None }
    });
    for call in started {
        let runs = calls.count(call);
        if result_of(logged, call).is_some() {
            if runs > 0 {
                return Err(CheckError::new(format!("the finished call {call} ran again")));
            }
            continue;
        }
        let last = logged.iter().rev().find(|entry| match entry {
            LogEntry::CallStarted { call: id, .. } | LogEntry::CallAwaiting { call: id, .. } => {
                id == call
            }
            _ => false,
        });
        let (Some(LogEntry::CallStarted { .. }), Some(result)) = (last, result_of(entries, call))
        else {
            continue;
        };
        if effects.get(&result.name) == Some(&Effect::AtMostOnce) {
            let (name, status) = (&result.name, result.status);
            if runs > 0 {
                let text = format!("the at-most-once call {call} of `{name}` ran a second time");
                return Err(CheckError::new(text));
            }
            if status != ResultStatus::OutcomeUnknown {
                return Err(CheckError::new(format!(
                    "the result of the at-most-once call {call} of `{name}`, which had started, \
                     does not say that its outcome is unknown: it is {status:?}"
                )));
            }
        }
    }
    Ok(())
}

/// Checks that no side effect took place both `before` the crash and `after` it.
pub(super) fn check_effects(
    before: u64,
    after: u64,
    complete: &EndedSession,
) -> Result<(), CheckError> {
    let expected = complete.side_effects.end - complete.side_effects.start;
    if before + after <= expected {
        return Ok(());
    }
    let error = CheckError::new("a side effect took place twice");
    Err(error.note(format!("Before the crash: {before}, after it: {after}, expected: {expected}")))
}

/// Checks that the sequence numbers of `emitted` continue without gaps after the entries before the
/// crash. Each event must equal the event with its number in the log.
pub(super) fn check_numbers(
    logged: &[LogEntry],
    entries: &[LogEntry],
    emitted: &[Arc<Envelope>],
) -> Result<(), CheckError> {
    let mut last = SessionLog::events("s", logged).len() as u64;
    let all = SessionLog::events("s", entries);
    for event in emitted {
        if event.seq == last {
            continue; // a delta, or one of several events of an entry
        }
        if event.seq != last + 1 {
            let text = format!("the numbers of events have a gap: {} follows {last}", event.seq);
            return Err(
                CheckError::new(text).note(format!("The event: {}", describe(&event.event)))
            );
        }
        last = event.seq;
        let expected = all.get(last as usize - 1).map(|logged| &logged.event);
        if expected != Some(&event.event) {
            let (emitted, logged) = (describe(&event.event), expected.map(describe));
            let kind = "an emitted event differs from the event of the log";
            return Err(CheckError::new(format!("{kind}: number {last}"))
                .note(format!("Emitted: {emitted}"))
                .note(format!("The log: {}", logged.unwrap_or_default())));
        }
    }
    if last == all.len() as u64 {
        Ok(())
    } else {
        let text = format!("{last} events were emitted, and the log has {}", all.len());
        Err(CheckError::new(text))
    }
}
