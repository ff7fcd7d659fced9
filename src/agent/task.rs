//! The session's task: the input/output event loop. It routes what comes in while the pattern runs,
//! and starts the next run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use tokio::sync::mpsc;

use crate::error::{InputError, StepError};
use crate::extensions::Extensions;
use crate::log::calls::{Call, Phase};
use crate::log::compaction::Compaction;
use crate::log::entry::LogEntry;
use crate::log::event::{RunCause, RunOutcome, RunStatus};
use crate::log::fold::Tail;
use crate::log::input::{Decision, InputEvent, QueueKind, Urgency};
use crate::message::InputId;
use crate::pattern::BehaviorPattern;
use crate::session::close::Ending;
use crate::session::config::WhileAwaiting;
use crate::session::handle::Control;
use crate::session::hub::Subscriber;
use crate::session::running::panic_text;
use crate::session::{Ack, Input, Mail, Receipt, Session};

/// How a run ends that a crash had interrupted and that a new request settles.
pub(crate) const INTERRUPTED: &str = "the process was interrupted in the middle of this run, and a new request came instead of `Continue`";

/// Who waits for the outcome of a run: of a request, or of `Continue`.
pub(crate) struct Waiter {
    pub(crate) request: Option<InputId>,
    pub(crate) outcome: Ack<RunOutcome>,
    /// Gets the events of that run, from its start.
    pub(crate) stream: Option<Subscriber>,
}

pub(crate) struct Task {
    pub(crate) session: Session,
    pub(crate) pattern: Arc<dyn BehaviorPattern>,
    pub(crate) control: mpsc::UnboundedReceiver<Control>,
    pub(crate) to_mail: mpsc::UnboundedSender<Mail>,
    /// The host's values of the run context.
    pub(crate) extensions: Extensions,
    pub(crate) waiters: Vec<Waiter>,
    pub(crate) idle: Vec<Ack<()>>,
    /// A steer came too late for the run before and starts one of its own.
    pub(crate) late_steer: bool,
    /// The memory failed: nothing starts by itself until something comes in.
    pub(crate) stuck: bool,
}

impl Task {
    pub(crate) fn new(
        session: Session,
        pattern: Arc<dyn BehaviorPattern>,
        control: mpsc::UnboundedReceiver<Control>,
        to_mail: mpsc::UnboundedSender<Mail>,
        extensions: Extensions,
    ) -> Self {
        let (waiters, idle) = (Vec::new(), Vec::new());
        Task {
            session,
            pattern,
            control,
            to_mail,
            extensions,
            waiters,
            idle,
            late_steer: false,
            stuck: false,
        }
    }

    /// Lives until no handle is left. What it does is boxed, so that a session that does nothing
    /// has no room for it.
    pub(crate) async fn live(&mut self) {
        if self.session.interrupted && self.session.fold.abort_requested {
            Box::pin(self.end_interrupted(RunStatus::Aborted.into())).await;
        }
        loop {
            loop {
                self.compact_at_rest().await;
                let Some(cause) = self.next_run() else { break };
                Box::pin(self.run(Some(cause))).await;
            }
            for ack in self.idle.drain(..) {
                let _ = ack.send(());
            }
            match self.control.recv().await {
                Some(control) => Box::pin(self.at_rest(control)).await,
                None => return,
            }
        }
    }

    /// What starts by itself, as the log stands.
    fn next_run(&mut self) -> Option<RunCause> {
        let fold = &self.session.fold;
        if self.session.interrupted || self.stuck {
            return None;
        }
        if fold.batch.is_none() {
            let request = fold
                .queue
                .lane(QueueKind::Request)
                .next()
                .map(|w| RunCause::UserRequest(w.input.clone()));
            let late = std::mem::take(&mut self.late_steer) && fold.queue.has(QueueKind::Steering);
            return request.or(late.then_some(RunCause::Steer));
        }
        if let Some(decided) =
            fold.calls().iter().find(|c| matches!(c.phase, Phase::Decided { .. }))
        {
            return Some(RunCause::ActionResult(decided.call.id.clone()));
        }
        if self.session.config.while_awaiting == WhileAwaiting::Hold
            && fold.pending().next().is_some()
        {
            return None;
        }
        let mut instead = fold.queue.iter().filter(|w| fold.is_after_question(w));
        instead.find_map(|w| match w.lane {
            QueueKind::Request => Some(RunCause::UserRequest(w.input.clone())),
            QueueKind::Steering if w.urgency >= Urgency::SkipPending => Some(RunCause::Steer),
            _ => None,
        })
    }

