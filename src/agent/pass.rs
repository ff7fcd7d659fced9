//! One pass of a run: the pattern, or the answer at a limit, while commands are routed.

use std::future::poll_fn;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Poll;

use futures_util::FutureExt;
use tokio::sync::mpsc;
use tokio::task::coop::has_budget_remaining;
use tokio::time::{Instant, sleep_until};

use crate::error::{InputError, StepError};
use crate::event::input::QueueKind;
use crate::event::outcome::RunCause;
use crate::limits::LimitReached;
use crate::log::memory::Memory;
use crate::log::owners::PROBATION;
use crate::log::seen_inputs::SeenInputs;
use crate::log::state::SessionState;
use crate::message::RunId;
use crate::pattern::BehaviorPattern;
use crate::pattern::step::StepContext;
use crate::session::Session;
use crate::session::calls::batch;
use crate::session::calls::batch_outcome::BatchOutcome;
use crate::session::input::command::{self, Command, InputCommand, Sorted};
use crate::session::input::command_queue::CommandQueue;
use crate::session::panics::panic_text;
use crate::session::request::{compaction, wrap_up};
use crate::session::wake_gate::WakeGate;
use crate::step_end::StepEnd;

/// The work of one pass.
pub(crate) enum Work {
    /// To call the pattern.
    Step { is_first: bool },
    /// To answer at the limit that ended the pattern's work. It is the first work of a process that
    /// resumes the run there.
    WrapUp { reached: LimitReached, is_first: bool },
}

/// The end of the work of one pass.
pub(crate) enum Worked {
    /// The pattern returned; `None` if the run had only to compact.
    Stepped(Option<StepEnd>),
    /// The run has answered at its limit.
    Answered,
    /// The run has not answered at its limit.
    Unanswered,
}

/// The end of one pass, unless an abort or a reset stopped it.
pub(crate) enum PassEnd {
    Returned(Result<Worked, StepError>),
    Panicked(String),
    TimeUp,
    /// Another process has taken over the session.
    Lost,
}

/// An event that a pass waits for.
enum PassEvent {
    Command(Command),
    /// The owner has had the session for so long that it does not count as lost.
    Outlived,
    Ended(PassEnd),
}

/// The facts about the session that the task of a run needs while the pattern has the session.
pub(crate) struct Current {
    run: Option<RunId>,
    memory: Arc<dyn Memory>,
    /// The length of the log when the pattern got the session.
    from: u64,
    seen: SeenInputs,
}

impl Current {
    pub(crate) fn of(session: &Session) -> Self {
        let journal = &session.journal;
        let (SessionState { info, inputs, .. }, memory) =
            (&journal.state, journal.memory().clone());
        Current { run: info.run, memory, from: journal.written(), seen: inputs.clone() }
    }
}

/// The channels of a session's task.
pub(crate) struct Channels {
    /// Commands from handles, and inputs posted by other processes.
    pub(crate) commands: CommandQueue,
    /// Commands for the session, sent while the pattern has it.
    pub(crate) to_session: mpsc::UnboundedSender<Command>,
}

/// Does the work once. Returns the abort or reset that stopped it as the error.
///
/// Events are handled without awaiting: meanwhile the pattern's future would make no progress, and
/// locks that it holds (in a memory, for example) would stay held.
pub(crate) async fn pass(
    session: &mut Session,
    pattern: &dyn BehaviorPattern,
    channels: &mut Channels,
    deadline: Option<Instant>,
    work: &Work,
) -> Result<PassEnd, Box<InputCommand>> {
    let current = Current::of(session);
    let orphaned = session.tree.orphaned.clone();
    let behind = session.journal.write_behind();
    let mut on_probation = session.journal.state.info.owners.is_on_probation();
    let step = AssertUnwindSafe(do_work(session, pattern, work)).catch_unwind();
    let mut step = std::pin::pin!(step);
    let mut time_up = std::pin::pin!(async {
        match deadline {
            Some(deadline) => sleep_until(deadline).await,
            None => std::future::pending().await,
        }
    });
    let mut outlived = std::pin::pin!(async { tokio::time::sleep(PROBATION).await });
    let mut lost = std::pin::pin!(async {
        match orphaned {
            None => current.memory.lost().await,
            Some(orphaned) => tokio::select! { biased;
                () = current.memory.lost() => {}
                () = orphaned.cancelled() => {}
            },
        }
    });
    loop {
        let event = {
            let mut around = std::pin::pin!(async {
                tokio::select! { biased;
                    command = channels.commands.recv_always() => PassEvent::Command(command),
                    () = &mut outlived, if on_probation => PassEvent::Outlived,
                    () = &mut time_up => PassEvent::Ended(PassEnd::TimeUp),
                    () = &mut lost => PassEvent::Ended(PassEnd::Lost),
                }
            });
            let mut gate = WakeGate::default();
            let event = poll_fn(|cx| {
                if let Poll::Ready(event) = gate.poll(cx, |cx| around.as_mut().poll(cx)) {
                    return Poll::Ready(event);
                }
                if !has_budget_remaining() {
                    cx.waker().wake_by_ref(); // more commands, and an abort among them, may wait
                    return Poll::Pending;
                }
                if let Poll::Ready(end) = step.as_mut().poll(cx) {
                    return Poll::Ready(PassEvent::Ended(match end {
                        Ok(end) => PassEnd::Returned(end),
                        Err(panic) => PassEnd::Panicked(panic_text(&*panic)),
                    }));
                }
                behind.poll_write(cx);
                Poll::Pending
            });
            event.await
        };
        match event {
            PassEvent::Command(command) => {
                if let Some(stop) = route(command, channels, &current) {
                    return Err(stop);
                }
            }
            PassEvent::Outlived => {
                on_probation = false;
                let _ = channels.to_session.send(Command::NoteLeft);
            }
            PassEvent::Ended(end) => return Ok(end),
        }
    }
}

