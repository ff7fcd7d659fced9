//! The executor of a session: its tools, the calls that are ready, and the calls that run.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::{ActionRequest, StepError};
use crate::event::AgentEvent;
use crate::hooks::{HookContext, ToolCallInfo};
use crate::limits::Limits;
use crate::log::calls::{Call, Phase};
use crate::log::entry::LogEntry;
use crate::message::{CallId, ResultStatus, ToolResult};
use crate::session::calls::running_tool::{RunningTool, shortened};
use crate::session::calls::shown_changes::ShownChanges;
use crate::session::journal::Journal;
use crate::session::request::layers::HookLayers;
use crate::tool::toolbox::digest;
use crate::tool::{ActionOptions, Outcome, Report, ToolContext, ToolOutput, Toolbox};

/// The result of a call after a hook around it panicked.
pub(crate) const RESULT_LOST: &str =
    "It may have run, but a hook around it panicked; the result is lost.";

/// The result of a call that had started in an earlier opening of the session, whose run has ended
/// without it.
const MAY_HAVE_RUN: &str = "The outcome is unknown: it had started when the run was interrupted, \
                            and may have run.";

/// Number of tool reports that are buffered before a tool waits.
const REPORT_CAPACITY: usize = 16;

/// A validated call that has not started.
pub(crate) struct Ready {
    pub(crate) arguments: Arc<Value>,
    /// The call runs without approval.
    pub(crate) auto: bool,
    /// Options of the approval: the text for the approver, and the allowed decisions.
    pub(crate) options: Option<Arc<ActionOptions>>,
}

impl Ready {
    /// Returns a call that needs no approval, or already has it.
    pub(crate) fn to_run(arguments: Arc<Value>) -> Self {
        Ready { arguments, auto: true, options: None }
    }
}

/// The next event of a running tool.
pub(crate) enum ToolEvent {
    Report(Report),
    /// The time limit of the call has expired.
    TimedOut(CallId),
}

/// The tools of the current run, and their calls.
pub(crate) struct Executor {
    pub(crate) tools: Toolbox,
    /// Calls that have neither started nor been put to the user.
    pub(crate) ready: BTreeMap<CallId, Ready>,
    running: BTreeMap<CallId, RunningTool>,
    reports: Option<(mpsc::Sender<Report>, mpsc::Receiver<Report>)>,
}

impl Executor {
    pub(crate) fn new(tools: Toolbox) -> Self {
        Executor { tools, ready: BTreeMap::new(), running: BTreeMap::new(), reports: None }
    }

    pub(crate) fn running_calls(&self) -> usize {
        self.running.len()
    }

    pub(crate) fn is_running(&self, call: &CallId) -> bool {
        self.running.contains_key(call)
    }

    /// Returns the events of running tools so far, merged.
    pub(crate) fn updates_so_far(&self) -> impl Iterator<Item = AgentEvent> {
        self.running.iter().flat_map(|(call, running)| {
            let event = |update| AgentEvent::ToolExecutionUpdate { call: call.clone(), update };
            running.updates_so_far().map(event)
        })
    }

    /// Starts a call whose start is in the log.
    pub(crate) fn start(
        &mut self,
        info: ToolCallInfo,
        shown: ShownChanges,
        journal: &Journal,
        hooks: HookLayers,
        cx: HookContext,
        limits: &Limits,
    ) {
        let Some(call) = journal.state.call(&info.call) else { return };
        let Some(tool) = self.tools.tool(&info.tool.name).cloned() else { return };
        let reports = self.reports();
        let trace = journal.state.run_trace(&cx.session_id);
        let tool_cx = ToolContext {
            session: cx.session_id.clone(),
            created: cx.session_created,
            call: info.call.clone(),
            cancel: CancellationToken::new(),
            reports,
            extensions: cx.extensions.clone(),
            resolution: call.resolution.clone(),
            approvals: call.approvals.clone(),
            observer: None,
            trace: trace.map(|trace| trace.call(&cx.session_id, &info.call)),
        };
        let id = info.call.clone();
        let running =
            RunningTool::spawn(tool, tool_cx, info, shown, hooks, cx, limits.tool_timeout);
        self.running.insert(id, running);
    }

    /// Returns the channel for reports of tools.
    pub(crate) fn reports(&mut self) -> mpsc::Sender<Report> {
        self.reports.get_or_insert_with(|| mpsc::channel(REPORT_CAPACITY)).0.clone()
    }

    /// Frees the state of a batch, once all its calls have results.
    pub(crate) fn close_batch(&mut self) {
        self.ready.clear();
        self.reports = None;
    }

    /// Asks running tools to stop: all, or only the interruptible ones.
    pub(crate) fn cancel(&mut self, all: bool, why: &str) {
        let cancelled = self.running.values_mut().filter(|r| all || r.interruptible);
        cancelled.for_each(|running| running.cancel(why));
    }

    /// Waits for the next event of a running tool. Without a running tool it never resolves.
    /// Dropping the future loses nothing.
    pub(crate) async fn next_event(&mut self) -> ToolEvent {
        let (_, reports) = self.reports.get_or_insert_with(|| mpsc::channel(REPORT_CAPACITY));
        let next = self.running.iter().map(|(id, running)| (running.timeout_at(), id)).min();
        let Some((timeout, call)) = next else { return std::future::pending().await };
        tokio::select! { biased;
            Some(report) = reports.recv() => ToolEvent::Report(report),
            () = tokio::time::sleep_until(timeout) => ToolEvent::TimedOut(call.clone()),
        }
    }