    // ---- at rest --------------------------------------------------------------------------------

    pub(crate) async fn at_rest(&mut self, control: Control) {
        match control {
            Control::Idle(ack) => self.idle.push(ack),
            Control::Run { input, outcome, stream } => {
                self.input_at_rest(*input, Some((outcome, stream))).await
            }
            Control::Mail(Mail::Input(input)) => self.input_at_rest(*input, None).await,
            Control::Mail(mail) => drop(self.session.hear(mail).await),
        }
    }

    async fn input_at_rest(
        &mut self,
        mut input: Input,
        waits: Option<(Ack<RunOutcome>, Option<Subscriber>)>,
    ) {
        self.stuck = false;
        match &mut input.event {
            InputEvent::Abort | InputEvent::Reset => self.stop_at_rest(input).await,
            InputEvent::Continue(_) => {
                self.continue_at_rest(input, waits.map(|(outcome, _)| outcome)).await
            }
            InputEvent::UserRequest(prompt) => {
                let id = prompt.id.get_or_insert_with(|| self.session.fold.make_input_id()).clone();
                if self.session.fold.has_seen(&id) && waits.is_some() {
                    return drop(input.ack.send(Err(InputError::Known(id))));
                }
                self.request_at_rest(id, input, waits).await;
            }
            InputEvent::ExternalActionResult(answer) => {
                // Edited arguments need the tool's schema; after a restart no source has been asked
                // for it.
                if let Decision::ApproveWith(_) = answer.decision
                    && let Some(call) = self.session.fold.call(&answer.call)
                    && self.session.tools.entry(&call.call.name).is_err()
                {
                    let _ = self.session.load_tools().await; // without the tool the answer is refused
                }
                let _ = self.session.hear(Mail::Input(Box::new(input))).await;
                let decided = |c: &Call| matches!(c.phase, Phase::Decided { .. });
                if self.session.interrupted && self.session.fold.calls().iter().any(decided) {
                    self.run(None).await;
                }
            }
            _ => drop(self.session.hear(Mail::Input(Box::new(input))).await),
        }
    }

    /// Queued first, so that nothing that comes meanwhile gets before it; a new one settles a run
    /// that was interrupted.
    async fn request_at_rest(
        &mut self,
        id: InputId,
        input: Input,
        waits: Option<(Ack<RunOutcome>, Option<Subscriber>)>,
    ) {
        let before = self.session.fold.len;
        let _ = self.session.hear(Mail::Input(Box::new(input))).await;
        if !self.session.fold.queue.iter().any(|w| w.input == id && w.at > before) {
            return;
        }
        self.waiters.extend(waits.map(|(outcome, stream)| Waiter {
            request: Some(id),
            outcome,
            stream,
        }));
        if self.session.interrupted {
            self.end_interrupted(StepError::Pattern(INTERRUPTED.into()).into()).await;
        }
    }

    async fn continue_at_rest(&mut self, input: Input, outcome: Option<Ack<RunOutcome>>) {
        let Input { event: InputEvent::Continue(prompt), ack } = input else {
            return;
        };
        if self.session.interrupted && self.session.fold.abort_requested {
            self.end_interrupted(RunStatus::Aborted.into()).await; // its end could not be written
        }
        let fold = &self.session.fold;
        if let Some(id) = prompt.as_ref().and_then(|prompt| prompt.id.clone())
            && fold.has_seen(&id)
        {
            return drop(ack.send(Ok(Receipt::of(id))));
        }
        let waits = |lane| fold.queue.has(lane);
        let goes_on = match self.session.tail() {
            _ if self.session.interrupted || prompt.is_some() || fold.batch.is_some() => true,
            Tail::Answerable => true,
            Tail::Replied => waits(QueueKind::Steering) || waits(QueueKind::FollowUp),
            Tail::Empty => waits(QueueKind::Steering),
        };
        if !goes_on {
            return drop(ack.send(Err(InputError::NothingToContinue)));
        }
        let lane = if self.session.interrupted { QueueKind::FollowUp } else { QueueKind::Request };
        let queued =
            prompt.map(|prompt| self.session.queue(prompt, lane, Urgency::default())).transpose();
        let receipt = match queued {
            Ok(receipt) => receipt,
            Err(refused) => return drop(ack.send(Err(refused))),
        };
        if let Err(error) = self.session.flush().await {
            return drop(ack.send(Err(refused(error))));
        }
        let message = receipt.as_ref().map(|receipt| receipt.id.clone());
        let made = || Receipt::of(self.session.fold.make_input_id());
        let _ = ack.send(Ok(receipt.unwrap_or_else(made)));
        self.waiters.extend(outcome.map(|outcome| Waiter { request: None, outcome, stream: None }));
        let cause = (!self.session.interrupted).then_some(RunCause::Continue(message));
        self.run(cause).await;
    }

