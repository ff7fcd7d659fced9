//! The sub-agents that work for calls of the open batch.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, OnceLock};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::event::AgentEvent;
use crate::event::action::call_of_child;
use crate::event::hub::Subscriber;
use crate::event::input::InputEvent;
use crate::message::{CallId, ResultStatus};
use crate::session::input::command::InputCommand;
use crate::session::sub_agents::child::{ChildReport, Stopped, ToChild, Work};
use crate::tool::{Progress, ToolUpdate};

/// The sub-agents of a session and their work.
#[derive(Default)]
pub(crate) struct Children {
    pub(super) working: BTreeMap<CallId, Working>,
    /// The calls whose sub-agents only wait for decisions.
    pub(crate) idle: BTreeSet<CallId>,
    /// Abandoned work that may not have ended yet.
    left: BTreeMap<CallId, JoinHandle<()>>,
    reports: Option<Reports>,
}

type Reports =
    (mpsc::UnboundedSender<(CallId, ChildReport)>, mpsc::UnboundedReceiver<(CallId, ChildReport)>);

/// A sub-agent that works.
pub(super) struct Working {
    pub(super) to_child: mpsc::UnboundedSender<ToChild>,
    pub(super) stop: CancellationToken,
    /// Set when the sub-agent is stopped.
    stopped: Arc<OnceLock<Stopped>>,
    orphaned: Option<CancellationToken>,
    /// Number of decisions in the parent's log that were sent to the sub-agent.
    pub(super) decisions: usize,
    pub(super) progress: Option<Progress>,
    pub(super) started: Instant,
    task: Option<JoinHandle<()>>,
}

impl Drop for Working {
    /// Stops the sub-agent's session without another entry.
    fn drop(&mut self) {
        if let Some(orphaned) = &self.orphaned {
            orphaned.cancel();
        }
    }
}

impl Children {
    /// Starts the work for a call in its own task, after earlier work for the call has ended.
    pub(super) fn start(&mut self, work: Work, to_child: mpsc::UnboundedSender<ToChild>) {
        let call = work.info.call.clone();
        let (stop, stopped) = (work.stop.clone(), work.stopped.clone());
        let (decisions, orphaned) = (work.decisions.len(), work.opening.tree.orphaned.clone());
        let before = self.left.remove(&call);
        let task = Some(tokio::spawn(async move {
            if let Some(before) = before {
                let _ = before.await;
            }
            work.run().await;
        }));
        let working = Working {
            to_child,
            stop,
            stopped,
            orphaned,
            decisions,
            progress: None,
            started: Instant::now(),
            task,
        };
        self.idle.remove(&call);
        self.working.insert(call, working);
    }

    /// Abandons the working sub-agents, since the log of the parent cannot be written. Their
    /// sessions stop without another entry, and are examined when the parent continues.
    pub(crate) fn leave(&mut self) {
        for (call, mut working) in std::mem::take(&mut self.working) {
            self.left.extend(working.task.take().map(|task| (call, task)));
        }
        (self.idle, self.reports) = Default::default();
    }

    /// Returns the channel for reports.
    pub(super) fn reports(&mut self) -> mpsc::UnboundedSender<(CallId, ChildReport)> {
        self.reports.get_or_insert_with(mpsc::unbounded_channel).0.clone()
    }

    /// Returns the number of working sub-agents.
    pub(crate) fn working(&self) -> usize {
        self.working.len()
    }

    /// Returns the latest progress of each working sub-agent.
    pub(crate) fn updates_so_far(&self) -> impl Iterator<Item = AgentEvent> {
        self.working.iter().filter_map(|(call, working)| {
            let update = ToolUpdate::Progress(Box::new(working.progress.clone()?));
            Some(AgentEvent::ToolExecutionUpdate { call: call.clone(), update })
        })
    }

    /// Waits for the next report. Dropping the future loses nothing.
    pub(crate) async fn next(&mut self) -> (CallId, ChildReport) {
        match &mut self.reports {
            Some((_, reports)) if !self.working.is_empty() => match reports.recv().await {
                Some(report) => report,
                None => std::future::pending().await,
            },
            _ => std::future::pending().await,
        }
    }

    /// Stops the working sub-agents for which `may_stop` returns `true`.
    pub(crate) fn cancel(
        &self,
        may_stop: impl Fn(&CallId) -> bool,
        status: ResultStatus,
        why: &str,
    ) {
        for (_, working) in self.working.iter().filter(|(call, _)| may_stop(call)) {
            working.stopped.get_or_init(|| (status, why.to_owned()));
            working.stop.cancel();
        }
    }

    /// Subscribes a reader to the events of the working sub-agents.
    pub(crate) fn subscribe(&self, subscriber: &Subscriber) {
        for working in self.working.values() {
            let _ = working.to_child.send(ToChild::Subscribe(subscriber.clone()));
        }
    }

    /// Forwards a steer to the sub-agent that works for this call. Returns whether there is one.
    pub(crate) fn steer(&self, call: &str, mut input: Box<InputCommand>) -> bool {
        let found = self.working.iter().find_map(|(outer, working)| {
            let inner = call_of_child(call, outer);
            (**outer == *call || inner.is_some()).then_some((working, inner))
        });
        let Some((working, inner)) = found else { return false };
        if let (Some(inner), InputEvent::Steer(prompt)) = (inner, &mut input.event) {
            let prompt = std::mem::take(prompt);
            input.event = InputEvent::SteerTo { call: inner.into(), prompt };
        }
        working.to_child.send(ToChild::Steer(input)).is_ok()
    }
}
