//! The sub-agents of the open batch: how they start, what they report, and how they are stopped.

use std::sync::Arc;

use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::limits::Budget;
use crate::log::action::ExternalAction;
use crate::log::calls::{Call, Phase};
use crate::log::entry::LogEntry;
use crate::log::event::{AgentEvent, Parent};
use crate::log::outcome::{RunOutcome, RunStatus};
use crate::log::turn::Used;
use crate::message::{CallId, ResultStatus};
use crate::session::Session;
use crate::session::budget;
use crate::session::child::{ChildReport, ToChild, Work};
use crate::session::child_agent::Opening;
use crate::session::children::Working;
use crate::session::executor::finish;
use crate::session::journal::Journal;
use crate::session::tree::Tree;
use crate::tool::{ToolOutput, ToolUpdate};

/// What can be given to sub-agents that are about to start.
pub(crate) struct Shares {
    left: Budget,
    /// How many have not started.
    count: u32,
}

impl Shares {
    /// Divides what is left by the calls for sub-agents that have not started.
    pub(crate) fn of(session: &Session) -> Self {
        let is_new = |c: &&Call| matches!(c.phase, Phase::Fresh | Phase::Decided { .. });
        let calls = session.journal.fold.calls().iter().filter(is_new);
        let count = calls.filter(|c| session.config.children.contains_key(&c.call.name)).count();
        Shares { left: budget::left(session), count: count as u32 }
    }

    /// Takes the share of the next one, or returns `None` if nothing is left of a budget.
    pub(crate) fn take(&mut self) -> Option<Budget> {
        let share = self.left.part(self.count);
        self.count = self.count.saturating_sub(1);
        self.left = self.left.without(&share);
        (!share.is_used_up()).then_some(share)
    }
}

/// Returns the entry of the start of a sub-agent for this call. The name of its session is unique:
/// the number of a message is never used again.
pub(crate) fn start_entry(session: &Session, call: &CallId, share: Budget) -> LogEntry {
    let batch = session.journal.fold.batch.as_ref();
    let message = batch.map(|batch| batch.message.id.0).unwrap_or_default();
    let calls = session.journal.fold.calls().iter();
    let index = calls.take_while(|c| c.call.id != *call).count() + 1;
    let name = format!("{}/m{message}.{index}", session.id).into();
    LogEntry::ChildStarted { call: call.clone(), session: name, share }
}

/// Lets the sub-agent of a call work, if there is something to do: it was not examined since this
/// process opened the session, or a decision for it has come.
pub(crate) fn resume(session: &mut Session, call: &CallId) {
    let Some(found) = session.journal.fold.call(call) else { return };
    let Some(child) = &found.child else { return };
    if let Some(working) = session.children.working.get_mut(call) {
        for decision in child.decided.iter().skip(working.decisions) {
            let _ = working.to_child.send(ToChild::Decide(decision.clone()));
        }
        working.decisions = child.decided.len();
        return;
    }
    if !session.children.idle.contains(call) || !child.decided.is_empty() {
        work(session, call, None);
    }
}

/// Stops the sub-agents of calls that wait, as far as `may_stop` allows it, and gives the calls
/// this result.
pub(crate) fn stop_waiting(
    session: &mut Session,
    may_stop: impl Fn(&CallId, bool) -> bool,
    status: ResultStatus,
    why: &str,
) {
    let fold = &session.journal.fold;
    let is_waiting = |call: &CallId| !session.children.working.contains_key(call);
    let calls: Vec<CallId> = fold
        .children()
        .filter(|(call, child)| may_stop(&call.call.id, !child.decided.is_empty()))
        .map(|(call, _)| call.call.id.clone())
        .filter(is_waiting)
        .collect();
    for call in calls {
        work(session, &call, Some((status, why.to_owned())));
    }
}

/// Starts the work of the sub-agent of a call; `stopped` if it is to stop at once.
fn work(session: &mut Session, call: &CallId, stopped: Option<(ResultStatus, String)>) {
    let Session { journal, children, config, id, tree, cancel, extensions, .. } = session;
    let Some(found) = journal.fold.call(call) else { return };
    let (Some(child), Phase::Started { arguments }) = (&found.child, &found.phase) else { return };
    let Some(agent) = config.children.get(&found.call.name) else {
        let why = format!("There is no sub-agent `{}` any more.", found.call.name);
        let ended = LogEntry::ChildEnded { call: call.clone(), used: Used::default() };
        journal.stage(ended);
        let output = ToolOutput::text(why);
        return finish(journal, &config.limits, call, ResultStatus::Error, output);
    };
    let (to_child, from_parent) = mpsc::unbounded_channel();
    let stop = CancellationToken::new();
    if stopped.is_some() {
        stop.cancel();
    }
    let root = journal.hub.parent().and_then(|parent| parent.root.clone());
    let mut parent = Parent::new(id.clone(), call.clone());
    parent.root = Some(root.unwrap_or_else(|| id.clone()));
    let depth = tree.depth.unwrap_or(config.limits.depth).saturating_sub(1);
    let work = Work {
        agent: agent.clone(),
        opening: Opening {
            session: child.session.clone(),
            parent,
            tree: Tree {
                store: tree.store.clone(),
                share: Some(child.share),
                depth: Some(depth),
                cancel: cancel.clone(),
                orphaned: CancellationToken::new(),
            },
            extensions: extensions.clone(),
            subscribers: journal.hub.tree_subscribers(),
        },
        call: call.clone(),
        task: arguments["task"].as_str().unwrap_or_default().into(),
        decisions: child.decided.clone(),
        from_parent,
        stop,
        reports: children.reports(),
    };
    children.idle.remove(call);
    children.working.insert(call.clone(), Working::start(work, to_child, stopped));
}

