//! A run: the pattern is called from start to end, while commands are routed.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::agent::pass::{Channels, Current, PassEnd, Work, Worked, pass, route};
use crate::error::{InputError, MemoryError, StepError};
use crate::event::input::{InputEvent, QueueKind, Urgency};
use crate::event::outcome::{RunCause, RunOutcome, RunStatus};
use crate::limits::deadline;
use crate::log::entry::LogEntry;
use crate::log::queue::QueuedMessage;
use crate::message::{InputId, RunId, UserMessage};
use crate::pattern::BehaviorPattern;
use crate::session::Session;
use crate::session::close::{self, Ending};
use crate::session::config::WhileAwaiting;
use crate::session::input::command::{Caller, InputCommand, Receipt};
use crate::session::request::reply::json_of_answer;
use crate::session::request::{budget, compaction, output_schema, wrap_up};
use crate::step_end::StepEnd;
use crate::tool::schema::Schema;

/// Follow-up work of the task after a run.
#[derive(Default)]
pub(crate) struct AfterRun {
    /// A steer arrived before the end of the run was emitted. It was not handled, so it starts
    /// another run.
    pub(crate) late_steer: bool,
    /// The end could not be written.
    pub(crate) log_failed: bool,
}

/// Runs the pattern from the start of a run with this cause. Without a cause, runs the rest of an
/// interrupted run.
pub(crate) async fn run(
    session: &mut Session,
    pattern: &dyn BehaviorPattern,
    channels: &mut Channels,
    cause: Option<RunCause>,
    caller: Option<Caller>,
) -> AfterRun {
    session.interrupted = false;
    session.cancel = session.tree.cancel.child_token();
    (session.wraps_up, session.kept_time) = (false, Duration::ZERO);
    session.run_began = Some(Instant::now());
    if let Some(cause) = cause
        && let Err(error) = begin(session, cause).await
    {
        answer(caller, close::emit_unwritten_end(session, &StepError::Memory(error)));
        return AfterRun { log_failed: true, ..AfterRun::default() };
    }
    session.restore_principal();
    let (ending, stop) = drive(session, pattern, channels).await;
    let Some(stop) = stop else { return end(session, channels, ending, caller).await };
    // Before the abort is acknowledged: from here on sub-agents start nothing.
    session.cancel.cancel();
    while !session.intake.compactions.is_empty() {
        let aborted = InputError::NotCompacted("the run was aborted".into());
        compaction::answer_next(session, Err(aborted));
    }
    let _ = session.journal.flush().await; // an input that is being written has its id already
    let is_reset = matches!(stop.event, InputEvent::Reset);
    let input = stop.abort_id().unwrap_or_else(|| session.journal.state.make_input_id());
    let requested = session.journal.commit(LogEntry::AbortRequested { input: input.clone() }).await;
    if is_reset {
        let withdrawn = session.queued_texts();
        let after = end(session, channels, ending, caller).await;
        finish_stop(session, *stop, withdrawn).await;
        return after;
    }
    let receipt = requested.map(|()| Receipt::new(input)).map_err(InputError::Memory);
    let _ = stop.ack.send(receipt);
    end(session, channels, ending, caller).await
}

/// Stages the start of a run, which is written with the entries after it.
pub(crate) async fn begin(session: &mut Session, cause: RunCause) -> Result<(), MemoryError> {
    let run = RunId(session.journal.state.runs + 1);
    tracing::debug!(session = &*session.id, %run, ?cause, "a run begins");
    let time = session.config.environment.now();
    let trace = session.trace_of_next_run(&cause);
    // The start is all that says that the wait has ended.
    let rings = matches!(cause, RunCause::Timer(_) | RunCause::Signal(_));
    session.journal.stage(LogEntry::RunStarted { run, cause, time, trace });
    match rings {
        true => session.journal.flush().await,
        false => session.journal.apply_ahead().await,
    }
}

/// Writes the start of a run that closes the open calls and cancels the waits, with the id of the
/// abort, if it has one. From then on it is an abort, whatever happens.
pub(crate) async fn begin_abort(
    session: &mut Session,
    id: Option<InputId>,
) -> Result<(), MemoryError> {
    begin(session, RunCause::Abort).await?;
    if let Some(input) = id {
        session.journal.stage(LogEntry::AbortRequested { input });
    }
    session.journal.flush().await
}

