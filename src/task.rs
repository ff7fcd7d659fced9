//! The session's task: the input/output event loop. It routes what comes in while the pattern runs,
//! and starts the next run.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::ask::without_fence;
use crate::batch::BatchEnd;
use crate::calls::Phase;
use crate::config::WhileAwaiting;
use crate::crew::panic_text;
use crate::error::{InputError, StepError};
use crate::event::{EndKind, RunCause, RunOutcome};
use crate::extensions::Extensions;
use crate::fold::Tail;
use crate::handle::Control;
use crate::input::{InputEvent, Lane, Urgency};
use crate::limits::Limit;
use crate::memory::Item;
use crate::message::{InputId, UserMessage};
use crate::pattern::{BehaviorPattern, StepEnd};
use crate::schema::Schema;
use crate::session::{Ack, Input, Mail, Receipt, Session};
use crate::settle::Ending;
use crate::step::StepContext;

/// Who waits for the outcome of a run: of a request, or of `Continue`.
type Waiter = (Option<InputId>, Ack<RunOutcome>);

pub(crate) struct Task {
    pub(crate) session: Session,
    pub(crate) pattern: Arc<dyn BehaviorPattern>,
    pub(crate) control: mpsc::UnboundedReceiver<Control>,
    pub(crate) to_mail: mpsc::UnboundedSender<Mail>,
    /// The host's values of the run context.
    pub(crate) extensions: Extensions,
    waiters: Vec<Waiter>,
    idle: Vec<Ack<()>>,
    /// A steer came too late for the run before and starts one of its own.
    late_steer: bool,
    /// The memory failed: nothing starts by itself until something comes in.
    stuck: bool,
}