/// Stages what follows from a report.
pub(crate) fn handle(session: &mut Session, call: CallId, report: ChildReport) {
    let time = session.config.environment.now();
    let Session { journal, children, config, .. } = session;
    let Some(working) = children.working.get_mut(&call) else { return };
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
        ChildReport::Idle(actions) => {
            let sent = working.decisions;
            children.working.remove(&call);
            let child = journal.fold.call(&call).and_then(|found| found.child.as_deref());
            let Some(child) = child.filter(|child| child.decided.len() == sent) else {
                return; // a decision has come in the meantime: it works on
            };
            let (listed, has_decisions) = (child.actions.len(), sent > 0);
            let actions = actions.iter().map(|action| named(journal, &call, action)).collect();
            let actions: Vec<Arc<ExternalAction>> = actions;
            children.idle.insert(call.clone());
            let is_known = |action: &Arc<ExternalAction>| {
                journal.fold.pending().any(|known| known.call == action.call)
            };
            if has_decisions || listed != actions.len() || !actions.iter().all(is_known) {
                journal.stage(LogEntry::ChildAwaits { call, actions, time, idle: true });
            }
        }
        ChildReport::Ended(outcome, used) => {
            let stopped = children.working.remove(&call).and_then(|working| working.stopped);
            let (status, output) = result(journal, &call, &outcome, stopped);
            journal.stage(LogEntry::ChildEnded { call: call.clone(), used });
            finish(journal, &config.limits, &call, status, output);
        }
        ChildReport::NotStarted => {
            let stopped = children.working.remove(&call).and_then(|working| working.stopped);
            let not_started = || (ResultStatus::Skipped, "Skipped before it started.".into());
            let (status, why) = stopped.unwrap_or_else(not_started);
            let used = Used::default();
            journal.stage(LogEntry::ChildEnded { call: call.clone(), used });
            finish(journal, &config.limits, &call, status, ToolOutput::text(why));
        }
        ChildReport::Failed(why, used) => {
            children.working.remove(&call);
            journal.stage(LogEntry::ChildEnded { call: call.clone(), used });
            finish(journal, &config.limits, &call, ResultStatus::Error, ToolOutput::text(why));
        }
    }
}

/// Returns the actions of a sub-agent that are not known, as the parent shows them.
fn shown(
    journal: &Journal,
    call: &CallId,
    actions: Vec<Arc<ExternalAction>>,
) -> Vec<Arc<ExternalAction>> {
    let child = journal.fold.call(call).and_then(|found| found.child.as_deref());
    let named = actions.iter().map(|action| named(journal, call, action));
    named.filter(|action| child.is_some_and(|child| !child.knows(call, &action.call))).collect()
}

fn named(journal: &Journal, call: &CallId, action: &ExternalAction) -> Arc<ExternalAction> {
    let agent = journal.fold.call(call).map(|found| found.call.name.clone()).unwrap_or_default();
    Arc::new(action.of_child(call, &agent))
}

/// Returns the result of a call whose sub-agent has ended with this outcome.
fn result(
    journal: &Journal,
    call: &CallId,
    outcome: &RunOutcome,
    stopped: Option<(ResultStatus, String)>,
) -> (ResultStatus, ToolOutput) {
    let with_text = |why: String| match outcome.text.is_empty() {
        true => why,
        false => format!("{why}\nIts last reply:\n{}", outcome.text),
    };
    let error = outcome.error.as_deref().unwrap_or("it was stopped");
    let (status, text) = match (outcome.end, stopped) {
        (RunStatus::Aborted, Some((status, why))) => (status, with_text(why)),
        (RunStatus::Done, _) => {
            let value = outcome.value.as_ref().map(|value| value.to_string());
            (ResultStatus::Ok, value.unwrap_or_else(|| outcome.text.clone()))
        }
        (RunStatus::Incomplete, _) => {
            (ResultStatus::Ok, with_text("The sub-agent's answer is incomplete.".into()))
        }
        (RunStatus::Limit, _) => {
            (ResultStatus::Error, with_text(format!("The sub-agent has reached a limit: {error}.")))
        }
        (RunStatus::Aborted, None) => {
            (ResultStatus::Aborted, with_text("The sub-agent was aborted.".into()))
        }
        _ => (ResultStatus::Error, with_text(format!("The sub-agent failed: {error}."))),
    };
    let child = journal.fold.call(call).and_then(|found| found.child.as_deref());
    let session: Value = child.map(|child| child.session.to_string()).into();
    let details = json!({ "session": session, "end": outcome.end, "value": outcome.value });
    (status, ToolOutput::text(text).details(details))
}
