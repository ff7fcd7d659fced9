//! The end of a run. Every way to end a run comes here, and open work is closed.

use std::sync::Arc;

use serde_json::Value;

use crate::error::{InputError, MemoryError, ModelErrorKind, StepError};
use crate::event::AgentEvent;
use crate::event::input::QueueKind;
use crate::event::outcome::{RunOutcome, RunStatus};
use crate::limits::Limit;
use crate::log::entry::LogEntry;
use crate::log::turn::Used;
use crate::message::{MessageId, ResultStatus, StopReason, Usage};
use crate::session::Session;
use crate::session::calls::batch;
use crate::session::sub_agents;

/// The ending of a run, before it is written.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) status: RunStatus,
    error: Option<Arc<str>>,
    model_error: Option<ModelErrorKind>,
    limit: Option<Limit>,
    value: Option<Arc<Value>>,
}

impl Ending {
    /// Returns the ending of a successful run with the requested typed value.
    pub(crate) fn with_value(value: Value) -> Self {
        Ending { value: Some(Arc::new(value)), ..RunStatus::Done.into() }
    }

    /// Returns whether a steer that comes late starts another run. At a limit, it waits for the
    /// user.
    pub(crate) fn answers_steers(&self) -> bool {
        use RunStatus::*;
        matches!(self.status, Done | AwaitingAction | Sleeping) && self.limit.is_none()
    }

    /// Returns this ending, with the limit at which the run has answered.
    pub(crate) fn at(self, limit: Limit) -> Self {
        Ending { limit: Some(limit), ..self }
    }
}

impl From<RunStatus> for Ending {
    fn from(status: RunStatus) -> Self {
        Ending { status, error: None, model_error: None, limit: None, value: None }
    }
}

impl From<StepError> for Ending {
    fn from(error: StepError) -> Self {
        let text = Some(error.to_string().into());
        match error {
            StepError::Limit(reached) => {
                Ending { error: text, limit: Some(reached.limit), ..RunStatus::Limit.into() }
            }
            StepError::Model(error) => {
                Ending { error: text, model_error: Some(error.kind), ..RunStatus::Error.into() }
            }
            _ => Ending { error: text, ..RunStatus::Error.into() },
        }
    }
}

/// Closes open work and stages the end of the run: no end is written while anything is open. The
/// caller writes it, so that the caller can check for new inputs before the end is emitted.
pub(crate) async fn stage_end(session: &mut Session, ending: Ending) -> Result<(), MemoryError> {
    close_open_work(session, ending.status).await?;
    let Some(run) = session.journal.state.info.run else { return Ok(()) };
    let Ending { status: end, error, model_error, limit, value } = ending;
    let queue = session.journal.state.queue.iter();
    let returned = queue.filter(|w| end == RunStatus::Aborted && w.kind != QueueKind::Request);
    let handed_back = returned.map(|w| w.input.clone()).collect();
    let time = session.config.environment.now();
    session.journal.stage(LogEntry::RunEnded {
        run,
        end,
        time,
        error,
        model_error,
        limit,
        value,
        handed_back,
    });
    Ok(())
}

/// Emits the end of a run whose end could not be written, and returns it. The state stays equal to
/// the log, where the run is interrupted. If another process has taken over the session, the run
/// continues there, so nothing is emitted.
pub(crate) fn emit_unwritten_end(
    session: &mut Session,
    error: &StepError,
) -> Result<Arc<RunOutcome>, InputError> {
    if session.journal.is_lost() {
        return Err(InputError::Moved);
    }
    session.interrupted = session.journal.state.info.run.is_some();
    let error = error.to_string().into();
    let outcome = Arc::new(outcome_without_end(session, RunStatus::Error, Some(error)));
    session.journal.emit_transient(AgentEvent::AgentEnd(outcome.clone()));
    Ok(outcome)
}

