//! Runs and turns in the state: how they start and end.

use std::sync::Arc;
use std::time::Duration;

use super::session_state::{AfterBatch, SessionState};
use crate::event::AgentEvent;
use crate::event::input::QueueKind;
use crate::event::outcome::{RunCause, RunOutcome, RunStatus};
use crate::limits::Limit;
use crate::log::entry::{LogEntry, StateScope};
use crate::log::turn::Turn;
use crate::log::waits::Wait;
use crate::message::{InputId, MessageId, RunId};

impl SessionState {
    pub(super) fn start_run(
        &mut self,
        run: RunId,
        cause: &RunCause,
        emit: &mut dyn FnMut(AgentEvent),
    ) {
        let is_abort = matches!(cause, RunCause::Abort);
        (self.runs, self.abort_requested) = (run.0, is_abort);
        self.run_at = self.info.entries;
        (self.terminated, self.wrap_up) = (None, None);
        (self.cause, self.last_error) = (Some(cause.clone()), None);
        self.undelivered = match cause {
            RunCause::UserRequest(input) | RunCause::Continue(Some(input)) => {
                self.queue.take_request(input)
            }
            _ => None,
        };
        if cause.is_fresh() {
            self.incomplete = None;
        }
        let was_stuck =
            self.outcome.as_ref().is_some_and(|run| run.limit == Some(Limit::RepeatedCalls));
        if matches!(cause, RunCause::Timer(_) | RunCause::Signal(_)) || was_stuck {
            self.fresh_after = MessageId(self.messages);
        }
        // A steer in place of a decision belongs to the request that waits.
        let begins_request = match cause {
            RunCause::UserRequest(_) => true,
            RunCause::Steer => self.batch.is_none(),
            _ => false,
        };
        let own = self.undelivered.as_ref();
        if begins_request {
            self.request = own.map(|request| request.message.clone());
        }
        let principal = own.and_then(|request| request.principal.clone());
        if begins_request || principal.is_some() {
            self.principal = principal;
        }
        self.after_batch.counters |= cause.is_fresh();
        self.after_batch.request |= begins_request;
        if self.batch.is_none() {
            self.begin_afresh();
        }
        emit(AgentEvent::AgentStart { cause: cause.clone(), trace: self.trace.clone() });
    }

    pub(super) fn end_run(&mut self, entry: &LogEntry, emit: &mut dyn FnMut(AgentEvent)) {
        let LogEntry::RunEnded { end, time, error, model_error, limit, value, handed_back, .. } =
            entry
        else {
            return;
        };
        self.close_turn(emit);
        self.lose_reserved();
        let time = Duration::from_millis(time.saturating_sub(self.started));
        for account in [&mut self.spent, &mut self.uncounted] {
            account.time = account.time.saturating_add(time);
        }
        self.undelivered.take_if(|request| handed_back.contains(&request.input));
        let back = self.dequeue(handed_back, emit);
        if let Some(request) = self.undelivered.take() {
            self.queue.push_front(request);
        }
        (self.abort_requested, self.requested) = (false, None);
        self.last_error = error.clone();
        // A typed value is always complete: it fits its schema.
        let is_answer = *end == RunStatus::Done && value.is_none();
        let incomplete = self.incomplete.filter(|_| is_answer);
        let outcome = Arc::new(RunOutcome {
            end: if incomplete.is_some() { RunStatus::Incomplete } else { *end },
            error: error.clone(),
            model_error: *model_error,
            incomplete,
            limit: *limit,
            wakes_at: self.info.next_wait().and_then(Wait::over_at),
            turns: self.turn.number,
            requests: self.spent.turns,
            usage: self.spent.usage,
            cost: self.spent.cost,
            value: value.clone(),
            handed_back: back,
            text: self.last_reply().map(|reply| reply.text()).unwrap_or_default(),
        });
        self.outcome = Some(outcome.clone());
        emit(AgentEvent::AgentEnd(outcome));
    }

    /// Starts a turn, unless one is open. A turn with an open batch keeps its number.
    pub(super) fn open_turn(&mut self, emit: &mut dyn FnMut(AgentEvent)) {
        if self.turn.open {
            return;
        }
        if self.batch.is_none() {
            self.turn = Turn { number: self.turn.number + 1, ..Turn::default() };
        }
        self.turn.open = true;
        emit(AgentEvent::TurnStart { turn: self.turn.number });
    }

    pub(super) fn close_turn(&mut self, emit: &mut dyn FnMut(AgentEvent)) {
        if !std::mem::take(&mut self.turn.open) {
            return;
        }
        let message =
            self.turn.message.clone().or_else(|| self.batch.as_ref().map(|b| b.message.clone()));
        let tool_results = match &self.batch {
            Some(open) => open.calls.iter().filter_map(|c| c.result.clone()).collect(),
            None => std::mem::take(&mut self.turn.results),
        };
        emit(AgentEvent::TurnEnd { turn: self.turn.number, message, tool_results });
    }

    /// Drops the last run's counters and the values of its request, as far as they are due.
    pub(super) fn begin_afresh(&mut self) {
        let AfterBatch { counters, request } = std::mem::take(&mut self.after_batch);
        if counters {
            (self.turn, self.spent) = Default::default();
        }
        if request {
            self.values.retain(|(scope, _), _| *scope != StateScope::Request);
            self.keyed_results.clear();
            self.keyed_replies.clear();
            self.of_user.clear();
        }
    }

    /// Removes messages from the queues, and returns the texts of steers and follow-ups.
    pub(super) fn dequeue(
        &mut self,
        inputs: &[InputId],
        emit: &mut dyn FnMut(AgentEvent),
    ) -> Vec<String> {
        let messages = self.queue.remove(inputs).into_iter();
        let (removed, texts): (Vec<_>, Vec<_>) = messages
            .filter(|w| w.kind != QueueKind::Request)
            .map(|w| (w.input, w.message.text()))
            .unzip();
        if !removed.is_empty() {
            emit(AgentEvent::QueueUpdate { added: None, removed });
        }
        texts
    }
}