    /// Stages the entries that follow from an event of a running tool. Fails if a hook panicked.
    pub(crate) fn handle(
        &mut self,
        event: ToolEvent,
        journal: &mut Journal,
        limits: &Limits,
        time: u64,
    ) -> Result<(), StepError> {
        match event {
            ToolEvent::TimedOut(id) => {
                if let Some(running) = self.running.remove(&id) {
                    let seconds = running.seconds();
                    let (status, output) = running.time_out();
                    finish(journal, limits, &id, status, output.took_at_least(seconds));
                }
            }
            ToolEvent::Report(Report::Update(call, update)) => {
                // A late update of a call that has its result is dropped.
                if let Some(running) = self.running.get_mut(&call) {
                    running.update(&update);
                    journal.emit_transient(AgentEvent::ToolExecutionUpdate { call, update });
                }
            }
            ToolEvent::Report(Report::End(id, outcome)) => {
                if let Some(running) = self.running.remove(&id) {
                    if let Outcome::Suspended(request) = *outcome {
                        self.suspend(journal, id, request, time);
                        return Ok(());
                    }
                    return end(journal, limits, id, running, *outcome);
                }
            }
            // While a run ends, no request is sent any more, and sent requests are charged.
            ToolEvent::Report(Report::Request(_)) => {}
        }
        Ok(())
    }

    /// Stages the pending action of a tool that suspended.
    fn suspend(&self, journal: &mut Journal, call: CallId, request: ActionRequest, time: u64) {
        let Some(open) = journal.state.call(&call) else { return };
        let Phase::Started { arguments } = &open.phase else { return };
        let name = open.call.name.clone();
        let arguments = arguments.clone();
        let options = self.tools.spec(&name).and_then(|spec| spec.action_options.as_deref());
        journal.stage(suspended(call, name, arguments, request, options, time));
    }

    /// Stages this result for every call that has not started or awaits a decision. A call that
    /// started before a crash gets an unknown outcome. Calls with a sub-agent are left out.
    pub(crate) fn finish_unstarted(
        &mut self,
        journal: &mut Journal,
        limits: &Limits,
        status: ResultStatus,
        why: &str,
    ) {
        let is_open = |c: &&Call| {
            c.result.is_none() && c.child.is_none() && !self.running.contains_key(&c.call.id)
        };
        let open = journal.state.calls().iter().filter(is_open);
        let open: Vec<_> =
            open.map(|c| (c.call.id.clone(), matches!(c.phase, Phase::Started { .. }))).collect();
        for (id, has_started) in open {
            self.ready.remove(&id);
            let (status, why) = match has_started {
                true => (ResultStatus::OutcomeUnknown, MAY_HAVE_RUN),
                false => (status, why),
            };
            finish(journal, limits, &id, status, ToolOutput::text(why));
        }
    }
}

/// Stages the entries that follow from the end of a tool's task.
fn end(
    journal: &mut Journal,
    limits: &Limits,
    id: CallId,
    running: RunningTool,
    outcome: Outcome,
) -> Result<(), StepError> {
    let seconds = running.seconds();
    match outcome {
        Outcome::Result(status, output) => {
            finish(journal, limits, &id, status, output.took_at_least(seconds))
        }
        Outcome::Cancelled(output) => {
            let (status, output) = running.stopped(output);
            finish(journal, limits, &id, status, output.took_at_least(seconds));
        }
        Outcome::Suspended(_) => {} // it has no result
        Outcome::HookPanicked(panic) => {
            finish(journal, limits, &id, ResultStatus::Error, ToolOutput::text(RESULT_LOST));
            return Err(StepError::Panicked(panic));
        }
    }
    Ok(())
}

/// Returns the entry of a call that waits for what its tool has requested.
pub(crate) fn suspended(
    call: CallId,
    name: Arc<str>,
    arguments: Arc<Value>,
    request: ActionRequest,
    options: Option<&ActionOptions>,
    time: u64,
) -> LogEntry {
    let digest = digest(&name, &arguments, Some(&request));
    let terms = options.map(|options| Arc::new(options.terms_of_request(time)));
    let (request, terms) = (Some(Arc::new(request)), terms.unwrap_or_default());
    LogEntry::CallAwaiting { call, name, arguments, digest, request, terms, time }
}

/// Stages the result of a call.
pub(crate) fn finish(
    journal: &mut Journal,
    limits: &Limits,
    call: &CallId,
    status: ResultStatus,
    output: ToolOutput,
) {
    let Some(open) = journal.state.call(call) else { return };
    let name = open.call.name.clone();
    let ToolOutput { content, details, terminate, seconds } = output;
    let mut content = shortened(content, limits.tool_result_bytes);
    if let Some(edited) = journal.state.edited(call) {
        edited.note(&mut content);
    }
    let details = details.map(Arc::new);
    let call = call.clone();
    let result = ToolResult { call, name, status, content, details, terminate, seconds };
    let result = journal.message(result);
    journal.stage(LogEntry::CallFinished { result });
}
