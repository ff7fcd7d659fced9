//! The batch of a reply: every call gets exactly one result, or waits for the user.

use std::future::poll_fn;
use std::sync::Arc;

use serde_json::Value;

use crate::error::{MemoryError, StepError};
use crate::event::action::ExternalAction;
use crate::event::input::{Decision, Provided, QueueKind, Urgency};
use crate::hooks::ToolCallInfo;
use crate::log::calls::{Batch, Call, MadeCalls, Phase};
use crate::log::entry::LogEntry;
use crate::log::queue::QueuedMessage;
use crate::message::{CallId, ResultStatus};
use crate::session::Session;
use crate::session::calls::batch_outcome::BatchOutcome;
use crate::session::calls::call_checks::{Refusal, check_allowed, pass_hooks};
use crate::session::calls::executor::{Executor, Ready, ToolEvent, finish};
use crate::session::calls::running_tool::yield_once;
use crate::session::calls::shown_changes::{OUTCOME_UNKNOWN, ShownChanges};
use crate::session::calls::tool_requests;
use crate::session::config::WhileAwaiting;
use crate::session::input::intake::Accepted;
use crate::session::part_time::{self, PartTime};
use crate::session::request::layers::PassedCall;
use crate::session::sub_agents::{self, Shares};
use crate::tool::toolbox::digest_of_call;
use crate::tool::{ActionTerms, Effect, Report, ToolOutput, ToolSpec};

/// Arguments larger than this let other tasks run before the next call is validated.
const LARGE_ARGUMENT_BYTES: usize = 64 << 10;
const CUT_OFF: &str = "The reply was cut off at the output limit, so none of its calls ran. \
    Make the call again in smaller parts.";
const TIME_UP: &str = "Skipped: the time for this part of the work was up before it started.";
const STEERED: &str = "Skipped: the user steered before it started.";
pub(super) const DECIDED: &str = "Skipped: another of these calls has succeeded.";
const NOTHING_LEFT: &str = "The sub-agent was not started: nothing is left of the budget (limit).";

/// Runs the calls of the open batch, or `only` one: new calls, approved calls, and calls that a
/// crash interrupted. Does nothing without an open batch. The outcome of a closed batch is still
/// known if all its results asked for the end of the run.
pub(crate) async fn run(
    session: &mut Session,
    only: Option<&CallId>,
) -> Result<BatchOutcome, StepError> {
    if session.journal.state.batch.is_none() {
        return Ok(match &session.journal.state.terminated {
            Some(_) => BatchOutcome::Terminated,
            None => BatchOutcome::NoCalls,
        });
    }
    session.receive_all().await?;
    let before = pending_calls(session);
    let is_made_by_pattern = made_calls(session).is_some();
    let mut time = PartTime::of(session);
    let mut late = Ok(());
    while session.journal.state.batch.is_some() {
        late = part_time::check(session);
        if !is_decided(session) {
            prepare(session, late.is_err()).await?;
        }
        if is_decided(session) {
            stop_all(session).await?;
        }
        if late.is_err() {
            supersede(session, ResultStatus::Skipped, TIME_UP).await?;
        } else if steer_skips(session) {
            supersede(session, ResultStatus::Skipped, STEERED).await?;
        }
        if start_ready(session, only).await? {
            yield_once().await; // a fast tool ends before a timer is set for it
        }
        if running(session) == 0 {
            break;
        }
        next_event(session, &mut time).await?;
    }
    if session.journal.state.batch.is_some() && only.is_none() {
        request_approval(session).await?;
    }
    if session.journal.state.batch.is_some() {
        announce(session, &before).await?;
        return Ok(BatchOutcome::AwaitsUser);
    }
    session.executor.close_batch();
    late?;
    if is_made_by_pattern {
        return Ok(BatchOutcome::Closed); // the pattern decides what follows
    }
    let history = session.journal.state.history.iter().rev();
    let mut results = history.map_while(|m| m.as_tool_result());
    let all_terminate = results.all(|result| result.terminate);
    Ok(if all_terminate { BatchOutcome::Terminated } else { BatchOutcome::Closed })
}