    /// What was asked for and no request came for: a run of its own each, where there is something
    /// to compact.
    async fn compact_at_rest(&mut self) {
        while let Some(wish) = self.session.compacting.wishes.pop_front() {
            let instructions = wish.instructions.clone();
            let refused = |why: &str| Err(InputError::NotCompacted(why.into()));
            let told = if self.session.fold.batch.is_some() {
                refused("calls wait for an answer: answer them first")
            } else if self.session.interrupted {
                refused("a run was interrupted: go on with it first, or abort it")
            } else {
                match catch_unwind(AssertUnwindSafe(|| {
                    self.session.can_compact(instructions.clone())
                })) {
                    Ok(true) => Box::pin(self.compact_for(instructions)).await,
                    Ok(false) => Ok(Vec::new()),
                    Err(panic) => refused(&StepError::Panicked(panic_text(&*panic)).to_string()),
                }
            };
            self.session.answer(wish, told);
        }
    }

    /// A run that compacts; gives what it has replaced.
    async fn compact_for(
        &mut self,
        instructions: Option<Arc<str>>,
    ) -> Result<Vec<Arc<Compaction>>, InputError> {
        self.session.compacting.told = None;
        self.run(Some(RunCause::Compact { instructions })).await;
        let why = match self.session.fold.outcome.as_ref().filter(|_| !self.stuck) {
            None => "the session's memory failed",
            Some(outcome) => outcome.error.as_deref().unwrap_or("the run was aborted"),
        };
        let why = InputError::NotCompacted(why.into());
        self.session.compacting.told.take().unwrap_or(Err(why))
    }

    /// An abort or a reset of what is open at rest.
    async fn stop_at_rest(&mut self, input: Input) {
        self.late_steer = false;
        let waiting = self.session.waiting();
        if self.session.interrupted {
            self.end_interrupted(RunStatus::Aborted.into()).await;
        } else if self.session.fold.batch.is_some() {
            if let Err(error) = self.begin(RunCause::Abort).await {
                return drop(input.ack.send(Err(refused(error))));
            }
            self.end(RunStatus::Aborted.into()).await;
        }
        self.stopped(input, waiting).await;
    }

    /// What remains of an abort or a reset once the run has ended. `waiting` are the texts that
    /// waited before.
    pub(crate) async fn stopped(&mut self, input: Input, waiting: Vec<String>) {
        let reset = matches!(input.event, InputEvent::Reset);
        let taken_back = if reset { waiting } else { Vec::new() };
        if reset {
            self.session.stage(LogEntry::Reset);
        }
        let receipt = Receipt { taken_back, ..Receipt::of(self.session.fold.make_input_id()) };
        let done = self.session.flush().await;
        if reset && done.is_ok() {
            self.session.riders.clear();
        }
        self.tell_forgotten();
        let _ = input.ack.send(done.map(|()| receipt).map_err(refused));
    }

    /// Puts in order what a crash left, without going on with it.
    async fn end_interrupted(&mut self, ending: Ending) {
        self.session.interrupted = false;
        self.end(ending).await;
    }
}

/// A memory's failure, as the sender of an input is told.
pub(crate) fn refused(error: StepError) -> InputError {
    match error {
        StepError::Memory(error) => InputError::Memory(error),
        other => InputError::BadDecision(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Thousands of sessions may rest in a server.
    #[test]
    fn a_session_at_rest_has_no_room_for_what_it_does_not_do() {
        fn room<F>(_: impl FnOnce(Task) -> F) -> usize {
            size_of::<F>()
        }
        let room = room(|mut task| async move { task.live().await });
        assert!(room < size_of::<Task>() + 512, "{room} bytes");
    }
}
