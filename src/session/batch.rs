//! Running one batch: order, parallelism, skip, interrupt, timeout, panic → one result per call.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{ActionRequest, StepError};
use crate::log::calls::{Call, Phase};
use crate::log::entry::LogEntry;
use crate::log::event::AgentEvent;
use crate::log::input::{Decision, Provided, QueueKind, Urgency};
use crate::message::{CallId, ResultStatus, ToolResult};
use crate::session::Session;
use crate::session::config::WhileAwaiting;
use crate::session::hooks::{BeforeToolCall, ToolCallInfo};
use crate::session::running::{Owned, Ready, Running, Told, shortened, step_back};
use crate::tool::toolbox::digest;
use crate::tool::{Effect, Outcome, Report, ToolContext, ToolOutput, ToolSpec};

/// How long a cancelled tool may take to hand in what it has.
const GRACE: Duration = Duration::from_millis(200);
const CUT_OFF: &str = "The reply was cut off at the output limit, so none of its calls ran. Make the call again in smaller parts.";
pub(crate) const STEERED: &str = "Skipped: the user steered before it started.";
/// What a tool that stops by itself is answered with.
pub(crate) const STOPPED_ITSELF: &str = "The tool stopped itself after it had started.";

/// How a batch stands after `call_tools`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum BatchOutcome {
    /// There were no calls.
    NoCalls,
    /// Every call has its result; the model should see them.
    Closed,
    /// Every call has its result, and all results ask for the run's end.
    Terminated,
    /// Some calls wait for an answer from outside.
    AwaitsUser,
}

impl BatchOutcome {
    /// Whether calls wait for an answer from outside.
    pub fn awaits_user(self) -> bool {
        self == BatchOutcome::AwaitsUser
    }

    /// Whether there are results that the model should see.
    pub fn wants_reply(self) -> bool {
        self == BatchOutcome::Closed
    }
}

impl Session {
    /// Runs what the open batch holds (all, or one call): fresh calls, approved ones, those that a
    /// crash left. Nothing to do when no batch is open.
    pub(crate) async fn run_batch(
        &mut self,
        only: Option<&CallId>,
    ) -> Result<BatchOutcome, StepError> {
        if self.fold.batch.is_none() {
            return Ok(BatchOutcome::NoCalls);
        }
        self.hear_all().await?;
        while self.fold.batch.is_some() {
            self.prepare().await?;
            if self.steer_skips() {
                self.finish_unstarted(ResultStatus::Skipped, STEERED).await?;
            }
            if self.start_ready(only).await? {
                step_back().await; // one that is quick is done before a timer is set for it
            }
            if self.crew.running.is_empty() {
                break;
            }
            let heard = self.next_happening(true).await?;
            if heard == Some(Urgency::Interrupt) {
                self.cancel_running(false, "the user interrupted");
            }
        }
        if self.fold.batch.is_some() && only.is_none() {
            self.ask_outside().await?;
        }
        if self.fold.batch.is_some() {
            return Ok(BatchOutcome::AwaitsUser);
        }
        self.crew.ready.clear();
        let mut results = self.fold.history.iter().rev().map_while(|m| m.as_tool_result());
        let all = results.all(|result| result.terminate);
        Ok(if all { BatchOutcome::Terminated } else { BatchOutcome::Closed })
    }

    /// Whether a steer that waits skips what has not started. Where messages are held back while
    /// calls await, one that came after the question does not.
    fn steer_skips(&self) -> bool {
        let hold = self.config.while_awaiting == WhileAwaiting::Hold;
        let held = |w| hold && self.fold.was_asked() && self.fold.is_after_question(w);
        self.fold
            .queue
            .lane(QueueKind::Steering)
            .any(|w| w.urgency >= Urgency::SkipPending && !held(w))
    }

