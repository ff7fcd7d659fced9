//! A run: passes of the pattern from its start to its end, and what is routed meanwhile.

use std::panic::AssertUnwindSafe;

use futures::FutureExt;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};
use tokio_util::sync::CancellationToken;

use crate::agent::task::{Task, Waiter, refused};
use crate::error::{InputError, StepError};
use crate::limits::Limit;
use crate::log::calls::Phase;
use crate::log::entry::LogEntry;
use crate::log::event::{RunCause, RunOutcome, RunStatus};
use crate::log::input::{InputEvent, QueueKind, Urgency};
use crate::message::{RunId, UserMessage};
use crate::pattern::step::StepContext;
use crate::pattern::{BehaviorPattern, StepEnd};
use crate::session::ask::without_fence;
use crate::session::batch::BatchOutcome;
use crate::session::close::Ending;
use crate::session::config::WhileAwaiting;
use crate::session::handle::Control;
use crate::session::running::panic_text;
use crate::session::{Ack, Input, Mail, Receipt, Session};
use crate::tool::schema::Schema;

/// How a pass of the pattern ended.
enum Ended {
    /// The end that it said; nothing where the run had only to compact.
    Returned(Result<Option<StepEnd>, StepError>),
    Panicked(String),
    /// An abort or a reset came.
    Stopped(Box<Input>),
    TimeUp,
}

impl Task {
    /// A run from its start to its end; with no cause, the rest of one that was interrupted.
    pub(crate) async fn run(&mut self, cause: Option<RunCause>) {
        (self.session.interrupted, self.late_steer) = (false, false);
        self.session.cancel = CancellationToken::new();
        if let Some(cause) = cause {
            match &cause {
                RunCause::UserRequest(input) => {
                    self.session.extensions = self.session.take_rider(input).over(&self.extensions);
                    let own = self.waiters.iter_mut().filter(|w| w.request.as_ref() == Some(input));
                    own.filter_map(|w| w.stream.take())
                        .for_each(|stream| self.session.hub.subscribe(stream));
                }
                RunCause::Continue(Some(input)) => {
                    self.session.extensions =
                        self.session.take_rider(input).over(&self.session.extensions);
                }
                _ => {}
            }
            if let Err(error) = self.begin(cause.clone()).await {
                self.stuck = true;
                let outcome = self.session.tell_unwritten_end(&error);
                return self.tell_waiters(&cause, &outcome);
            }
        }
        let (ending, stop) = self.drive().await;
        let Some(stop) = stop else {
            return self.end(ending).await;
        };
        for wish in std::mem::take(&mut self.session.compacting.wishes) {
            self.session.answer(wish, Err(InputError::NotCompacted("the run was aborted".into())));
        }
        let _ = self.session.flush().await; // an input on its way into the log has its id already
        let input = self.session.fold.make_input_id();
        self.session.stage(LogEntry::AbortRequested { input: input.clone() });
        let requested = self.session.flush().await;
        if matches!(stop.event, InputEvent::Reset) {
            let waiting = self.session.waiting();
            self.end(ending).await;
            return self.stopped(*stop, waiting).await;
        }
        let _ = stop.ack.send(requested.map(|()| Receipt::of(input)).map_err(refused));
        self.end(ending).await;
    }

    pub(crate) async fn begin(&mut self, cause: RunCause) -> Result<(), StepError> {
        let run = RunId(self.session.fold.runs + 1);
        tracing::debug!(session = &*self.session.id, %run, ?cause, "a run begins");
        let time = self.session.config.environment.now();
        self.session.commit(LogEntry::RunStarted { run, cause, time }).await
    }

