//! The specs of the tools in a log, as far as the log shows them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde_json::{Value, json};

use crate::log::entry::LogEntry;
use crate::message::{AssistantMessage, CallId, ResultStatus, ToolCall};
use crate::tool::{ActionOptions, Approval, Effect, ToolSpec};

/// The properties of a tool that a log shows.
#[derive(Default)]
struct ObservedTool {
    /// `true` if the tool existed: it ran, needed an approval, or was offered.
    exists: bool,
    /// The arguments of calls that needed an approval.
    approved: Vec<Value>,
    /// The arguments of calls that ran without an approval.
    unapproved: Vec<Value>,
    /// The arguments of calls with a result, but neither an approval nor a start.
    unstarted: Vec<Value>,
    /// `true` if a call ran a second time after a crash.
    is_repeated: bool,
    /// Number of approvals that a call needed.
    quorum: u32,
    /// `true` if it was in a batch whose calls ran in parallel.
    in_parallel: bool,
    /// `true` if it was in a batch whose calls ran one after the other.
    in_sequence: bool,
}

/// Returns a spec for each tool in the log. It accepts any object, and needs an approval for the
/// calls that needed an approval in the log.
pub(super) fn tools(log: &[LogEntry]) -> Vec<ToolSpec> {
    let mut observed: BTreeMap<Arc<str>, ObservedTool> = BTreeMap::new();
    let mut calls: HashMap<CallId, ToolCall> = HashMap::new();
    let mut awaited: HashSet<CallId> = HashSet::new();
    let mut batch = ObservedBatch::default();
    let mut started: HashSet<CallId> = HashSet::new();
    for entry in log {
        match entry {
            LogEntry::RequestStarted { tools: Some(tools), .. } => {
                tools
                    .iter()
                    .for_each(|name| observed.entry(name.clone()).or_default().exists = true);
            }
            LogEntry::Replied { message, .. } | LogEntry::Called { message, .. } => {
                std::mem::take(&mut batch).record(&mut observed);
                for call in message.as_assistant().into_iter().flat_map(AssistantMessage::calls) {
                    calls.insert(call.id.clone(), call.clone());
                    batch.names.insert(call.name.clone());
                }
            }
            LogEntry::CallAwaiting { call, name, arguments, request, terms, .. } => {
                let tool = observed.entry(name.clone()).or_default();
                tool.exists = true;
                tool.quorum = tool.quorum.max(terms.quorum);
                batch.has_waited = true;
                batch.running = batch.running.saturating_sub(usize::from(request.is_some()));
                if request.is_none() && !tool.approved.contains(arguments) {
                    tool.approved.push((**arguments).clone());
                }
                awaited.insert(call.clone());
                started.remove(call);
            }
            LogEntry::CallStarted { call, arguments } => {
                let Some(name) = calls.get(call).map(|call| call.name.clone()) else {
                    continue;
                };
                let tool = observed.entry(name).or_default();
                if !awaited.contains(call) {
                    tool.unapproved.push((**arguments).clone());
                }
                tool.exists = true;
                tool.is_repeated |= !started.insert(call.clone());
                batch.started += 1;
                batch.running += 1;
                batch.max_running = batch.max_running.max(batch.running);
            }
            LogEntry::CallFinished { result } => {
                let Some(result) = result.as_tool_result() else {
                    continue;
                };
                if started.contains(&result.call) {
                    batch.running = batch.running.saturating_sub(1);
                } else if result.status != ResultStatus::Error {
                    let tool = observed.entry(result.name.clone()).or_default();
                    tool.exists = true;
                    let arguments = calls
                        .get(&result.call)
                        .and_then(|call| serde_json::from_str(&call.arguments).ok());
                    tool.unstarted.extend(arguments.filter(|_| !awaited.contains(&result.call)));
                }
            }
            LogEntry::Opened { .. } => batch.has_waited = true, // the calls were cut off
            _ => {}
        }
    }
    batch.record(&mut observed);
    observed
        .into_iter()
        .filter(|(_, tool)| tool.exists)
        .map(|(name, tool)| tool.spec(name))
        .collect()
}

/// The properties of a batch of calls that a log shows.
#[derive(Default)]
struct ObservedBatch {
    names: BTreeSet<Arc<str>>,
    started: usize,
    running: usize,
    max_running: usize,
    /// `true` if a call waited for a decision, or the process died.
    has_waited: bool,
}

impl ObservedBatch {
    fn record(self, observed: &mut BTreeMap<Arc<str>, ObservedTool>) {
        for name in self.names {
            let tool = observed.entry(name).or_default();
            tool.in_parallel |= self.max_running > 1;
            tool.in_sequence |= self.started > 1 && self.max_running == 1 && !self.has_waited;
        }
    }
}

impl ObservedTool {
    fn spec(self, name: Arc<str>) -> ToolSpec {
        let spec =
            ToolSpec::with_schema(name, "A tool of a session's log.", json!({"type": "object"}));
        let spec =
            spec.effect(if self.is_repeated { Effect::Idempotent } else { Effect::AtMostOnce });
        let spec = if self.in_sequence && !self.in_parallel { spec.sequential() } else { spec };
        let spec = match self.quorum {
            0 | 1 => spec,
            quorum => spec.action_options(ActionOptions::new().quorum(quorum)),
        };
        let mut approved = self.approved;
        approved.extend(
            self.unstarted.into_iter().filter(|arguments| !self.unapproved.contains(arguments)),
        );
        match approved {
            approved if approved.is_empty() => spec.approval(Approval::Never),
            approved => {
                spec.approval(Approval::when(move |arguments, _| approved.contains(arguments)))
            }
        }
    }
}