/// How a pass of the pattern ended.
enum Ended {
    Returned(Result<StepEnd, StepError>),
    Panicked(String),
    /// An abort or a reset came.
    Stopped(Box<Input>),
    TimeUp,
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
        Task { session, pattern, control, to_mail, extensions, waiters, idle, late_steer: false, stuck: false }
    }

    /// Lives until no handle is left.
    pub(crate) async fn live(mut self) {
        if self.session.interrupted && self.session.fold.abort_requested {
            self.end_interrupted(EndKind::Aborted.into()).await;
        }
        loop {
            while let Some(cause) = self.next_run() {
                self.run(Some(cause)).await;
            }
            for ack in self.idle.drain(..) {
                let _ = ack.send(());
            }
            match self.control.recv().await {
                Some(control) => self.at_rest(control).await,
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
            let request = fold.queue.lane(Lane::Request).next().map(|w| RunCause::UserRequest(w.input.clone()));
            let late = std::mem::take(&mut self.late_steer) && fold.queue.has(Lane::Steering);
            return request.or(late.then_some(RunCause::Steer));
        }
        if let Some(decided) = fold.calls().iter().find(|c| matches!(c.phase, Phase::Decided { .. })) {
            return Some(RunCause::ActionResult(decided.call.id.clone()));
        }
        if self.session.config.while_awaiting == WhileAwaiting::Hold {
            return None;
        }
        let mut instead = fold.queue.iter().filter(|w| fold.is_after_question(w));
        instead.find_map(|w| match w.lane {
            Lane::Request => Some(RunCause::UserRequest(w.input.clone())),
            Lane::Steering if w.urgency >= Urgency::SkipPending => Some(RunCause::Steer),
            _ => None,
        })
    }

    // ---- at rest --------------------------------------------------------------------------------

    async fn at_rest(&mut self, control: Control) {
        self.stuck = false;
        match control {
            Control::Idle(ack) => self.idle.push(ack),
            Control::Run { input, outcome, stream } => {
                if let Some(subscriber) = stream {
                    self.session.hub.subscribe(subscriber);
                }
                self.input_at_rest(*input, Some(outcome)).await;
            }
            Control::Mail(Mail::Input(input)) => self.input_at_rest(*input, None).await,
            Control::Mail(mail) => drop(self.session.hear(mail).await),
        }
    }

    async fn input_at_rest(&mut self, mut input: Input, outcome: Option<Ack<RunOutcome>>) {
        match &mut input.event {
            InputEvent::Abort | InputEvent::Reset => return self.stop_at_rest(input).await,
            InputEvent::Continue(_) => return self.continue_at_rest(input, outcome).await,
            InputEvent::UserRequest(prompt) => {
                let id = prompt.id.get_or_insert_with(|| self.session.fold.make_input_id()).clone();
                if let Some(outcome) = outcome {
                    if self.session.fold.has_seen(&id) {
                        return drop(input.ack.send(Err(InputError::Known(id))));
                    }
                    self.waiters.push((Some(id), outcome));
                }
                if self.session.interrupted {
                    let why = "the process was interrupted in the middle of this run, and a new request came instead of `Continue`";
                    self.end_interrupted(StepError::Pattern(why.into()).into()).await;
                }
            }
            _ => {}
        }
        let _ = self.session.hear(Mail::Input(Box::new(input))).await;
        let decided = |session: &Session| session.fold.calls().iter().any(|c| matches!(c.phase, Phase::Decided { .. }));
        if self.session.interrupted && decided(&self.session) {
            self.run(None).await;
        }
    }

    async fn continue_at_rest(&mut self, input: Input, outcome: Option<Ack<RunOutcome>>) {
        let Input { event: InputEvent::Continue(prompt), ack } = input else { return };
        let fold = &self.session.fold;
        let waits = |lane| fold.queue.has(lane);
        let goes_on = match self.session.tail() {
            _ if self.session.interrupted || prompt.is_some() || fold.batch.is_some() => true,
            Tail::Answerable => true,
            Tail::Replied => waits(Lane::Steering) || waits(Lane::FollowUp),
            Tail::Empty => waits(Lane::Steering),
        };
        if !goes_on {
            return drop(ack.send(Err(InputError::NothingToContinue)));
        }
        let lane = if self.session.interrupted { Lane::FollowUp } else { Lane::Request };
        let queued = prompt.map(|prompt| self.session.queue(prompt, lane, Urgency::default())).transpose();
        let receipt = match queued {
            Ok(receipt) => receipt,
            Err(refused) => return drop(ack.send(Err(refused))),
        };
        if let Err(error) = self.session.flush().await {
            return drop(ack.send(Err(refused(error))));
        }
        let message = receipt.as_ref().map(|receipt| receipt.id.clone());
        let made = || Receipt { id: self.session.fold.make_input_id(), taken_back: Vec::new() };
        let _ = ack.send(Ok(receipt.unwrap_or_else(made)));
        self.waiters.extend(outcome.map(|outcome| (None, outcome)));
        let cause = (!self.session.interrupted).then_some(RunCause::Continue(message));
        self.run(cause).await;
    }

    /// An abort or a reset of what is open at rest.
    async fn stop_at_rest(&mut self, input: Input) {
        if self.session.interrupted {
            self.end_interrupted(EndKind::Aborted.into()).await;
        } else if self.session.fold.batch.is_some() {
            if let Err(error) = self.begin(RunCause::Abort).await {
                return drop(input.ack.send(Err(refused(error))));
            }
            self.end(EndKind::Aborted.into()).await;
        }
        self.stopped(input).await;
    }

    /// What remains of an abort or a reset once the run has ended.
    async fn stopped(&mut self, input: Input) {
        if matches!(input.event, InputEvent::Reset) {
            self.session.stage(Item::Reset);
        }
        let receipt = Receipt { id: self.session.fold.make_input_id(), taken_back: Vec::new() };
        let done = self.session.flush().await;
        let _ = input.ack.send(done.map(|()| receipt).map_err(refused));
    }

    /// Puts in order what a crash left, without going on with it.
    async fn end_interrupted(&mut self, ending: Ending) {
        self.session.interrupted = false;
        self.end(ending).await;
    }

    // ---- a run ----------------------------------------------------------------------------------

    /// A run from its start to its end; with no cause, the rest of one that was interrupted.
    async fn run(&mut self, cause: Option<RunCause>) {
        self.session.interrupted = false;
        self.session.cancel = CancellationToken::new();
        if let Some(cause) = cause {
            if let RunCause::UserRequest(input) = &cause {
                self.session.extensions = self.session.take_rider(input).over(&self.extensions);
            }
            if let Err(error) = self.begin(cause.clone()).await {
                self.stuck = true;
                let outcome = self.session.tell_unwritten_end(&error);
                return self.tell_waiters(&cause, &outcome);
            }
        }
        let (ending, stop) = self.drive().await;
        let Some(stop) = stop else { return self.end(ending).await };
        let input = self.session.fold.make_input_id();
        self.session.stage(Item::AbortRequested { input: input.clone() });
        let requested = self.session.flush().await;
        if matches!(stop.event, InputEvent::Reset) {
            self.end(ending).await;
            return self.stopped(*stop).await;
        }
        let _ = stop.ack.send(requested.map(|()| Receipt { id: input, taken_back: Vec::new() }).map_err(refused));
        self.end(ending).await;
    }

    async fn begin(&mut self, cause: RunCause) -> Result<(), StepError> {
        let run = crate::message::RunId(self.session.fold.runs + 1);
        let time = self.session.config.ambient.now();
        self.session.commit(Item::RunStarted { run, cause, time }).await
    }

    /// Passes of the pattern until the run may end; and the abort or reset that ended it, if it was one.
    async fn drive(&mut self) -> (Ending, Option<Box<Input>>) {
        let deadline = self.session.config.limits.wall_time.map(|time| Instant::now() + time);
        let mut output_retries = self.session.config.limits.output_retries;
        let mut fresh = true;
        loop {
            let ended = self.pass(deadline, std::mem::take(&mut fresh)).await;
            let before = self.session.fold.queue.len();
            while let Ok(control) = self.control.try_recv() {
                if let Some(stop) = route(control, &self.to_mail, &mut self.idle) {
                    return (EndKind::Aborted.into(), Some(stop));
                }
            }
            let end = match ended {
                Ended::Stopped(stop) => return (EndKind::Aborted.into(), Some(stop)),
                Ended::TimeUp => return (StepError::Limit(Limit::WallTime).into(), None),
                Ended::Panicked(what) => return (StepError::Panicked(what).into(), None),
                Ended::Returned(Err(error)) => return (error.into(), None),
                Ended::Returned(Ok(end)) => end,
            };
            // What was said while the pattern returned is heard before the run may end.
            if let Err(error) = self.session.hear_all().await {
                return (error.into(), None);
            }
            let heard = self.session.fold.queue.iter().skip(before).any(|w| w.lane != Lane::Request);
            match end {
                StepEnd::Done if heard => {}
                StepEnd::Done => match self.check_output(&mut output_retries).await {
                    Ok(Some(ending)) => return (ending, None),
                    Ok(None) => {}
                    Err(error) => return (error.into(), None),
                },
                StepEnd::AwaitingAction if self.has_news(heard) => {}
                StepEnd::AwaitingAction => return (EndKind::AwaitingAction.into(), None),
            }
        }
    }

    /// Whether something has been said that an open batch need not wait any longer for.
    fn has_news(&self, heard: bool) -> bool {
        let fold = &self.session.fold;
        let supersede = self.session.config.while_awaiting == WhileAwaiting::Supersede;
        fold.pending().next().is_none()
            || fold.calls().iter().any(|c| matches!(c.phase, Phase::Decided { .. }))
            || heard && supersede && fold.queue.steered(Urgency::SkipPending)
    }

    /// With an output schema a run converges only on a valid reply. Nothing: the model is to try again.
    async fn check_output(&mut self, retries: &mut u32) -> Result<Option<Ending>, StepError> {
        let Some(output) = self.session.output_schema() else { return Ok(Some(EndKind::Done.into())) };
        let schema = Schema::compile(&output.schema).map_err(StepError::Output)?;
        let text = self.session.fold.last_reply().map(|reply| reply.text()).unwrap_or_default();
        let why = match schema.read_answer(without_fence(&text)) {
            Ok(value) => return Ok(Some(Ending::with_value(value))),
            Err(why) => why,
        };
        if *retries == 0 {
            return Err(StepError::Output(why));
        }
        *retries -= 1;
        let ask = format!("{why}\nAnswer again with nothing but JSON that fits the schema `{}`.", output.name);
        let message = self.session.message(UserMessage::from(ask));
        self.session.commit(Item::Remembered { message }).await?;
        Ok(None)
    }

    /// One pass of the pattern. The handlers of this `select!` never await: the pattern's future
    /// stands still while one runs, and what it holds (a lock inside a memory, say) with it.
    async fn pass(&mut self, deadline: Option<Instant>, fresh: bool) -> Ended {
        let Task { session, pattern, control, to_mail, idle, .. } = self;
        let ended = {
            let mut work = std::pin::pin!(AssertUnwindSafe(step(session, &**pattern, fresh)).catch_unwind());
            let mut time_up = std::pin::pin!(async {
                match deadline {
                    Some(deadline) => sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            });
            loop {
                tokio::select! { biased;
                    Some(said) = control.recv() => if let Some(stop) = route(said, to_mail, idle) { break Ended::Stopped(stop) },
                    () = &mut time_up => break Ended::TimeUp,
                    end = &mut work => break match end {
                        Ok(end) => Ended::Returned(end),
                        Err(panic) => Ended::Panicked(panic_text(&*panic)),
                    },
                }
            }
        };
        if let Ended::Panicked(_) = ended {
            session.forget_write();
        }
        ended
    }

    /// Settles the session, writes the end and tells it; what was said meanwhile comes after.
    async fn end(&mut self, ending: Ending) {
        let ending = self.session.stage_end(ending).await;
        let written = self.session.write().await;
        let mut late = Vec::new(); // sent before `agent_end` goes out
        while let Ok(control) = self.control.try_recv() {
            late.push(control);
        }
        let outcome = match self.session.written(written) {
            Ok(()) => self.session.fold.outcome.clone(),
            Err(error) => {
                self.stuck = true;
                Some(self.session.tell_unwritten_end(&error))
            }
        };
        if let (Some(outcome), Some(cause)) = (outcome, self.session.fold.cause.clone()) {
            self.tell_waiters(&cause, &outcome);
        }
        let steers = matches!(ending.end, EndKind::Done | EndKind::AwaitingAction);
        for control in late {
            let steer =
                matches!(&control, Control::Mail(Mail::Input(input)) if matches!(input.event, InputEvent::Steer(_)));
            self.late_steer |= steer && steers;
            Box::pin(self.at_rest(control)).await;
        }
    }

    fn tell_waiters(&mut self, cause: &RunCause, outcome: &RunOutcome) {
        let request = if let RunCause::UserRequest(input) = cause { Some(input) } else { None };
        for (waits_for, ack) in std::mem::take(&mut self.waiters) {
            match waits_for {
                Some(other) if Some(&other) != request && !ack.is_closed() => self.waiters.push((Some(other), ack)),
                _ => drop(ack.send(outcome.clone())),
            }
        }
    }
}

/// What a run does between its start and its end.
async fn step(session: &mut Session, pattern: &dyn BehaviorPattern, fresh: bool) -> Result<StepEnd, StepError> {
    if fresh {
        session.load_tools().await?;
    }
    if session.fold.batch.is_some() {
        // An open batch is closed before the pattern is entered, and heard like a verb.
        StepContext { session }.take_input().await?;
        match session.run_batch(None).await? {
            BatchEnd::AwaitsUser => return Ok(StepEnd::AwaitingAction),
            BatchEnd::Terminated if session.fold.queue.is_empty() => return Ok(StepEnd::Done),
            _ => {}
        }
    }
    pattern.next_step(&mut StepContext { session }).await
}

/// Sorts what is said while a run goes on; an abort or a reset is handed back.
fn route(control: Control, to_mail: &mpsc::UnboundedSender<Mail>, idle: &mut Vec<Ack<()>>) -> Option<Box<Input>> {
    match control {
        Control::Idle(ack) => idle.push(ack),
        Control::Run { input, .. } => drop(input.ack.send(Err(InputError::Busy))),
        Control::Mail(Mail::Input(input)) if matches!(input.event, InputEvent::Abort | InputEvent::Reset) => {
            return Some(input);
        }
        Control::Mail(mail) => drop(to_mail.send(mail)),
    }
    None
}

/// A memory's failure, as the sender of an input is told.
fn refused(error: StepError) -> InputError {
    match error {
        StepError::Memory(error) => InputError::Memory(error),
        other => InputError::BadDecision(other.to_string()),
    }
}
