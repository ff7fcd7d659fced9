//! The end of a run: whatever the pattern left behind is put in order. Every way to end a run goes
//! through here.

use std::sync::Arc;

use serde_json::Value;

use crate::error::{ModelErrorKind, StepError};
use crate::limits::Limit;
use crate::log::entry::LogEntry;
use crate::log::event::{AgentEvent, RunCause, RunOutcome, RunStatus};
use crate::log::input::QueueKind;
use crate::log::turn::Spent;
use crate::message::{ResultStatus, StopReason, Usage};
use crate::session::Session;

/// How a run ends, before it is written.
#[derive(Debug, Clone)]
pub(crate) struct Ending {
    pub(crate) end: RunStatus,
    error: Option<Arc<str>>,
    model_error: Option<ModelErrorKind>,
    limit: Option<Limit>,
    value: Option<Arc<Value>>,
}

impl Ending {
    /// Done, with the typed value that was asked for.
    pub(crate) fn with_value(value: Value) -> Self {
        Ending { value: Some(Arc::new(value)), ..RunStatus::Done.into() }
    }
}

impl From<RunStatus> for Ending {
    fn from(end: RunStatus) -> Self {
        Ending { end, error: None, model_error: None, limit: None, value: None }
    }
}

impl From<StepError> for Ending {
    fn from(error: StepError) -> Self {
        let (limit, model_error) = match &error {
            StepError::Limit(limit) => (Some(*limit), None),
            StepError::Model(error) => (None, Some(error.kind)),
            _ => (None, None),
        };
        let end = if limit.is_some() { RunStatus::Limit } else { RunStatus::Error };
        Ending { end, error: Some(error.to_string().into()), model_error, limit, value: None }
    }
}

impl Session {
    /// Puts the session in order and stages the end of the run: no end is written over something
    /// open. The caller writes it, so that it can look at what has come in before the end is told.
    pub(crate) async fn stage_end(&mut self, ending: Ending) -> Result<(), StepError> {
        self.put_in_order(ending.end).await?;
        let Some(run) = self.fold.run else {
            return Ok(());
        };
        let Ending { end, error, model_error, limit, value } = ending;
        let back = self
            .fold
            .queue
            .iter()
            .filter(|w| end == RunStatus::Aborted && w.lane != QueueKind::Request);
        let handed_back = back.map(|w| w.input.clone()).collect();
        let time = self.config.environment.now();
        self.stage(LogEntry::RunEnded {
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

    /// The end could not be written: RAM stays at the log, where the run is an interrupted one, and
    /// subscribers are told all the same.
    pub(crate) fn tell_unwritten_end(&mut self, error: &StepError) -> Arc<RunOutcome> {
        self.interrupted = self.fold.run.is_some();
        let outcome =
            Arc::new(self.outcome_of_no_run(RunStatus::Error, Some(error.to_string().into())));
        self.hub.overlay(AgentEvent::AgentEnd(outcome.clone()));
        outcome
    }

    /// What is told where the log has no end of a run to tell.
    pub(crate) fn outcome_of_no_run(&self, end: RunStatus, error: Option<Arc<str>>) -> RunOutcome {
        let Spent { usage, cost, .. } = self.fold.spent;
        let (handed_back, text) = Default::default();
        RunOutcome {
            end,
            error,
            model_error: None,
            limit: None,
            usage,
            cost,
            value: None,
            handed_back,
            text,
        }
    }

    async fn put_in_order(&mut self, end: RunStatus) -> Result<(), StepError> {
        self.cancel.cancel();
        self.flush().await?;
        self.hear_all().await?;
        self.stage_heard_out();
        if let Some(partial) = self.partial.take() {
            let stop =
                if end == RunStatus::Aborted { StopReason::Aborted } else { StopReason::Error };
            if let Some(message) = self.close_reply(partial, stop, Usage::default()) {
                self.stage(LogEntry::Replied { message, cost: None });
            }
        }
        self.flush().await?;
        if end != RunStatus::AwaitingAction {
            let (status, why, answer) = match end {
                RunStatus::Aborted => (
                    ResultStatus::Aborted,
                    "the user aborted",
                    "Aborted by the user before it started.",
                ),
                _ => (
                    ResultStatus::Skipped,
                    "the run ended",
                    "Skipped: the run ended before it started.",
                ),
            };
            self.cancel_running(true, why);
            while self.any_running() {
                match self.next_happening(false).await {
                    Err(StepError::Panicked(_)) => {} // of a hook: the call's result says so, and the others go on
                    other => drop(other?),
                }
            }
            self.finish_unstarted(status, answer).await?;
        }
        self.deliver_own_input().await
    }

    /// An input that its run did not get to is in the conversation all the same: left in the queue
    /// it would start the run again that was aborted or has failed.
    async fn deliver_own_input(&mut self) -> Result<(), StepError> {
        let Some(RunCause::UserRequest(input) | RunCause::Continue(Some(input))) =
            self.fold.cause.clone()
        else {
            return Ok(());
        };
        if self.fold.batch.is_none()
            && self.fold.queue.lane(QueueKind::Request).any(|w| w.input == input)
        {
            self.commit(LogEntry::Delivered { input }).await?;
        }
        Ok(())
    }
}