/// Returns the record of the open batch's calls if the pattern made them.
fn made_calls(session: &Session) -> Option<&MadeCalls> {
    session.journal.state.batch.as_ref()?.made.as_ref()
}

fn pending_calls(session: &Session) -> Vec<CallId> {
    session.journal.state.pending().map(|action| action.call.clone()).collect()
}

/// Calls the hooks for the actions that were not pending `before`.
pub(crate) async fn announce(session: &mut Session, before: &[CallId]) -> Result<(), StepError> {
    let hooks = session.config.hooks.clone();
    if hooks.is_empty() {
        return Ok(());
    }
    let pending = session.journal.state.pending().filter(|action| !before.contains(&action.call));
    let actions = pending.cloned().collect();
    Ok(session.wait_for(hooks.on_actions(session.hook_context(), actions)).await?)
}

/// Returns the number of running tools and working sub-agents.
fn running(session: &Session) -> usize {
    session.executor.running_calls() + session.children.working()
}

/// Asks running tools and sub-agents to stop: all, or only the interruptible ones.
pub(crate) fn cancel(session: &mut Session, all: bool, why: &str) {
    let Session { executor, children, journal, .. } = session;
    executor.cancel(all, why);
    let tools = &executor.tools;
    let is_interruptible = |call: &CallId| {
        let name = journal.state.call(call).map(|c| &c.call.name);
        name.and_then(|name| tools.spec(name)).is_none_or(|spec| spec.interruptible)
    };
    let why = format!("Aborted, since {why}.");
    children.cancel(|call| all || is_interruptible(call), ResultStatus::Aborted, &why);
}

/// Handles a command, the end of a part's time, or the next event of a running tool or a sub-agent.
/// Before it waits for an event, it writes the entries that are applied ahead.
async fn next_event(session: &mut Session, time: &mut PartTime) -> Result<(), StepError> {
    let Session { intake, executor, children, journal, .. } = session;
    tokio::select! { biased;
        Some(command) = intake.commands.recv() => {
            if session.receive(command).await? == Accepted::Steer(Urgency::Interrupt) {
                cancel(session, false, "the user interrupted");
            }
            Ok(())
        }
        () = poll_fn(|cx| time.poll_up(cx)) => {
            cancel(session, true, "the time for this part of the work is up");
            Ok(())
        }
        event = executor.next_event() => {
            let event = match event {
                ToolEvent::Report(Report::Request(request)) => {
                    return Ok(tool_requests::handle(session, request).await?);
                }
                event => event,
            };
            let Session { executor, journal, config, .. } = session;
            let time = config.environment.now();
            let handled = executor.handle(event, journal, &config.limits, time);
            journal.apply_ahead().await?;
            handled
        }
        (call, report) = children.next() => {
            let handled = sub_agents::handle(session, call, report);
            session.journal.apply_ahead().await?;
            handled
        }
        () = std::future::ready(()), if journal.has_unwritten() => {
            Ok(session.journal.flush().await?)
        }
    }
}

/// Waits until no tool runs and no sub-agent works. Commands are not handled.
pub(crate) async fn wait_for_running(session: &mut Session) -> Result<(), MemoryError> {
    while running(session) > 0 {
        let Session { executor, children, journal, config, .. } = session;
        tokio::select! { biased;
            event = executor.next_event() => {
                let time = config.environment.now();
                // The result of a call names the hook that panicked. The other calls continue.
                let _ = executor.handle(event, journal, &config.limits, time);
            }
            (call, report) = children.next() => {
                let _ = sub_agents::handle(session, call, report);
            }
            () = std::future::ready(()), if journal.has_unwritten() => {
                session.journal.flush().await?;
            }
        }
        session.journal.apply_ahead().await?;
    }
    Ok(())
}

fn is_decided(session: &Session) -> bool {
    session.journal.state.batch.as_ref().is_some_and(Batch::is_decided)
}

/// Stops the calls that another one has made unnecessary.
async fn stop_all(session: &mut Session) -> Result<(), MemoryError> {
    finish_unstarted(session, ResultStatus::Skipped, DECIDED).await?;
    cancel(session, true, "another of these calls has succeeded");
    sub_agents::stop_waiting(session, |_| true, ResultStatus::Skipped, DECIDED).await
}