/// Builds the outcome of a run whose end is not in the log.
pub(crate) fn outcome_without_end(
    session: &Session,
    end: RunStatus,
    error: Option<Arc<str>>,
) -> RunOutcome {
    let state = &session.journal.state;
    let Used { turns: requests, usage, cost, .. } = state.spent;
    RunOutcome {
        end,
        error,
        model_error: None,
        incomplete: None,
        limit: None,
        wakes_at: None,
        turns: state.turn.number,
        requests,
        usage,
        cost,
        value: None,
        handed_back: Vec::new(),
        text: String::new(),
    }
}

/// Answers callers whose request is queued behind pending actions.
pub(crate) fn answer_waiting(session: &mut Session) {
    let pending: Vec<&str> = session.journal.state.pending().map(|action| &*action.call).collect();
    if pending.is_empty() {
        return;
    }
    let why: Arc<str> = format!(
        "the request is queued behind an earlier one, whose calls wait for a decision: {}",
        pending.join(", ")
    )
    .into();
    for caller in session.intake.take_waiting() {
        let outcome = outcome_without_end(session, RunStatus::AwaitingAction, Some(why.clone()));
        let _ = caller.outcome.send(Ok(outcome));
    }
}

/// Cancels the run, ends what is open, and writes it ahead.
pub(crate) async fn close_open_work(
    session: &mut Session,
    status: RunStatus,
) -> Result<(), MemoryError> {
    session.cancel.cancel();
    session.receive_all().await?;
    close_requests(session, status).await?;
    if status != RunStatus::AwaitingAction {
        close_batch(session, status).await?;
    }
    deliver_own_request(session).await
}

/// Logs the streaming reply so far, and the end of all other requests.
async fn close_requests(session: &mut Session, status: RunStatus) -> Result<(), MemoryError> {
    let Session { reply, journal, in_flight, shown, .. } = session;
    shown.withdraw_all(journal.hub());
    reply.stage_pending(journal);
    let stop = if status == RunStatus::Aborted { StopReason::Aborted } else { StopReason::Error };
    let id = reply.message_id();
    let usage = id.map(|id| in_flight.usage(id)).unwrap_or_default();
    if let Some((message, cost)) = reply.close(journal, stop, usage) {
        in_flight.end(message.id);
        let cost = cost.filter(|_| usage != Usage::default());
        journal.stage(LogEntry::Replied { message, cost });
    }
    journal.apply_ahead().await?;
    let is_unsent = |id: &MessageId| !in_flight.contains(*id);
    let reserved = journal.state.reserved.keys().copied();
    let messages: Vec<MessageId> = reserved.filter(is_unsent).collect();
    if !messages.is_empty() {
        journal.stage(LogEntry::NotSent { messages });
    }
    in_flight.end_all().into_iter().for_each(|entry| journal.stage(entry));
    journal.apply_ahead().await
}

/// Cancels running tools and gives every open call its result.
async fn close_batch(session: &mut Session, status: RunStatus) -> Result<(), MemoryError> {
    let (result, cause, why) = if status == RunStatus::Aborted {
        (ResultStatus::Aborted, "the user aborted", "Aborted by the user before it started.")
    } else {
        (ResultStatus::Skipped, "the run ended", "Skipped: the run ended before it started.")
    };
    batch::cancel(session, true, cause);
    batch::wait_for_running(session).await?;
    batch::finish_unstarted(session, result, why).await?;
    sub_agents::stop_waiting(session, |_| true, result, why).await?;
    batch::wait_for_running(session).await
}

/// Delivers a request that its run did not get to. Left in the queue, it would start the aborted or
/// failed run again.
async fn deliver_own_request(session: &mut Session) -> Result<(), MemoryError> {
    let state = &session.journal.state;
    match &state.undelivered {
        Some(request) if state.batch.is_none() => {
            let input = request.input.clone();
            session.journal.stage(LogEntry::Delivered { input });
            session.journal.apply_ahead().await
        }
        _ => Ok(()),
    }
}