    /// Looks at each call that has not started, in source order: what may run, what must be asked,
    /// what has its result already.
    async fn prepare(&mut self) -> Result<(), StepError> {
        let cut = self.fold.batch.as_ref().is_some_and(|batch| batch.is_cut());
        let fresh = |s: &Session, c: &Call| {
            !matches!(c.phase, Phase::Finished | Phase::Awaiting(_))
                && !s.crew.ready.contains_key(&c.call.id)
                && !s.crew.running.contains_key(&c.call.id)
        };
        let ids: Vec<CallId> = self
            .fold
            .calls()
            .iter()
            .filter(|c| fresh(self, c))
            .map(|c| c.call.id.clone())
            .collect();
        for id in ids {
            let Some(call) = self.fold.call(&id) else {
                continue;
            };
            let (name, phase, raw) =
                (call.call.name.clone(), call.phase.clone(), call.call.arguments.clone());
            let ready = match phase {
                Phase::Fresh if self.steer_skips() => continue,
                Phase::Fresh if cut => Err((ResultStatus::Error, CUT_OFF.into())),
                Phase::Fresh => self.prepare_fresh(&id, &name, &raw).await?,
                Phase::Decided { action, decision, by } => {
                    if let Decision::Provide(Provided::Result(output)) = &*decision {
                        self.finish_with(&id, ResultStatus::Ok, output.clone());
                        continue;
                    }
                    let there = |ready| {
                        self.tools
                            .entry(&name)
                            .map(|_| ready)
                            .map_err(|why| (ResultStatus::Error, why))
                    };
                    decided(&action.arguments, &decision, by.as_deref()).and_then(there)
                }
                Phase::Started { arguments } => self.recover(&name, arguments),
                Phase::Awaiting(_) | Phase::Finished => continue,
            };
            match ready {
                Ok(ready) => drop(self.crew.ready.insert(id, ready)),
                Err((status, why)) => self.finish(&id, status, why),
            }
        }
        self.flush().await
    }

    async fn prepare_fresh(
        &mut self,
        id: &CallId,
        name: &str,
        raw: &str,
    ) -> Result<Result<Ready, (ResultStatus, String)>, StepError> {
        let offered = self
            .fold
            .offered
            .as_ref()
            .is_none_or(|names| names.iter().any(|offered| **offered == *name));
        let checked = self.tools.entry(name).and_then(|entry| {
            let refused = || format!("The tool `{name}` is not offered now.");
            offered.then(|| entry.spec.clone()).ok_or_else(refused)
        });
        let checked = checked.and_then(|spec| Ok((spec, self.tools.validate(name, raw)?)));
        let (spec, mut arguments) = match checked {
            Ok(checked) => checked,
            Err(why) => return Ok(Err((ResultStatus::Error, why))),
        };
        if let Some(hook) = self.config.hooks.before_tool_call.clone() {
            let info = self.call_info(id, &spec, Arc::new(arguments.clone()));
            match self.wait_for(hook(info)).await? {
                BeforeToolCall::Proceed => {}
                BeforeToolCall::Block(why) => return Ok(Err((ResultStatus::Denied, why))),
                BeforeToolCall::Rewrite(other) => match self.tools.validate_value(name, other) {
                    Ok(valid) => arguments = valid,
                    Err(why) => {
                        return Ok(Err((
                            ResultStatus::Error,
                            format!("A hook rewrote the arguments. {why}"),
                        )));
                    }
                },
            }
        }
        let auto = self.config.auto.can_auto_call(&spec, &arguments, &self.extensions);
        Ok(Ok(Ready { arguments: Arc::new(arguments), auto }))
    }

    /// A call that had started when a crash came.
    fn recover(&self, name: &str, arguments: Arc<Value>) -> Result<Ready, (ResultStatus, String)> {
        match self.tools.entry(name).map(|entry| entry.spec.effect) {
            Ok(Effect::ReadOnly | Effect::Idempotent) => Ok(Ready { arguments, auto: true }),
            Ok(Effect::AtMostOnce) | Err(_) => {
                let why = "The outcome is unknown: it may have run before the process was interrupted. Check before you call it again.";
                Err((ResultStatus::OutcomeUnknown, why.into()))
            }
        }
    }

    /// Starts what may start: up to the limit, or one after the other if a tool of the batch is
    /// sequential. Whether it started any.
    async fn start_ready(&mut self, only: Option<&CallId>) -> Result<bool, StepError> {
        let sequential =
            |c: &Call| self.tools.spec(&c.call.name).is_some_and(|spec| spec.sequential);
        let at_once = if self.fold.calls().iter().any(sequential) {
            1
        } else {
            self.config.limits.parallel_calls
        };
        let room = at_once.saturating_sub(self.crew.running.len());
        let wanted = |c: &&Call| only.is_none_or(|id| c.call.id == *id);
        let startable = |c: &Call| {
            self.crew
                .ready
                .get(&c.call.id)
                .filter(|ready| ready.auto)
                .map(|r| (c.call.id.clone(), r.arguments.clone()))
        };
        let go: Vec<_> =
            self.fold.calls().iter().filter(wanted).filter_map(startable).take(room).collect();
        for (call, arguments) in &go {
            self.crew.ready.remove(call);
            self.stage(LogEntry::CallStarted { call: call.clone(), arguments: arguments.clone() });
        }
        self.flush().await?; // recorded as started before anything runs
        let any = !go.is_empty();
        go.into_iter().for_each(|(id, arguments)| self.spawn(id, arguments));
        Ok(any)
    }