/// Gives this result to all calls that a message of the user replaces: calls that have not started
/// or wait for a decision. Earlier decisions are carried out.
pub(crate) async fn supersede(
    session: &mut Session,
    status: ResultStatus,
    why: &str,
) -> Result<(), MemoryError> {
    finish_unstarted(session, status, why).await?;
    // A sub-agent with a decision is already working.
    sub_agents::stop_waiting(session, |child| !child.actions.is_empty(), status, why).await
}

/// Writes this result for every call that has not started. Calls with a sub-agent are left out.
pub(crate) async fn finish_unstarted(
    session: &mut Session,
    status: ResultStatus,
    why: &str,
) -> Result<(), MemoryError> {
    let Session { executor, journal, config, .. } = session;
    executor.finish_unstarted(journal, &config.limits, status, why);
    journal.apply_ahead().await
}

/// Returns whether a queued steer skips calls that have not started. If messages are held while
/// calls await a decision, a steer that came after the question skips nothing.
fn steer_skips(session: &Session) -> bool {
    let state = &session.journal.state;
    let holds = session.config.while_awaiting == WhileAwaiting::Hold && state.has_asked();
    let is_held = |w: &QueuedMessage| holds && state.is_after_question(w);
    // A pattern that makes a call knows of the steers that were queued before.
    let is_known = |w: &QueuedMessage| made_calls(session).is_some_and(|made| w.at < made.at);
    let mut steers = state.queue.of(QueueKind::Steering);
    steers.any(|w| w.urgency >= Urgency::SkipPending && !is_held(w) && !is_known(w))
}

/// Decides for each call that has not started, in source order, whether it may run, needs approval,
/// or has its result. Without the new calls, if they will be skipped.
async fn prepare(session: &mut Session, skips: bool) -> Result<(), StepError> {
    let state = &session.journal.state;
    let is_cut = state.batch.as_ref().is_some_and(|batch| batch.is_cut());
    let calls = state.calls().iter().filter(|c| needs_preparation(&session.executor, c));
    let ids: Vec<CallId> = calls.map(|c| c.call.id.clone()).collect();
    for id in ids {
        let Some(call) = session.journal.state.call(&id) else { continue };
        let name = call.call.name.clone();
        let prepared = match call.phase.clone() {
            Phase::Fresh if skips || steer_skips(session) => continue,
            Phase::Fresh if is_cut => Err(Refusal::error(CUT_OFF)),
            Phase::Fresh => {
                let raw = call.call.arguments.clone();
                let prepared = prepare_new(session, &id, &name, &raw).await?;
                if raw.len() > LARGE_ARGUMENT_BYTES {
                    yield_once().await; // there may be many such calls
                }
                prepared
            }
            Phase::Decided { action, decision, by } => {
                let provided = match &*decision {
                    Decision::Provide(Provided::Result(output)) => Some(output.clone()),
                    decision => action.answered_by(decision),
                };
                if let Some(output) = provided {
                    let Session { journal, config, .. } = session;
                    finish(journal, &config.limits, &id, ResultStatus::Ok, output);
                    continue;
                }
                if has_new_definition(&session.executor, &action, &decision) {
                    let spec = session.executor.tools.spec(&name);
                    let options = spec.and_then(|spec| spec.action_options.clone());
                    Ok(Ready { arguments: action.arguments.clone(), auto: false, options })
                } else {
                    let by = by.as_deref();
                    carry_out(session, &id, &name, &action.arguments, &decision, by).await?
                }
            }
            Phase::Started { .. } if call.child.is_some() => {
                sub_agents::resume(session, &id).await?;
                continue;
            }
            Phase::Started { arguments } => recover(session, &name, arguments),
            Phase::Awaiting(_) | Phase::Finished => continue,
        };
        match prepared {
            Ok(ready) => drop(session.executor.ready.insert(id, ready)),
            Err(Refusal { status, why }) => {
                let Session { journal, config, .. } = session;
                finish(journal, &config.limits, &id, status, ToolOutput::text(why));
            }
        }
    }
    Ok(session.journal.apply_ahead().await?)
}

