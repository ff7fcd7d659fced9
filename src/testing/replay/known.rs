//! What a log lets us know of the tools that there were.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::log::entry::LogEntry;
use crate::message::{AssistantMessage, CallId, ResultStatus, ToolCall};
use crate::tool::{Approval, Effect, ToolSpec};

/// What a log lets us know of a tool.
#[derive(Default)]
struct Known {
    /// It was there: it ran, was asked about or was offered.
    exists: bool,
    /// Arguments of calls that were put to the outside.
    asked: Vec<Value>,
    /// Of calls that ran without that.
    unasked: Vec<Value>,
    /// Of calls that had neither been asked about nor run when they were answered.
    unstarted: Vec<Value>,
    /// It ran again after a crash.
    again: bool,
    /// It was in a batch whose calls ran at once.
    at_once: bool,
    /// It was in a batch whose calls ran one after the other.
    in_turn: bool,
}

/// A spec for each tool that the log tells of: it takes any object, and the same calls of it ask.
pub(super) fn tools(log: &[LogEntry]) -> Vec<ToolSpec> {
    let mut known: BTreeMap<Arc<str>, Known> = BTreeMap::new();
    let mut calls: HashMap<CallId, ToolCall> = HashMap::new();
    let mut asked: HashSet<CallId> = HashSet::new();
    let mut batch = BatchSeen::default();
    let mut started: HashSet<CallId> = HashSet::new();
    for item in log {
        match item {
            LogEntry::RequestStarted { tools: Some(tools), .. } => {
                tools.iter().for_each(|name| known.entry(name.clone()).or_default().exists = true);
            }
            LogEntry::Replied { message, .. } => {
                std::mem::take(&mut batch).note(&mut known);
                for call in message.as_assistant().into_iter().flat_map(AssistantMessage::calls) {
                    calls.insert(call.id.clone(), call.clone());
                    batch.names.insert(call.name.clone());
                }
            }
            LogEntry::CallAwaiting { call, name, arguments, request: need, .. } => {
                let tool = known.entry(name.clone()).or_default();
                tool.exists = true;
                (batch.waited, batch.running) =
                    (true, batch.running.saturating_sub(usize::from(need.is_some())));
                if need.is_none() && !tool.asked.contains(arguments) {
                    tool.asked.push((**arguments).clone());
                }
                asked.insert(call.clone());
                started.remove(call);
            }
            LogEntry::CallStarted { call, arguments } => {
                let Some(name) = calls.get(call).map(|call| call.name.clone()) else {
                    continue;
                };
                let tool = known.entry(name).or_default();
                if !asked.contains(call) {
                    tool.unasked.push((**arguments).clone());
                }
                (tool.exists, tool.again) = (true, tool.again || !started.insert(call.clone()));
                (batch.started, batch.running) = (batch.started + 1, batch.running + 1);
                batch.most = batch.most.max(batch.running);
            }
            LogEntry::CallFinished { result } => {
                let Some(result) = result.as_tool_result() else {
                    continue;
                };
                if started.contains(&result.call) {
                    batch.running = batch.running.saturating_sub(1);
                } else if result.status != ResultStatus::Error {
                    let tool = known.entry(result.name.clone()).or_default();
                    tool.exists = true;
                    let arguments = calls
                        .get(&result.call)
                        .and_then(|call| serde_json::from_str(&call.arguments).ok());
                    tool.unstarted.extend(arguments.filter(|_| !asked.contains(&result.call)));
                }
            }
            LogEntry::Opened { .. } => batch.waited = true, // what ran is cut off
            _ => {}
        }
    }
    batch.note(&mut known);
    known.into_iter().filter(|(_, tool)| tool.exists).map(|(name, tool)| tool.spec(name)).collect()
}

/// How the calls of a batch ran.
#[derive(Default)]
struct BatchSeen {
    names: BTreeSet<Arc<str>>,
    started: usize,
    running: usize,
    most: usize,
    waited: bool,
}

impl BatchSeen {
    fn note(self, known: &mut BTreeMap<Arc<str>, Known>) {
        for name in self.names {
            let tool = known.entry(name).or_default();
            tool.at_once |= self.most > 1;
            tool.in_turn |= self.started > 1 && self.most == 1 && !self.waited;
        }
    }
}

impl Known {
    fn spec(self, name: Arc<str>) -> ToolSpec {
        let spec =
            ToolSpec::with_schema(name, "A tool of a session's log.", json!({"type": "object"}));
        let spec = spec.effect(if self.again { Effect::Idempotent } else { Effect::AtMostOnce });
        let spec = if self.in_turn && !self.at_once { spec.sequential() } else { spec };
        let mut asked = self.asked;
        asked.extend(
            self.unstarted.into_iter().filter(|arguments| !self.unasked.contains(arguments)),
        );
        match asked {
            asked if asked.is_empty() => spec.needs_approval(Approval::Never),
            asked => spec.needs_approval_when(move |arguments, _| asked.contains(arguments)),
        }
    }
}