    /// Puts what may not run by itself to the outside.
    async fn ask_outside(&mut self) -> Result<(), StepError> {
        let calls = self.fold.calls().iter().map(|c| (c.call.id.clone(), c.call.name.clone()));
        let time = self.config.environment.now();
        for (call, name) in calls.collect::<Vec<_>>() {
            if let Some(Ready { arguments, .. }) = self.crew.ready.remove(&call) {
                let digest = digest(&name, &arguments, None);
                self.stage(LogEntry::CallAwaiting {
                    call,
                    name,
                    arguments,
                    digest,
                    need: None,
                    time,
                });
            }
        }
        self.flush().await
    }

    /// On a task of its own: a tool that blocks its thread or panics harms only itself.
    fn spawn(&mut self, id: CallId, arguments: Arc<Value>) {
        let Some(call) = self.fold.call(&id) else {
            return;
        };
        let Ok(entry) = self.tools.entry(&call.call.name) else {
            return;
        };
        let (tool, spec, answer) = (entry.tool.clone(), entry.spec.clone(), call.answer.clone());
        let reports = self.crew.reports.get_or_insert_with(|| mpsc::channel(16)).0.clone();
        let cancel = CancellationToken::new();
        let cx = ToolContext {
            session: self.id.clone(),
            call: id.clone(),
            cancel: cancel.clone(),
            reports: reports.clone(),
            extensions: self.extensions.clone(),
            answer,
        };
        let after = self
            .config
            .hooks
            .after_tool_call
            .clone()
            .map(|hook| (hook, self.call_info(&id, &spec, arguments.clone())));
        let call = id.clone();
        let task = tokio::spawn(async move {
            let ended = AssertUnwindSafe(tool.call(&arguments, cx)).catch_unwind().await;
            let mut outcome = Outcome::of(ended);
            if let (Some((hook, info)), false) = (after, matches!(outcome, Outcome::Suspended(_))) {
                outcome = outcome.after(info, hook).await;
            }
            let _ = reports.send(Report::End(call, Box::new(outcome))).await;
        });
        let time = spec.timeout.unwrap_or(self.config.limits.tool_time);
        let now = Instant::now();
        let idle = spec.idle_timeout.map(|idle| (idle, now + idle));
        let _task = Owned(task.abort_handle());
        let (deadline, interruptible, told) = (now + time, spec.interruptible, Told::default());
        let running =
            Running { cancel, _task, deadline, idle, late: None, time, interruptible, told };
        self.crew.running.insert(id, running);
    }

    fn call_info(
        &self,
        call: &CallId,
        tool: &Arc<ToolSpec>,
        arguments: Arc<Value>,
    ) -> ToolCallInfo {
        let (session_id, extensions) = (self.id.clone(), self.extensions.clone());
        ToolCallInfo { session_id, call: call.clone(), tool: tool.clone(), arguments, extensions }
    }

    /// Asks running tools to stop; those that have not within the grace are answered "aborted".
    pub(crate) fn cancel_running(&mut self, all: bool, why: &str) {
        for running in self.crew.running.values_mut().filter(|r| all || r.interruptible) {
            running.cancel.cancel();
            running.deadline = running.deadline.min(Instant::now() + GRACE);
            running.late = Some((
                ResultStatus::Aborted,
                format!("Aborted after it had started, since {why}; it may have had effects."),
            ));
        }
    }

    pub(crate) fn any_running(&self) -> bool {
        !self.crew.running.is_empty()
    }

    /// Mail, a tool's report or a tool's deadline, whichever is first.
    pub(crate) async fn next_happening(
        &mut self,
        with_mail: bool,
    ) -> Result<Option<Urgency>, StepError> {
        let due = self.crew.running.iter().map(|(id, r)| (r.due(), id)).min();
        let Some((at, id)) = due.map(|(at, id)| (at, id.clone())) else {
            return Ok(None);
        };
        let reports = &mut self.crew.reports.get_or_insert_with(|| mpsc::channel(16)).1;
        let mut taken = Ok(());
        tokio::select! { biased;
            Some(mail) = self.mail.recv(), if with_mail => return self.hear(mail).await,
            Some(report) = reports.recv() => taken = self.take_report(report),
            _ = tokio::time::sleep_until(at) => if let Some(running) = self.crew.running.remove(&id) {
                running.cancel.cancel();
                let (status, why) = match running.idle {
                    Some((idle, until)) if until < running.deadline =>
                        (ResultStatus::Error, format!("It was given up after {idle:?} without an update; it may have had effects.")),
                    _ => running.late.unwrap_or_else(|| {
                        let time = running.time;
                        (ResultStatus::Error, format!("It was given up after {time:?} without an end; it may have had effects."))
                    }),
                };
                self.finish(&id, status, why);
            },
        }
        self.flush().await?;
        taken.map(|()| None)
    }