async fn do_work(
    session: &mut Session,
    pattern: &dyn BehaviorPattern,
    work: &Work,
) -> Result<Worked, StepError> {
    match work {
        Work::Step { is_first } => step(session, pattern, *is_first).await.map(Worked::Stepped),
        Work::WrapUp { reached, is_first } => {
            if *is_first {
                session.load_tools().await?;
            }
            match wrap_up::answer_at(session, reached.limit).await? {
                true => Ok(Worked::Answered),
                false => Ok(Worked::Unanswered),
            }
        }
    }
}

/// Closes the open batch, then calls the pattern. Returns `None` if the run had only to compact.
async fn step(
    session: &mut Session,
    pattern: &dyn BehaviorPattern,
    is_first: bool,
) -> Result<Option<StepEnd>, StepError> {
    if is_first {
        session.load_tools().await?;
    }
    if session.journal.state.batch.is_some() {
        StepContext::new(session).take_input().await?;
        match batch::run(session, None).await? {
            BatchOutcome::AwaitsUser => return Ok(Some(StepEnd::AwaitingAction)),
            // `ask` returns the batch's reply again, so that the pattern ends the run as usual.
            BatchOutcome::Terminated => session.reply.returned = None,
            _ => {}
        }
    }
    if let Some(RunCause::Compact { instructions }) = session.journal.state.cause.clone()
        && compaction::compact_for_run(session, instructions).await?
    {
        return Ok(None);
    }
    if is_first && was_interrupted(session) {
        let mut step = StepContext::new(session);
        step.take_input().await?;
        step.take_steering().await?;
    }
    loop {
        match pattern.next_step(&mut StepContext::new(session)).await {
            Err(StepError::Steered) if has_steering(session) => {
                StepContext::new(session).take_steering().await?;
            }
            Err(StepError::Ended(end)) => return Ok(Some(end)),
            ended => return ended.map(Some),
        }
    }
}

/// Returns whether a steer that arrived in this run interrupts it. After a crash, the interrupted
/// work is not repeated before the steer is delivered.
fn was_interrupted(session: &Session) -> bool {
    let state = &session.journal.state;
    session.is_interrupted(state.run_at) && state.batch.is_none()
}

fn has_steering(session: &Session) -> bool {
    session.journal.state.queue.has(QueueKind::Steering)
}

/// Forwards a command to the session, or returns the abort or reset that ends this run.
pub(crate) fn route(
    command: Command,
    channels: &Channels,
    current: &Current,
) -> Option<Box<InputCommand>> {
    let known = |input: &InputCommand| current.seen.known(input.id.as_ref());
    let refuse = |input: InputCommand| {
        if let Some(id) = known(&input) {
            return input.acknowledge_copy(id);
        }
        let memory = current.memory.clone();
        let refused = command::refuse(input.id, input.ack, InputError::Busy, memory, current.from);
        drop(tokio::spawn(refused));
    };
    match command.sort() {
        Sorted::Stop(input) if input.aborts_other_than(current.run) => {
            drop(channels.to_session.send(Command::Input(input)));
        }
        Sorted::Stop(input) => match known(&input) {
            Some(id) => input.acknowledge_copy(id),
            None => return Some(input),
        },
        Sorted::WhenIdle(input) => refuse(*input),
        Sorted::Other(Command::Input(input)) if input.caller.is_some() => refuse(*input),
        Sorted::Other(command) => drop(channels.to_session.send(command)),
    }
    None
}
