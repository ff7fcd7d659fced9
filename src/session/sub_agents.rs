//! The sub-agents of the open batch: their start, their reports and their stop.

pub(crate) mod child;
pub(crate) mod child_agent;
pub(crate) mod children;
pub(crate) mod tree;

use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::error::{MemoryError, StepError};
use crate::event::action::ExternalAction;
use crate::event::{AgentEvent, Parent};
use crate::hooks::ToolCallInfo;
use crate::limits::Budget;
use crate::log::calls::{Call, ChildCall, Phase};
use crate::log::entry::LogEntry;
use crate::log::turn::Used;
use crate::message::{CallId, ResultStatus};
use crate::session::Session;
use crate::session::calls::executor::{RESULT_LOST, finish};
use crate::session::journal::Journal;
use crate::session::request::budget;
use crate::session::sub_agents::child::{ChildReport, Stopped, ToChild, Work};
use crate::session::sub_agents::child_agent::Opening;
use crate::session::sub_agents::tree::Tree;
use crate::tool::{ToolOutput, ToolUpdate};

/// The rest of the budgets, to be divided among sub-agents that are about to start.
pub(crate) struct Shares {
    left: Budget,
    /// Number of sub-agents that have not started.
    count: u32,
}

impl Shares {
    /// Divides the rest of the budgets among the calls for sub-agents that have not started.
    pub(crate) fn of(session: &Session) -> Self {
        let is_new = |c: &&Call| matches!(c.phase, Phase::Fresh | Phase::Decided { .. });
        let calls = session.journal.state.calls().iter().filter(is_new);
        let count = calls.filter(|c| session.config.children.contains_key(&c.call.name)).count();
        Shares { left: budget::left(session, &session.budget_parts), count: count as u32 }
    }

    /// Takes the share of the next sub-agent. Returns `None` if a budget is used up.
    pub(crate) fn take(&mut self) -> Option<Budget> {
        let share = self.left.part(self.count);
        self.count = self.count.saturating_sub(1);
        self.left = self.left.without(&share);
        (!share.is_used_up()).then_some(share)
    }
}

/// Returns the entry for the start of a sub-agent for this call. The name of its session is unique,
/// because the number of a message is never reused.
pub(crate) fn start_entry(session: &Session, call: &CallId, share: Budget) -> LogEntry {
    let batch = session.journal.state.batch.as_ref();
    let message = batch.map(|batch| batch.message.id.0).unwrap_or_default();
    let calls = session.journal.state.calls().iter();
    let index = calls.take_while(|c| c.call.id != *call).count() + 1;
    let name = format!("{}/m{message}.{index}", session.id).into();
    LogEntry::ChildStarted { call: call.clone(), session: name, share }
}

/// Lets the sub-agent of a call work, if there is something to do: it was not examined since this
/// process opened the session, or a decision for it has come.
pub(crate) async fn resume(session: &mut Session, call: &CallId) -> Result<(), MemoryError> {
    let Some(found) = session.journal.state.call(call) else { return Ok(()) };
    let Some(child) = &found.child else { return Ok(()) };
    if let Some(working) = session.children.working.get_mut(call) {
        for decision in child.decided.iter().skip(working.decisions) {
            let _ = working.to_child.send(ToChild::Decide(Box::new(decision.clone())));
        }
        working.decisions = child.decided.len();
        return Ok(());
    }
    if child.decided.is_empty() && !session.config.children.contains_key(&found.call.name) {
        // An agent that still has this sub-agent can continue it.
        session.children.idle.insert(call.clone());
    } else if !session.children.idle.contains(call) || !child.decided.is_empty() {
        session.journal.flush().await?; // before its own log changes
        work(session, call, None);
    }
    Ok(())
}

/// Stops the idle sub-agents for which `may_stop` returns `true`, and gives their calls this
/// result.
pub(crate) async fn stop_waiting(
    session: &mut Session,
    may_stop: impl Fn(&ChildCall) -> bool + Send,
    status: ResultStatus,
    why: &str,
) -> Result<(), MemoryError> {
    let waiting = session.journal.state.children().filter(|(_, child)| may_stop(child));
    let waiting = waiting.map(|(call, _)| call.call.id.clone());
    let is_idle = |call: &CallId| !session.children.working.contains_key(call);
    let waiting: Vec<CallId> = waiting.filter(is_idle).collect();
    if !waiting.is_empty() {
        session.journal.flush().await?; // before their own logs change
    }
    for call in waiting {
        work(session, &call, Some((status, why.to_owned())));
    }
    Ok(())
}