    fn take_report(&mut self, report: Report) -> Result<(), StepError> {
        match report {
            Report::Update(call, update) => {
                // Late word of a call that has its result is dropped.
                if let Some(running) = self.crew.running.get_mut(&call) {
                    if let Some((idle, until)) = &mut running.idle {
                        *until = Instant::now() + *idle;
                    }
                    running.told.add(&update);
                    self.hub.overlay(AgentEvent::ToolExecutionUpdate { call, update });
                }
            }
            Report::End(id, outcome) => {
                let Some(running) = self.crew.running.remove(&id) else {
                    return Ok(());
                };
                match *outcome {
                    Outcome::Result(status, output) => self.finish_with(&id, status, output),
                    Outcome::Cancelled => {
                        let own = || (ResultStatus::Aborted, STOPPED_ITSELF.into());
                        let (status, why) = running.late.unwrap_or_else(own);
                        self.finish(&id, status, why)
                    }
                    Outcome::Suspended(need) => self.suspend(id, need),
                    Outcome::HookPanicked(what) => {
                        self.finish(
                            &id,
                            ResultStatus::Error,
                            "It ran, but a hook that looks at results panicked; the result is lost.".into(),
                        );
                        return Err(StepError::Panicked(what));
                    }
                }
            }
        }
        Ok(())
    }

    fn suspend(&mut self, call: CallId, need: ActionRequest) {
        let Some(found) = self.fold.call(&call) else {
            return;
        };
        let Phase::Started { arguments } = &found.phase else {
            return;
        };
        let (name, arguments, time) =
            (found.call.name.clone(), arguments.clone(), self.config.environment.now());
        let digest = digest(&name, &arguments, Some(&need));
        self.stage(LogEntry::CallAwaiting {
            call,
            name,
            arguments,
            digest,
            need: Some(Arc::new(need)),
            time,
        });
    }

    /// Stages the one result of a call.
    fn finish(&mut self, call: &CallId, status: ResultStatus, why: String) {
        self.finish_with(call, status, ToolOutput::text(why));
    }

    fn finish_with(&mut self, call: &CallId, status: ResultStatus, output: ToolOutput) {
        let Some(found) = self.fold.call(call) else {
            return;
        };
        let name = found.call.name.clone();
        let ToolOutput { content, details, terminate } = output;
        let content = shortened(content, self.config.limits.tool_result_bytes);
        let details = details.map(Arc::new);
        let result = self.message(ToolResult {
            call: call.clone(),
            name,
            status,
            content,
            details,
            terminate,
        });
        self.stage(LogEntry::CallFinished { result });
    }

    /// Every call that has not started gets this result; those that wait for the outside too.
    pub(crate) async fn finish_unstarted(
        &mut self,
        status: ResultStatus,
        why: &str,
    ) -> Result<(), StepError> {
        self.stage_unstarted(status, why);
        self.flush().await
    }

    pub(crate) fn stage_unstarted(&mut self, status: ResultStatus, why: &str) {
        let open = |c: &&Call| c.result.is_none() && !self.crew.running.contains_key(&c.call.id);
        let open = self.fold.calls().iter().filter(open);
        let open: Vec<_> =
            open.map(|c| (c.call.id.clone(), matches!(c.phase, Phase::Started { .. }))).collect();
        for (id, started) in open {
            self.crew.ready.remove(&id);
            match started {
                false => self.finish(&id, status, why.to_owned()),
                true => self.finish(
                    &id,
                    ResultStatus::OutcomeUnknown,
                    format!("The outcome is unknown: it may have run. {why}"),
                ),
            }
        }
    }
}

fn decided(
    arguments: &Arc<Value>,
    decision: &Decision,
    by: Option<&str>,
) -> Result<Ready, (ResultStatus, String)> {
    match decision {
        Decision::ApproveWith(edited) => {
            Ok(Ready { arguments: Arc::new(edited.clone()), auto: true })
        }
        Decision::Deny(why) => {
            let who = by.unwrap_or("the user");
            let why = if why.is_empty() {
                format!("Denied by {who}.")
            } else {
                format!("Denied by {who}: {why}")
            };
            Err((ResultStatus::Denied, why))
        }
        _ => Ok(Ready { arguments: arguments.clone(), auto: true }),
    }
}
