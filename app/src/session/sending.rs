//! Inputs for a session that another process has open, and the run they cause, followed in its log.

use std::io::ErrorKind;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use loopwright_core::agent::{Environment, InputError, SystemEnvironment};
use loopwright_core::event::{AbortRequest, InputEvent, RunOutcome, RunStatus};
use loopwright_core::log::{Follower, InputReceipt, LogEntry, PostedInput, SessionInfo};
use loopwright_core::message::InputId;
use loopwright_core::{AgentEvent, AgentHandle, RunContext};
use tokio::time::Instant;

use super::agent::Built;
use super::open::Session;
use super::unattended::RunOutput;
use crate::error::StartError;
use crate::exit_code::{self, ABORTED, AWAITING_ACTION, FAILED};
use crate::interrupt::Interrupt;
use crate::output::{self, EventView, report_pending};

/// Interval between reads of the session's log and mailbox.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Interval between checks that a process has the session open.
const OWNER_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// An input for a session that another process may have open.
pub(crate) struct Sending<'s> {
    pub(crate) session: &'s Session,
    pub(crate) event: InputEvent,
    /// The name of the input in errors.
    pub(crate) what: &'static str,
    pub(crate) display: RunOutput,
    /// The id of the input, if it may have been posted.
    posted: Option<InputId>,
}

impl<'s> Sending<'s> {
    pub(crate) fn new(
        session: &'s Session,
        event: InputEvent,
        what: &'static str,
        display: RunOutput,
    ) -> Self {
        Sending { session, event, what, display, posted: None }
    }

    /// Posts the input if another process has the session open, shows the run until the session is
    /// idle, and returns the exit code. Returns `None` if no process has the session open, or no
    /// longer.
    pub(crate) async fn run_by_owner(&mut self) -> Result<Option<u8>, StartError> {
        let Sending { session, event, what, display, .. } = &*self;
        if session.info.is_none() || !has_owner(session).await? {
            return Ok(None);
        }
        let refused =
            |why: &dyn std::fmt::Display| StartError(format!("{what} was not accepted: {why}."));
        let id = self.posted.clone().unwrap_or_else(input_id);
        let input = PostedInput::new(id.clone(), event.clone()).map_err(|why| refused(&why))?;
        if display.verbosity.notes() {
            output::info("Another process has the session open and handles it.");
        }
        let mut log = OpenLog::of(session, *display).await?;
        let interrupt = Interrupt::listen()?;
        let mut next_check = Instant::now() + OWNER_CHECK_INTERVAL;
        loop {
            match session.store.post(&session.name, &input).await? {
                Some(InputReceipt::Accepted) => break,
                Some(InputReceipt::Refused(why)) => return Err(refused(&why)),
                None if Instant::now() < next_check => {}
                None if !has_owner(session).await? => {
                    self.posted = Some(id);
                    return Ok(None);
                }
                None => next_check = Instant::now() + OWNER_CHECK_INTERVAL,
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
        log.until_idle(&id, interrupt).await.map(Some)
    }

    /// Opens the session for an agent. If another process was faster and has handled the input,
    /// returns the exit code instead.
    pub(crate) async fn open(
        &mut self,
        built: &Built,
    ) -> Result<ControlFlow<u8, RunContext>, StartError> {
        loop {
            if let Some(context) = self.session.context_if_free(built).await? {
                return Ok(ControlFlow::Continue(context));
            }
            if let Some(code) = self.run_by_owner().await? {
                return Ok(ControlFlow::Break(code));
            }
        }
    }

    /// Sends the input to the session that was opened.
    pub(crate) async fn send(self, handle: &AgentHandle) -> Result<InputId, InputError> {
        match self.posted {
            Some(id) => handle.send_as(id, self.event).await,
            None => handle.send(self.event).await,
        }
    }
}

fn input_id() -> InputId {
    format!("i{:016x}", SystemEnvironment.random()).into()
}

async fn has_owner(session: &Session) -> Result<bool, StartError> {
    Ok(session.store.in_use(&session.name).await? == Some(true))
}

/// The log of a session, read from the start of the command.
struct OpenLog<'s> {
    session: &'s Session,
    display: RunOutput,
    follower: Follower,
    view: EventView,
    /// `true` once the input is in the log.
    has_input: bool,
    /// `true` if the input approves a call that needs more approvals.
    needs_more: bool,
    /// The outcome of the last run that ended after the input.
    outcome: Option<Arc<RunOutcome>>,
}

impl<'s> OpenLog<'s> {
    async fn of(session: &'s Session, display: RunOutput) -> Result<Self, StartError> {
        // The log has no deltas, so an answer is printed when it is complete.
        let display = RunOutput { streams: false, ..display };
        let mut follower = Follower::new(session.name.clone());
        follower.take(&session.store.read(&session.name, 0).await?);
        let view = display.view();
        Ok(OpenLog {
            session,
            display,
            follower,
            view,
            has_input: false,
            needs_more: false,
            outcome: None,
        })
    }

