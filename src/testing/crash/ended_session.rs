//! [`EndedSession`]: a session that ran to its end, and the remains of a crash at each point.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;

use super::input_queue::{Append, SentInput};
use super::requests::awaits_reply;
use super::scripted_session::ScriptedInput;
use crate::log::entry::LogEntry;
use crate::message::{CallId, ToolResult};
use crate::testing::recording::Recording;
use crate::tool::Effect;

/// A session that ran to its end.
pub(super) struct EndedSession {
    pub(super) log: Vec<LogEntry>,
    pub(super) appends: Vec<Append>,
    pub(super) sent: Vec<SentInput>,
    /// The effects of its tools, by name.
    pub(super) effects: HashMap<Arc<str>, Effect>,
    pub(super) recording: Recording,
    /// Number of side effects at the start and at the end of the session.
    pub(super) side_effects: Range<u64>,
}

impl EndedSession {
    /// Returns whether the first `cut` entries contain this input.
    pub(super) fn has_input(&self, input: &ScriptedInput, cut: usize) -> bool {
        let sent = self.sent.iter().find(|sent| sent.number == input.number);
        let log_len = sent.map_or(0, |sent| sent.log_len);
        let first = self.entry_of(input, log_len);
        cut > first.unwrap_or(log_len)
    }

    /// Returns the position of the first entry, from `from` on, to which this input led.
    fn entry_of(&self, input: &ScriptedInput, from: usize) -> Option<usize> {
        let first = self.log[from..].iter().position(|entry| input.leads_to(entry));
        first.map(|at| from + at)
    }

    /// Returns the number of side effects before this append, or before the end if there is no such
    /// append.
    pub(super) fn effects_before(&self, append: usize) -> u64 {
        let count = self.appends.get(append).map_or(self.side_effects.end, |next| next.effects);
        count - self.side_effects.start
    }

    /// Returns the at-most-once calls that were running after the first `cut` entries.
    pub(super) fn unknown_calls(&self, cut: usize) -> HashSet<CallId> {
        let running = running_calls(&self.log[..cut]);
        let is_once = |call: &CallId| {
            let result = self.result_of(call);
            result.is_some_and(|result| self.effects.get(&result.name) == Some(&Effect::AtMostOnce))
        };
        running.into_iter().filter(is_once).collect()
    }

    /// Returns whether the result of one of these calls asks to end the run.
    pub(super) fn terminates(&self, calls: &HashSet<CallId>) -> bool {
        calls.iter().filter_map(|call| self.result_of(call)).any(|result| result.terminate)
    }

    fn result_of(&self, call: &CallId) -> Option<&ToolResult> {
        self.log.iter().find_map(|entry| match entry {
            LogEntry::CallFinished { result } => {
                result.as_tool_result().filter(|result| result.call == *call)
            }
            _ => None,
        })
    }

    /// Returns whether, within the first `cut` entries, each input whose condition had held has
    /// arrived, and the work during which it arrived has ended.
    pub(super) fn is_settled(&self, inputs: &[ScriptedInput], cut: usize) -> bool {
        let due = self.sent.iter().filter(|sent| sent.was_due && sent.log_len <= cut);
        let mut due = due.filter_map(|sent| {
            let input = inputs.iter().find(|input| input.number == sent.number)?;
            Some((input, self.entry_of(input, sent.log_len).unwrap_or(sent.log_len)))
        });
        due.all(|(input, arrived)| {
            let ends = |entry: &LogEntry| matches!(entry, LogEntry::RunEnded { .. });
            // An interrupted request without any text leaves nothing but its charge. Only the next
            // write of the pattern shows that it is not repeated.
            let is_idle = |end: usize| {
                let last = &self.log[end - 1];
                let tells = !matches!(last, LogEntry::Queued { .. } | LogEntry::Charged { .. });
                tells && !is_busy(&self.log[..end])
            };
            let mut after = arrived + 1..=cut;
            match input.stops_the_run() {
                true => after.any(|end| ends(&self.log[end - 1])),
                false => after.any(is_idle),
            }
        })
    }
}

/// Returns whether a request or a call is in progress after these entries.
fn is_busy(entries: &[LogEntry]) -> bool {
    awaits_reply(entries) || !running_calls(entries).is_empty()
}

/// Returns the calls that have started and neither finished nor suspended.
fn running_calls(entries: &[LogEntry]) -> HashSet<CallId> {
    let mut running = HashSet::new();
    for entry in entries {
        match entry {
            LogEntry::CallStarted { call, .. } => drop(running.insert(call.clone())),
            LogEntry::CallAwaiting { call, .. } => drop(running.remove(call)),
            LogEntry::CallFinished { result } => {
                if let Some(result) = result.as_tool_result() {
                    running.remove(&result.call);
                }
            }
            _ => {}
        }
    }
    running
}