    /// Passes of the pattern until the run may end; and the abort or reset that ended it, if it was
    /// one.
    async fn drive(&mut self) -> (Ending, Option<Box<Input>>) {
        let spent = self.session.fold.spent.time;
        let deadline = self
            .session
            .config
            .limits
            .wall_time
            .map(|time| Instant::now() + time.saturating_sub(spent));
        let mut output_retries = self.session.config.limits.output_retries;
        let mut fresh = true;
        loop {
            let ended = self.pass(deadline, std::mem::take(&mut fresh)).await;
            let before = self.session.fold.len;
            while let Ok(control) = self.control.try_recv() {
                if let Some(stop) = route(control, &self.to_mail, &mut self.idle) {
                    return (RunStatus::Aborted.into(), Some(stop));
                }
            }
            let end = match ended {
                Ended::Stopped(stop) => return (RunStatus::Aborted.into(), Some(stop)),
                Ended::TimeUp => return (StepError::Limit(Limit::WallTime).into(), None),
                Ended::Panicked(what) => return (StepError::Panicked(what).into(), None),
                Ended::Returned(Err(error)) => return (error.into(), None),
                Ended::Returned(Ok(end)) => end,
            };
            // What was said while the pattern returned is heard before the run may end.
            if let Err(error) = self.session.hear_all().await {
                return (error.into(), None);
            }
            let heard = self
                .session
                .fold
                .queue
                .iter()
                .any(|w| w.at > before && w.lane != QueueKind::Request);
            match end {
                None | Some(StepEnd::Done) if heard => {}
                None => return (RunStatus::Done.into(), None),
                Some(StepEnd::Done) => match self.check_output(&mut output_retries).await {
                    Ok(Some(ending)) => return (ending, None),
                    Ok(None) => {}
                    Err(error) => return (error.into(), None),
                },
                Some(StepEnd::AwaitingAction) if self.session.fold.batch.is_none() => {
                    let why = "it ended its step `AwaitingAction`, but no call waits for an answer";
                    return (StepError::Pattern(why.into()).into(), None);
                }
                Some(StepEnd::AwaitingAction) if self.has_news(heard) => {}
                Some(StepEnd::AwaitingAction) => return (RunStatus::AwaitingAction.into(), None),
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

    /// With an output schema a run converges only on a valid reply. Nothing: the model is to try
    /// again.
    async fn check_output(&mut self, retries: &mut u32) -> Result<Option<Ending>, StepError> {
        let Some(output) = self.session.output_schema() else {
            return Ok(Some(RunStatus::Done.into()));
        };
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
        let ask = format!(
            "{why}\nAnswer again with nothing but JSON that fits the schema `{}`.",
            output.name
        );
        let message = self.session.message(UserMessage::from(ask));
        self.session.commit(LogEntry::Remembered { message }).await?;
        Ok(None)
    }

    /// One pass of the pattern. The handlers of this `select!` never await: the pattern's future
    /// stands still while one runs, and what it holds (a lock inside a memory, say) with it.
    async fn pass(&mut self, deadline: Option<Instant>, fresh: bool) -> Ended {
        let Task { session, pattern, control, to_mail, idle, .. } = self;
        let mut work =
            std::pin::pin!(AssertUnwindSafe(step(session, &**pattern, fresh)).catch_unwind());
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
    }

    /// Settles the session, writes the end and tells it; what was said meanwhile comes after.
    pub(crate) async fn end(&mut self, ending: Ending) {
        let steers = matches!(ending.end, RunStatus::Done | RunStatus::AwaitingAction);
        let staged = self.session.stage_end(ending).await;
        let written = if staged.is_ok() { self.session.write().await } else { Ok(()) };
        let mut late = Vec::new(); // sent before `agent_end` goes out
        while let Ok(control) = self.control.try_recv() {
            late.push(control);
        }
        let outcome = match staged.and_then(|()| self.session.written(written)) {
            Ok(()) => self.session.fold.outcome.clone(),
            Err(error) => {
                tracing::error!(session = &*self.session.id, %error, "the end of a run could not be written");
                self.stuck = true;
                let _ = self.session.hear_all().await; // whoever still waits is told of the failure
                Some(self.session.tell_unwritten_end(&error))
            }
        };
        if let Some(outcome) = &outcome {
            let RunOutcome { end, error, usage, .. } = &**outcome;
            tracing::debug!(
                session = &*self.session.id,
                ?end,
                error = error.as_deref(),
                tokens = usage.total(),
                "a run ended"
            );
        }
        if let (Some(outcome), Some(cause)) = (outcome, self.session.fold.cause.clone()) {
            self.tell_waiters(&cause, &outcome);
        }
        for control in late {
            let steer = matches!(&control, Control::Mail(Mail::Input(input)) if matches!(input.event, InputEvent::Steer(_)));
            self.late_steer |= steer && steers;
            Box::pin(self.at_rest(control)).await;
        }
    }

    fn tell_waiters(&mut self, cause: &RunCause, outcome: &RunOutcome) {
        let request = if let RunCause::UserRequest(input) = cause { Some(input) } else { None };
        let told = |w: &mut Waiter| w.request.is_none() || w.request.as_ref() == request;
        for waiter in self.waiters.extract_if(.., told) {
            let _ = waiter.outcome.send(outcome.clone());
        }
    }

    /// A request that a reset took away has no run: whoever waits for it is told so.
    pub(crate) fn tell_forgotten(&mut self) {
        let Task { session, waiters, .. } = self;
        let gone = |w: &mut Waiter| {
            !session.fold.queue.iter().any(|q| Some(&q.input) == w.request.as_ref())
        };
        for waiter in waiters.extract_if(.., gone) {
            let _ = waiter.outcome.send(session.outcome_of_no_run(RunStatus::Aborted, None));
        }
    }
}

/// What a run does between its start and its end; nothing, if it had only to compact.
async fn step(
    session: &mut Session,
    pattern: &dyn BehaviorPattern,
    fresh: bool,
) -> Result<Option<StepEnd>, StepError> {
    if fresh {
        session.load_tools().await?;
    }
    if session.fold.batch.is_some() {
        // An open batch is closed before the pattern is entered, and heard like a verb.
        StepContext { session }.take_input().await?;
        match session.run_batch(None).await? {
            BatchOutcome::AwaitsUser => return Ok(Some(StepEnd::AwaitingAction)),
            BatchOutcome::Terminated
                if session.fold.queue.iter().all(|w| w.lane == QueueKind::Request) =>
            {
                return Ok(Some(StepEnd::Done));
            }
            _ => {}
        }
    }
    if let Some(RunCause::Compact { instructions }) = session.fold.cause.clone()
        && session.compact_run(instructions).await?
    {
        return Ok(None);
    }
    pattern.next_step(&mut StepContext { session }).await.map(Some)
}

/// Sorts what is said while a run goes on; an abort or a reset is handed back.
fn route(
    control: Control,
    to_mail: &mpsc::UnboundedSender<Mail>,
    idle: &mut Vec<Ack<()>>,
) -> Option<Box<Input>> {
    match control {
        Control::Idle(ack) => idle.push(ack),
        Control::Run { input, .. } => drop(input.ack.send(Err(InputError::Busy))),
        Control::Mail(Mail::Input(input))
            if matches!(input.event, InputEvent::Abort | InputEvent::Reset) =>
        {
            return Some(input);
        }
        Control::Mail(mail) => drop(to_mail.send(mail)),
    }
    None
}