/// Returns whether a call was approved under a definition of its tool that has changed since. The
/// user has not seen what would run.
fn has_new_definition(executor: &Executor, action: &ExternalAction, decision: &Decision) -> bool {
    let spec = executor.tools.spec(&action.name);
    action.request.is_none()
        && decision.runs_the_tool()
        && spec.is_some_and(|spec| {
            spec.definition.is_some() && spec.definition != action.terms.definition
        })
}

fn needs_preparation(executor: &Executor, call: &Call) -> bool {
    !matches!(call.phase, Phase::Finished | Phase::Awaiting(_))
        && !executor.ready.contains_key(&call.call.id)
        && !executor.is_running(&call.call.id)
}

/// Validates a new call and passes it through the hooks.
async fn prepare_new(
    session: &mut Session,
    id: &CallId,
    name: &str,
    raw: &str,
) -> Result<Result<Ready, Refusal>, StepError> {
    let (spec, arguments) = match validate(session, name, raw) {
        Ok(valid) => valid,
        Err(why) => return Ok(Err(Refusal::error(why))),
    };
    if session.config.children.contains_key(name)
        && session.tree.depth.unwrap_or(session.config.limits.depth) == 0
    {
        let why = "No more sub-agents can be started here: they are nested too deep.";
        return Ok(Err(Refusal::error(why)));
    }
    Ok(pass_hooks(session, id, &spec, arguments).await?.map(|passed| {
        let PassedCall { arguments, needs_approval } = passed;
        let rules = &session.config.auto;
        let auto =
            needs_approval.is_none() && rules.approves(&spec, &arguments, &session.extensions);
        Ready { arguments, auto, options: needs_approval.or_else(|| spec.action_options.clone()) }
    }))
}

/// Returns the tool and the arguments of a call if the last request offered the tool. The error is
/// the text for the model.
fn validate(
    session: &Session,
    name: &str,
    raw: &str,
) -> Result<(Arc<ToolSpec>, Arc<Value>), String> {
    let tools = &session.executor.tools;
    let spec = tools.entry(name)?.spec.clone();
    let offered = match made_calls(session) {
        Some(_) => &None,
        None => &session.journal.state.offered,
    };
    if offered.as_ref().is_some_and(|names| names.iter().all(|offered| **offered != *name)) {
        return Err(format!("The tool `{name}` is not offered now."));
    }
    Ok((spec, Arc::new(tools.validate(name, raw)?)))
}

/// Prepares a call that was decided. Arguments that the user edited pass through the hooks, like
/// the model's.
async fn carry_out(
    session: &mut Session,
    id: &CallId,
    name: &str,
    arguments: &Arc<Value>,
    decision: &Decision,
    by: Option<&str>,
) -> Result<Result<Ready, Refusal>, StepError> {
    if let Decision::Deny(why) = decision {
        let who = by.unwrap_or("the user");
        let why = if why.is_empty() {
            format!("Denied by {who}.")
        } else {
            format!("Denied by {who}: {why}")
        };
        return Ok(Err(Refusal { status: ResultStatus::Denied, why }));
    }
    // The tool may be gone since the user decided.
    let spec = match session.executor.tools.entry(name) {
        Ok(entry) => entry.spec.clone(),
        Err(why) => return Ok(Err(Refusal::error(why))),
    };
    let passed = match decision {
        Decision::ApproveWith(edited) => {
            let passed = pass_hooks(session, id, &spec, Arc::new(edited.clone())).await?;
            passed.map(|passed| passed.arguments)
        }
        _ => check_allowed(session, id, &spec, arguments).await?.map(|()| arguments.clone()),
    };
    Ok(passed.map(Ready::to_run))
}

/// Prepares a call that had started when the process was killed.
fn recover(session: &Session, name: &str, arguments: Arc<Value>) -> Result<Ready, Refusal> {
    match session.executor.tools.entry(name).map(|entry| entry.spec.effect) {
        Ok(Effect::ReadOnly | Effect::Idempotent) => Ok(Ready::to_run(arguments)),
        Ok(Effect::AtMostOnce) | Err(_) => {
            Err(Refusal { status: ResultStatus::OutcomeUnknown, why: OUTCOME_UNKNOWN.into() })
        }
    }
}

