//! The loop over a session's events that `run`, `approve`, `deny` and the line chat share.

use std::fmt;
use std::io;
use std::sync::Arc;

use loopwright_core::agent::InputError;
use loopwright_core::event::{Envelope, RunOutcome, StreamEnd};
use loopwright_core::session::EventReader;
use loopwright_core::{AgentEvent, AgentHandle, EventStream, SessionStore};

use crate::interrupt::Interrupt;
use crate::output::EventView;

/// The reason why a session can no longer be followed.
pub(crate) enum FollowError {
    /// Standard output cannot be written.
    Output(io::Error),
    /// The session has failed or ended.
    Session(InputError),
}

impl From<InputError> for FollowError {
    fn from(error: InputError) -> Self {
        FollowError::Session(error)
    }
}

impl fmt::Display for FollowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FollowError::Output(why) => write!(f, "standard output cannot be written: {why}."),
            FollowError::Session(why) => write!(f, "the session cannot continue: {why}."),
        }
    }
}

/// The controller of a followed session: it decides what happens next.
pub(crate) trait Operator {
    /// An input besides the session's events, such as a line.
    type Input;

    /// Returns the exit code when it is time to leave, else `None`.
    fn exit_code(&self) -> Option<u8>;

    /// Observes an event, after it was shown.
    fn observe(&mut self, _event: &AgentEvent) {}

    /// Waits for the next input. Must be cancel-safe: it is dropped when an event arrives first.
    async fn input(&mut self) -> Self::Input;

    /// Handles an input.
    async fn handle(&mut self, input: Self::Input, live: &mut Live) -> Result<(), FollowError>;

    /// Handles Ctrl-C.
    async fn interrupted(&mut self, live: &mut Live) -> Result<(), FollowError>;

    /// Continues when the session is idle after a run. All of its events have been shown.
    async fn idle(&mut self, live: &mut Live) -> Result<(), FollowError>;
}

/// An open session and the view of its events.
pub(crate) struct Live {
    pub(crate) handle: AgentHandle,
    events: EventReader,
    store: Arc<dyn SessionStore>,
    view: EventView,
    /// The outcome of the last run that ended.
    outcome: Option<Arc<RunOutcome>>,
    /// `true` if a run has ended, no other has started, and the operator was not called yet.
    run_ended: bool,
}

enum Next {
    Event(Arc<Envelope>),
    Idle,
}

impl Live {
    /// Creates a session of this store that shows its events in `view`.
    pub(crate) fn new(
        handle: AgentHandle,
        events: EventStream,
        store: Arc<dyn SessionStore>,
        view: EventView,
    ) -> Self {
        let events = EventReader::new(handle.clone(), events, store.clone());
        Live { handle, events, store, view, outcome: None, run_ended: false }
    }

    /// Returns the outcome of the last run that ended.
    pub(crate) fn outcome(&self) -> Option<&Arc<RunOutcome>> {
        self.outcome.as_ref()
    }

    /// Returns whether a run has ended and [`Operator::idle`] was not called yet.
    pub(crate) fn awaits_idle(&self) -> bool {
        self.run_ended
    }

    /// Shows the events that have arrived.
    pub(crate) async fn show_arrived(
        &mut self,
        operator: &mut impl Operator,
    ) -> Result<(), FollowError> {
        while let Some(event) = self.events.try_next().await {
            self.show(&event, operator)?;
        }
        Ok(())
    }

    /// Returns whether the session has moved: another process has it open or has asked for it, or
    /// its owner has left.
    pub(crate) async fn has_moved(&mut self) -> bool {
        if self.handle.has_ended() {
            while let Some(event) = self.events.next().await {
                if self.view.show(&event).is_err() {
                    return false;
                }
            }
        }
        self.events.end() == Some(StreamEnd::Moved)
    }

    /// Continues with another handle to the session.
    pub(crate) fn continue_with(&mut self, handle: AgentHandle, events: EventStream) {
        self.events = EventReader::new(handle.clone(), events, self.store.clone());
        (self.handle, self.run_ended) = (handle, false);
    }

    fn show(&mut self, event: &Envelope, operator: &mut impl Operator) -> Result<(), FollowError> {
        match &event.event {
            AgentEvent::AgentStart { .. } => self.run_ended = false,
            AgentEvent::AgentEnd(outcome) => {
                self.outcome = Some(outcome.clone());
                self.run_ended = true;
            }
            _ => {}
        }
        self.view.show(event).map_err(FollowError::Output)?;
        operator.observe(&event.event);
        Ok(())
    }

    /// Waits for the next event, or for the session to be idle after a run has ended.
    async fn next(&mut self) -> Result<Next, FollowError> {
        tokio::select! { biased;
            event = self.events.next() => match event {
                Some(event) => Ok(Next::Event(event)),
                None if self.run_ended => Ok(Next::Idle),
                None => Err(match self.events.end() {
                    Some(StreamEnd::Moved) => InputError::Moved.into(),
                    _ => InputError::Gone.into(),
                }),
            },
            () = self.handle.wait_for_idle(), if self.run_ended => Ok(Next::Idle),
        }
    }
}

/// Shows the events of a session, and passes Ctrl-C and inputs to the operator until it leaves.
/// Returns the exit code.
///
/// Without `interrupt`, the caller handles Ctrl-C.
pub(crate) async fn follow(
    live: &mut Live,
    mut interrupt: Option<&mut Interrupt>,
    operator: &mut impl Operator,
) -> Result<u8, FollowError> {
    loop {
        if let Some(code) = operator.exit_code() {
            return Ok(code);
        }
        // Between the end of a run and `idle` nothing else is handled: input after the end is shown
        // must not be mistaken for input during the run.
        let accepts_input = !live.run_ended;
        tokio::select! { biased;
            () = pressed(&mut interrupt), if accepts_input => operator.interrupted(live).await?,
            next = live.next() => match next? {
                Next::Event(event) => live.show(&event, operator)?,
                Next::Idle => {
                    // More runs may have started and ended in the meantime.
                    live.show_arrived(operator).await?;
                    live.run_ended = false;
                    operator.idle(live).await?;
                }
            },
            input = operator.input(), if accepts_input => operator.handle(input, live).await?,
        }
    }
}

async fn pressed(interrupt: &mut Option<&mut Interrupt>) {
    match interrupt {
        Some(interrupt) => interrupt.pressed().await,
        None => std::future::pending().await,
    }
}