    /// Shows the events until the session is idle and a run has ended since the input. Returns the
    /// exit code. The first Ctrl-C aborts the run, the second one leaves.
    async fn until_idle(
        &mut self,
        input: &InputId,
        mut interrupt: Interrupt,
    ) -> Result<u8, StartError> {
        let mut is_aborting = false;
        let mut next_check = Instant::now() + OWNER_CHECK_INTERVAL;
        loop {
            let Session { store, name, .. } = self.session;
            let info = store.session(name).await?;
            let new = store.read(name, self.follower.entries()).await?;
            if let Err(why) = self.show(&new, input) {
                if why.kind() != ErrorKind::BrokenPipe {
                    output::error(&format!("Standard output cannot be written: {why}."));
                }
                return Ok(ABORTED);
            }
            let is_idle = info.run.is_none() && info.due.is_none();
            if let Some(outcome) = self.outcome.clone().filter(|_| is_idle && new.is_empty()) {
                return Ok(self.end(&outcome, &info));
            }
            if self.needs_more {
                self.report_pending(&info);
                return Ok(AWAITING_ACTION);
            }
            if Instant::now() >= next_check {
                if !has_owner(self.session).await? {
                    output::error(&format!(
                        "The process that had the session open has ended before the run did: \
                         `loopwright run --resume --session {}` continues it.",
                        output::quoted(name)
                    ));
                    return Ok(FAILED);
                }
                next_check = Instant::now() + OWNER_CHECK_INTERVAL;
            }
            tokio::select! { biased;
                () = interrupt.pressed() => {
                    if std::mem::replace(&mut is_aborting, true) {
                        return Ok(ABORTED);
                    }
                    self.abort(&info).await?;
                }
                () = tokio::time::sleep(POLL_INTERVAL) => {}
            }
        }
    }

    fn show(&mut self, entries: &[LogEntry], input: &InputId) -> std::io::Result<()> {
        for entry in entries {
            self.has_input |= entry.input() == Some(input);
            let is_approval = matches!(entry, LogEntry::Approved { .. });
            self.needs_more |= is_approval && entry.input() == Some(input);
            for event in self.follower.take(std::slice::from_ref(entry)) {
                if let (AgentEvent::AgentEnd(outcome), true) = (&event.event, self.has_input) {
                    self.outcome = Some(outcome.clone());
                }
                self.view.show(&event)?;
            }
        }
        Ok(())
    }

    /// Posts an abort of the run in progress.
    async fn abort(&self, info: &SessionInfo) -> Result<(), StartError> {
        let Some(run) = info.run else { return Ok(()) };
        let event = InputEvent::Abort(AbortRequest::new().run(run));
        let abort = PostedInput::new(input_id(), event);
        if let Ok(abort) = abort {
            self.session.store.post(&self.session.name, &abort).await?;
        }
        Ok(())
    }

    /// Prints the answer or the pending actions, and returns the exit code.
    fn end(&self, outcome: &RunOutcome, info: &SessionInfo) -> u8 {
        if let Err(why) = self.display.print_answer(outcome) {
            output::error(&format!("Standard output cannot be written: {why}."));
            return ABORTED;
        }
        if outcome.end == RunStatus::AwaitingAction {
            self.report_pending(info);
        }
        exit_code::of(outcome)
    }

    fn report_pending(&self, info: &SessionInfo) {
        if !info.pending.is_empty() && !self.display.json && self.display.verbosity.notes() {
            let actions: Vec<_> =
                info.pending.iter().map(|pending| pending.action.clone()).collect();
            report_pending(&actions, Some(&self.session.name));
        }
    }
}