/// Starts calls up to the limit, or one at a time if a tool of the batch is sequential. Returns
/// whether any started.
async fn start_ready(session: &mut Session, only: Option<&CallId>) -> Result<bool, StepError> {
    let Session { executor, journal, config, children, .. } = session;
    let is_sequential =
        |c: &Call| executor.tools.spec(&c.call.name).is_some_and(|spec| spec.sequential);
    let calls = journal.state.calls();
    let made = journal.state.batch.as_ref().and_then(|batch| batch.made.as_ref());
    let at_most =
        made.and_then(|made| made.at_most).map_or(usize::MAX, |calls| calls.max(1) as usize);
    let max = if calls.iter().any(is_sequential) { 1 } else { config.limits.parallel_calls };
    let max = max.min(at_most);
    let running = executor.running_calls() + children.working();
    let free = max.saturating_sub(running);
    let is_wanted = |c: &&Call| only.is_none_or(|id| c.call.id == *id);
    let is_startable = |c: &&Call| executor.ready.get(&c.call.id).is_some_and(|ready| ready.auto);
    let startable = calls.iter().filter(is_wanted).filter(is_startable).take(free);
    let starting: Vec<(CallId, Arc<str>)> =
        startable.map(|c| (c.call.id.clone(), c.call.name.clone())).collect();
    if starting.is_empty() {
        return Ok(false);
    }
    session.stop_if_cancelled().await;
    let mut shares = Shares::of(session);
    let mut started = Vec::new();
    for (call, name) in starting {
        let Some(Ready { arguments, .. }) = session.executor.ready.remove(&call) else { continue };
        if session.config.children.contains_key(&name) {
            let Some(share) = shares.take() else {
                let Session { journal, config, .. } = session;
                let output = ToolOutput::text(NOTHING_LEFT);
                finish(journal, &config.limits, &call, ResultStatus::Error, output);
                continue;
            };
            let entry = sub_agents::start_entry(session, &call, share);
            session.journal.stage(entry);
        }
        let shown = session.journal.state.call(&call).map(ShownChanges::of).unwrap_or_default();
        let start = LogEntry::CallStarted { call: call.clone(), arguments: arguments.clone() };
        session.journal.stage(start);
        started.push((call, name, arguments, shown));
    }
    session.journal.flush().await?; // the start is in the log before anything runs
    session.stop_if_cancelled().await;
    let any = !started.is_empty();
    for (call, name, arguments, shown) in started {
        if session.config.children.contains_key(&name) {
            sub_agents::resume(session, &call).await?;
            continue;
        }
        let Some(tool) = session.executor.tools.spec(&name).cloned() else { continue };
        let info = ToolCallInfo { call, tool, arguments };
        let cx = session.hook_context();
        let Session { executor, journal, config, .. } = session;
        executor.start(info, shown, journal, config.hooks.clone(), cx, &config.limits);
    }
    Ok(any)
}

/// Asks the user to approve the calls that need approval.
async fn request_approval(session: &mut Session) -> Result<(), StepError> {
    let Session { executor, journal, config, .. } = session;
    let time = config.environment.now();
    let calls = journal.state.calls().iter().map(|c| (c.call.id.clone(), c.call.name.clone()));
    for (call, name) in calls.collect::<Vec<_>>() {
        if let Some(Ready { arguments, options, .. }) = executor.ready.remove(&call) {
            let definition = executor.tools.spec(&name).and_then(|spec| spec.definition.clone());
            let digest = digest_of_call(&name, &arguments, definition.as_deref());
            let mut terms: Arc<ActionTerms> =
                options.map(|options| Arc::new(options.terms(time))).unwrap_or_default();
            if definition.is_some() {
                Arc::make_mut(&mut terms).definition = definition;
            }
            let request = None;
            journal.stage(LogEntry::CallAwaiting {
                call,
                name,
                arguments,
                digest,
                request,
                terms,
                time,
            });
        }
    }
    Ok(journal.apply_ahead().await?)
}