/// Closes what is open, writes the end of the run and emits it.
pub(crate) async fn end(
    session: &mut Session,
    channels: &mut Channels,
    ending: Ending,
    caller: Option<Caller>,
) -> AfterRun {
    let answers_steers = ending.answers_steers();
    if session.journal.is_lost() {
        answer(caller, Err(InputError::Moved));
        return AfterRun::default();
    }
    let recovered = session.recover().await;
    let run = session.journal.state.info.run;
    let staged = match recovered {
        // Even the run's start is missing from the log.
        Ok(Some(error)) if run.is_none() => Err(error),
        Err(error) => Err(error),
        Ok(_) => close::stage_end(session, ending).await,
    };
    let written = if staged.is_ok() { session.journal.write().await } else { Ok(()) };
    // Steers that arrive before `agent_end` is emitted.
    let late_steer = channels.commands.collect().await && answers_steers;
    let mut after = AfterRun { late_steer, log_failed: false };
    let outcome = match staged.and_then(|()| session.journal.apply_written(written)) {
        Ok(()) => session.journal.state.outcome.clone().map(Ok),
        Err(error) => {
            let id = &*session.id;
            tracing::error!(session = id, %error, "the end of a run could not be written");
            session.children.leave();
            let _ = session.receive_all().await; // every sender is answered with the failure
            let recovered = session.recover().await; // tried again before the next command
            // The end may have been written although the append failed.
            let state = &session.journal.state;
            let has_ended = recovered.is_ok() && run.is_some() && state.info.run.is_none();
            after.log_failed = !has_ended;
            match state.outcome.clone().filter(|_| has_ended) {
                Some(outcome) => Some(Ok(outcome)),
                None => Some(close::emit_unwritten_end(session, &StepError::Memory(error))),
            }
        }
    };
    if let Some(Ok(outcome)) = &outcome {
        let RunOutcome { end, error, usage, .. } = &**outcome;
        let error = error.as_deref();
        let tokens = usage.total();
        tracing::debug!(session = &*session.id, ?end, error, tokens, "a run ended");
    }
    if let Some(outcome) = outcome {
        answer(caller, outcome);
    }
    after
}

/// Completes an abort or a reset after the end of the run. `withdrawn` are the texts that were
/// queued before.
pub(crate) async fn finish_stop(
    session: &mut Session,
    input: InputCommand,
    withdrawn: Vec<String>,
) {
    let is_reset = matches!(input.event, InputEvent::Reset);
    let withdrawn = if is_reset { withdrawn } else { Vec::new() };
    if is_reset {
        session.journal.stage(LogEntry::Reset);
    }
    let own = input.id;
    if let Some(input) = own.clone().filter(|id| !session.journal.state.has_seen(id)) {
        session.journal.stage(LogEntry::Handled { input });
    }
    let id = own.unwrap_or_else(|| session.journal.state.make_input_id());
    let receipt = Receipt { withdrawn, ..Receipt::new(id) };
    let done = session.journal.flush().await;
    for caller in session.intake.take_dropped(&session.journal) {
        let outcome = close::outcome_without_end(session, RunStatus::Aborted, None);
        answer(Some(caller), Ok(Arc::new(outcome)));
    }
    let _ = input.ack.send(done.map(|()| receipt).map_err(InputError::Memory));
}

fn answer(caller: Option<Caller>, outcome: Result<Arc<RunOutcome>, InputError>) {
    if let Some(caller) = caller {
        let _ = caller.outcome.send(outcome.map(Arc::unwrap_or_clone));
    }
}

