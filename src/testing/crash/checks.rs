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
use crate::testing::check::ensure;
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
) -> Result<(), String> {
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
            ensure(runs == 0, &format!("call {call} was finished and ran again"))?;
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
                return Err(format!("the at-most-once call {call} of `{name}` ran a second time"));
            }
            if status != ResultStatus::OutcomeUnknown {
                return Err(format!(
                    "the at-most-once call {call} of `{name}` had started before the crash, and \
                     its result is {status:?}"
                ));
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
) -> Result<(), String> {
    let expected = complete.side_effects.end - complete.side_effects.start;
    if before + after <= expected {
        return Ok(());
    }
    Err(format!(
        "a side effect took place twice: {before} before the crash and {after} after it, and \
         {expected} without a crash"
    ))
}

/// Checks that the sequence numbers of `emitted` continue without gaps after the entries before the
/// crash. Each event must equal the event with its number in the log.
pub(super) fn check_numbers(
    logged: &[LogEntry],
    entries: &[LogEntry],
    emitted: &[Arc<Envelope>],
) -> Result<(), String> {
    let mut last = SessionLog::events("s", logged).len() as u64;
    let all = SessionLog::events("s", entries);
    for event in emitted {
        if event.seq == last {
            continue; // a delta, or one of several events of an entry
        }
        if event.seq != last + 1 {
            return Err(format!("event {} follows event {last}: {:?}", event.seq, event.event));
        }
        last = event.seq;
        let expected = all.get(last as usize - 1).map(|logged| &logged.event);
        if expected != Some(&event.event) {
            return Err(format!(
                "event {last} was emitted as {:?}, and the log has {expected:?}",
                event.event
            ));
        }
    }
    if last == all.len() as u64 {
        Ok(())
    } else {
        Err(format!("event {last} is the last one emitted, and the log has {}", all.len()))
    }
}