/// Starts the work of a call's sub-agent. With `stopped`, the work stops at once.
fn work(session: &mut Session, call: &CallId, stopped: Option<Stopped>) {
    let cx = session.hook_context();
    let Session { journal, children, config, id, tree, cancel, extensions, executor, .. } = session;
    let subscribers = journal.hub().tree_subscribers();
    let Some(found) = journal.state.call(call) else { return };
    let (Some(child), Phase::Started { arguments }) = (&found.child, &found.phase) else { return };
    let (agent, spec) =
        (config.children.get(&found.call.name), executor.tools.spec(&found.call.name));
    let (Some(agent), Some(spec)) = (agent, spec) else {
        let why = format!("There is no sub-agent `{}` any more.", found.call.name);
        journal.stage(LogEntry::ChildEnded { call: call.clone(), used: Used::default() });
        let output = ToolOutput::text(why);
        return finish(journal, &config.limits, call, ResultStatus::Error, output);
    };
    let (to_child, from_parent) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    if stopped.is_some() {
        stop.cancel();
    }
    let root = journal.parent().and_then(|parent| parent.root.clone());
    let mut parent = Parent::new(id.clone(), call.clone());
    parent.root = Some(root.unwrap_or_else(|| id.clone()));
    let depth = tree.depth.unwrap_or(config.limits.depth).saturating_sub(1);
    let trace = journal.state.run_trace(id).map(|trace| trace.call(id, call));
    let opening = Opening {
        session: child.session.clone(),
        parent,
        tree: Tree {
            store: tree.store.clone(),
            share: Some(child.share),
            shared_budget: tree.shared_budget.clone(),
            mean_output: journal.state.mean_output().or(tree.mean_output),
            depth: Some(depth),
            cancel: cancel.clone(),
            orphaned: Some(CancellationToken::new()),
            appends_each: tree.appends_each,
        },
        extensions: match trace {
            Some(trace) => extensions.clone().with(trace),
            None => extensions.clone(),
        },
        subscribers,
    };
    let (tool, arguments) = (spec.clone(), arguments.clone());
    let info = ToolCallInfo { call: call.clone(), tool, arguments };
    let work = Work {
        agent: agent.clone(),
        opening,
        info,
        hooks: config.hooks.clone(),
        cx,
        turn: 0,
        decisions: child.decided.clone(),
        from_parent,
        stop,
        stopped: Arc::new(stopped.map_or_else(OnceLock::new, OnceLock::from)),
        reports: children.reports(),
    };
    children.start(work, to_child);
}

/// Stages the entries that follow from a report. Fails if a hook panicked.
pub(crate) fn handle(
    session: &mut Session,
    call: CallId,
    report: ChildReport,
) -> Result<(), StepError> {
    let time = session.config.environment.now();
    let Session { journal, children, config, .. } = session;
    let Some(working) = children.working.get_mut(&call) else { return Ok(()) };
    match report {
        ChildReport::Progress(progress) => {
            working.progress = Some(progress.clone());
            let update = ToolUpdate::Progress(Box::new(progress));
            journal.emit_transient(AgentEvent::ToolExecutionUpdate { call, update });
        }
        ChildReport::Awaits(action) => {
            let actions = shown(journal, &call, vec![action]);
            if !actions.is_empty() {
                journal.stage(LogEntry::ChildAwaits { call, actions, time, idle: false });
            }
        }
        ChildReport::Idle(actions, recorded) => {
            children.working.remove(&call);
            let child = journal.state.call(&call).and_then(|found| found.child.as_deref());
            let Some(child) = child.filter(|child| child.decided.len() == recorded) else {
                return Ok(()); // a decision has come in the meantime: it works on
            };
            let (listed, has_decisions) = (child.actions.len(), recorded > 0);
            let actions = actions.iter().map(|action| named(journal, &call, action)).collect();
            let actions: Vec<Arc<ExternalAction>> = actions;
            children.idle.insert(call.clone());
            let is_known = |action: &Arc<ExternalAction>| {
                journal.state.pending().any(|known| known.call == action.call)
            };
            if has_decisions || listed != actions.len() || !actions.iter().all(is_known) {
                journal.stage(LogEntry::ChildAwaits { call, actions, time, idle: true });
            }
        }
        ChildReport::Ended { status, output, used } => {
            let working = children.working.remove(&call);
            let seconds = working.map_or(0, |working| working.started.elapsed().as_secs());
            let output = output.took_at_least(u32::try_from(seconds).unwrap_or(u32::MAX));
            journal.stage(LogEntry::ChildEnded { call: call.clone(), used });
            finish(journal, &config.limits, &call, status, output);
        }
        ChildReport::HookPanicked(panic, used) => {
            children.working.remove(&call);
            journal.stage(LogEntry::ChildEnded { call: call.clone(), used });
            let output = ToolOutput::text(RESULT_LOST);
            finish(journal, &config.limits, &call, ResultStatus::Error, output);
            return Err(StepError::Panicked(panic));
        }
    }
    Ok(())
}

/// Returns those actions of a sub-agent that are new, as the parent shows them.
fn shown(
    journal: &Journal,
    call: &CallId,
    actions: Vec<Arc<ExternalAction>>,
) -> Vec<Arc<ExternalAction>> {
    let child = journal.state.call(call).and_then(|found| found.child.as_deref());
    let named = actions.iter().map(|action| named(journal, call, action));
    named.filter(|action| child.is_some_and(|child| !child.knows(call, &action.call))).collect()
}

fn named(journal: &Journal, call: &CallId, action: &ExternalAction) -> Arc<ExternalAction> {
    let agent = journal.state.call(call).map(|found| found.call.name.clone()).unwrap_or_default();
    Arc::new(action.of_child(call, &agent))
}