/// Calls the pattern until the run may end, and asks for an answer at a limit if the agent's limits
/// say so. Returns the ending, and the abort or reset that caused it.
async fn drive(
    session: &mut Session,
    pattern: &dyn BehaviorPattern,
    channels: &mut Channels,
) -> (Ending, Option<Box<InputCommand>>) {
    let mut work = match wrap_up::announced(session) {
        Some(reached) => Work::WrapUp { reached, is_first: true },
        None => Work::Step { is_first: true },
    };
    session.wraps_up = matches!(work, Work::WrapUp { .. });
    if !session.wraps_up {
        session.kept_time = budget::time_to_keep(session);
    }
    let mut until = budget::time_left(session).map(deadline);
    let mut retries = session.config.limits.output_retries;
    loop {
        let ended = pass(session, pattern, channels, until, &work).await;
        session.budget_parts.clear(); // what follows is the work of the whole run
        let ended = match ended {
            Ok(ended) => ended,
            // Later commands stay in the queue: a second abort or reset may be among them.
            Err(stop) => return (RunStatus::Aborted.into(), Some(stop)),
        };
        let before = session.journal.state.info.entries;
        while let Some(command) = channels.commands.next().await {
            if let Some(stop) = route(command, channels, &Current::of(session)) {
                return (RunStatus::Aborted.into(), Some(stop));
            }
        }
        let worked = match ended {
            PassEnd::Lost => {
                session.journal.note_loss();
                return (StepError::Memory(MemoryError::Lost).into(), None);
            }
            PassEnd::Panicked(panic) => return (StepError::Panicked(panic).into(), None),
            PassEnd::TimeUp => Err(budget::time_is_up(session)),
            PassEnd::Returned(worked) => worked,
        };
        let ending = match worked {
            Ok(Worked::Stepped(end)) => may_end(session, end, before, &mut retries).await,
            Ok(Worked::Answered) => check_output(session, &mut 0).await,
            Ok(Worked::Unanswered) => Ok(None),
            Err(error) => Err(error),
        };
        work = match (ending, work) {
            (Err(error @ StepError::Memory(_)), _) => return (error.into(), None),
            (Ok(Some(ending)), Work::WrapUp { reached, .. }) => {
                return (ending.at(reached.limit), None);
            }
            (_, Work::WrapUp { reached, .. }) => return (StepError::Limit(reached).into(), None),
            (Ok(Some(ending)), Work::Step { .. }) => return (ending, None),
            (Ok(None), Work::Step { .. }) => Work::Step { is_first: false },
            (Err(error), Work::Step { .. }) => match wrap_up::limit_to_answer(session, error) {
                Ok(reached) => {
                    (session.wraps_up, session.kept_time) = (true, Duration::ZERO);
                    until = budget::time_left(session).map(deadline);
                    Work::WrapUp { reached, is_first: false }
                }
                Err(error) => return (error.into(), None),
            },
        };
    }
}

/// Returns the ending of the run after the pattern has returned. Returns `None` if the run
/// continues, because a message arrived meanwhile or the output does not fit its schema.
async fn may_end(
    session: &mut Session,
    end: Option<StepEnd>,
    before: u64,
    retries: &mut u32,
) -> Result<Option<Ending>, StepError> {
    session.receive_all().await?;
    let is_new = |w: &QueuedMessage| w.at > before && w.kind != QueueKind::Request;
    let has_message = session.journal.state.queue.iter().any(is_new);
    match end {
        None | Some(StepEnd::Done) if has_message => Ok(None),
        None => Ok(Some(RunStatus::Done.into())),
        Some(StepEnd::Done) => check_output(session, retries).await,
        Some(StepEnd::Sleeping) if session.journal.state.batch.is_none() => match has_message {
            true => Ok(None),
            false if session.journal.state.info.has_wait() => Ok(Some(RunStatus::Sleeping.into())),
            false => Err(StepError::NoWait),
        },
        Some(StepEnd::AwaitingAction) if session.journal.state.batch.is_none() => {
            Err(StepError::NothingPending)
        }
        // A timer does not ring while calls wait for decisions.
        Some(StepEnd::AwaitingAction | StepEnd::Sleeping) => {
            let continues = may_continue_batch(session, has_message);
            Ok((!continues).then(|| RunStatus::AwaitingAction.into()))
        }
    }
}

/// Returns whether the open batch need not wait any longer.
fn may_continue_batch(session: &Session, has_message: bool) -> bool {
    let state = &session.journal.state;
    let supersedes = session.config.while_awaiting == WhileAwaiting::Supersede;
    state.pending().next().is_none()
        || state.info.agenda.has_decision()
        || has_message && supersedes && state.queue.has_steer(Urgency::SkipPending)
}

/// Checks the output against its schema, if there is one: only a valid reply ends the run. Returns
/// `None` if the model is asked again.
async fn check_output(
    session: &mut Session,
    retries: &mut u32,
) -> Result<Option<Ending>, StepError> {
    let Session { journal, config, .. } = session;
    let schema = output_schema(journal.state.output.as_ref(), config.output.as_ref());
    let Some(output) = schema else { return Ok(Some(RunStatus::Done.into())) };
    let schema = Schema::compile_output(&output.schema).map_err(StepError::Output)?;
    let text = journal.state.last_reply().map(|reply| reply.text()).unwrap_or_default();
    let why = match schema.read_answer(json_of_answer(&text)) {
        Ok(value) => return Ok(Some(Ending::with_value(value))),
        Err(why) => why,
    };
    if *retries == 0 {
        return Err(StepError::Output(why));
    }
    *retries -= 1;
    let name = &output.name;
    let ask = format!("{why}\nAnswer again with nothing but JSON that fits the schema `{name}`.");
    let message = journal.message(UserMessage::from(ask));
    journal.commit(LogEntry::Remembered { message }).await?;
    Ok(None)
}
