//! A run without a user: shown until the session is idle, with pending actions left open.

use std::convert::Infallible;
use std::future::pending;
use std::io::{self, ErrorKind};

use loopwright_core::event::{IncompleteReply, RunOutcome, RunStatus};
use loopwright_core::{AgentEvent, AgentHandle, EventStream};
use loopwright_patterns::GoalEnd;

use super::follow::{FollowError, Live, Operator, follow};
use super::open::Session;
use crate::environment::started_as;
use crate::exit_code::{self, ABORTED, FAILED};
use crate::interrupt::Interrupt;
use crate::output::{self, EventView, Printer, Verbosity, report_pending};

/// The way in which a run is shown.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RunOutput {
    /// Each event is printed as a line of JSON.
    pub(crate) json: bool,
    pub(crate) verbosity: Verbosity,
    /// The answer is printed while it streams; otherwise alone, when it is complete.
    pub(crate) streams: bool,
}

impl RunOutput {
    fn streams(self) -> bool {
        self.streams && self.verbosity.notes()
    }

    pub(super) fn view(self) -> EventView {
        match self.json {
            true => EventView::Json(self.verbosity),
            false => EventView::Text(Printer::with(self.verbosity, self.streams())),
        }
    }

    /// Prints the answer, if it has not streamed.
    pub(super) fn print_answer(self, outcome: &RunOutcome) -> io::Result<()> {
        if self.json
            || self.streams()
            || !matches!(outcome.end, RunStatus::Done | RunStatus::Sleeping | RunStatus::Incomplete)
        {
            return Ok(());
        }
        match &outcome.value {
            Some(value) => output::json_line(value),
            None if outcome.incomplete == Some(IncompleteReply::Empty) => Ok(()),
            None => output::text(&outcome.text),
        }
    }
}

/// Shows a session until it is idle, and returns the exit code. Ctrl-C aborts the run.
///
/// Pending actions are listed on standard error.
///
/// Failures are printed and have an exit code.
pub(crate) async fn run_unattended(
    handle: AgentHandle,
    events: EventStream,
    interrupt: Interrupt,
    display: RunOutput,
    session: &Session,
) -> u8 {
    // The log of another process's session has no deltas: its answer is printed when complete.
    let streams = display.streams && !handle.is_attached();
    let display = RunOutput { streams, ..display };
    // A separate task handles Ctrl-C even while a write to standard output blocks.
    tokio::spawn(abort_on_interrupt(interrupt, handle.clone()));
    let mut live = Live::new(handle, events, session.store.clone(), display.view());
    let mut operator = Unattended { exit_code: None, goal: None };
    let done = match follow(&mut live, None, &mut operator).await {
        Ok(_) if has_left_work(&mut live, session).await => return ended_early(&live, session),
        Ok(code) => match live.outcome() {
            Some(outcome) => display.print_answer(outcome).map(|()| code),
            None => Ok(code),
        },
        Err(FollowError::Output(why)) => Err(why),
        Err(FollowError::Session(_)) => return ended_early(&live, session),
    };
    let code = match done {
        Ok(code) => code,
        Err(why) => return cannot_write(&live, &why).await,
    };
    let awaits = live.outcome().is_some_and(|last| last.end == RunStatus::AwaitingAction);
    if awaits && !display.json && display.verbosity.notes() {
        let actions = session.pending(&live.handle).await;
        if !actions.is_empty() {
            report_pending(&actions, session.is_stored.then_some(&*session.name));
        }
    }
    code
}

/// Returns whether the process that had the session open has left work: then the run that has
/// ended may be an earlier one than the input's.
async fn has_left_work(live: &mut Live, session: &Session) -> bool {
    if !live.handle.is_attached() || !live.has_moved().await {
        return false;
    }
    let info = session.store.session(&session.name).await;
    info.is_ok_and(|info| info.run.is_some() || info.due.is_some())
}

/// Reports that standard output cannot be written, and returns the exit code. Aborts the run,
/// unless it belongs to another process.
async fn cannot_write(live: &Live, why: &io::Error) -> u8 {
    let aborted = match live.handle.is_attached() {
        true => "",
        false => {
            let _ = live.handle.abort().await;
            live.handle.wait_for_idle().await;
            " The run was aborted."
        }
    };
    if why.kind() != ErrorKind::BrokenPipe {
        output::error(&format!("Standard output cannot be written: {why}.{aborted}"));
    }
    ABORTED
}

/// Reports that a session has ended before its run, and returns the exit code. Another process can
/// continue the run of an owner that is gone.
fn ended_early(live: &Live, session: &Session) -> u8 {
    let how = match live.handle.is_attached() {
        true => format!(
            " `{} run --resume --session {}` continues it.",
            started_as(),
            output::quoted(&session.name)
        ),
        false => String::new(),
    };
    output::error(&format!("The session ended before the run did.{how}"));
    FAILED
}

/// Aborts the run on the first Ctrl-C, and ends the process on the second one.
async fn abort_on_interrupt(mut interrupt: Interrupt, handle: AgentHandle) {
    interrupt.pressed().await;
    tokio::join!(handle.abort(), async {
        interrupt.pressed().await;
        std::process::exit(ABORTED.into())
    });
}

/// An operator that leaves when the session is idle.
struct Unattended {
    exit_code: Option<u8>,
    /// The last end of the work toward a goal.
    goal: Option<GoalEnd>,
}

impl Operator for Unattended {
    type Input = Infallible;

    fn exit_code(&self) -> Option<u8> {
        self.exit_code
    }

    fn observe(&mut self, event: &AgentEvent) {
        match event {
            AgentEvent::AgentStart { .. } => self.goal = None,
            event => self.goal = GoalEnd::of(event).or(self.goal.take()),
        }
    }

    async fn input(&mut self) -> Infallible {
        pending().await
    }

    async fn handle(&mut self, input: Infallible, _: &mut Live) -> Result<(), FollowError> {
        match input {}
    }

    async fn interrupted(&mut self, _: &mut Live) -> Result<(), FollowError> {
        Ok(())
    }

    async fn idle(&mut self, live: &mut Live) -> Result<(), FollowError> {
        let goal = self.goal.as_ref();
        self.exit_code = live.outcome().map(|outcome| exit_code::of(outcome, goal));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use loopwright_core::GenericAgent;
    use loopwright_core::agent::{InputError, attach};
    use loopwright_core::log::InMemoryStore;
    use loopwright_core::testing::{Script, ScriptedModel};
    use loopwright_patterns::PiPattern;

    use super::*;

    /// The outcome of an earlier run is not shown as the input's, if the owner leaves between them.
    #[tokio::test]
    async fn work_that_an_owner_leaves_is_noticed() {
        let model = ScriptedModel::new([Script::text("One."), Script::text("Two.")]);
        let agent = GenericAgent::builder(model, PiPattern).build().unwrap();
        let store = InMemoryStore::new();
        let session = Session {
            store: Arc::new(store.clone()),
            name: "s".into(),
            info: None,
            is_stored: true,
        };
        let display = RunOutput { json: false, verbosity: Verbosity::Quiet, streams: false };
        for leaves_work in [true, false] {
            let owner = agent.open(&store, "s").await.unwrap();
            owner.wait_for_idle().await;
            owner.follow_up("Later.").await.unwrap();
            let (guest, events) = attach(&store, "s").await.unwrap();
            let mut live = Live::new(guest.clone(), events, session.store.clone(), display.view());
            owner.close().await;
            if leaves_work {
                assert_eq!(guest.prompt("Hello.").await, Err(InputError::Moved));
            } else {
                guest.wait_for_idle().await; // until the owner is known to have left
            }
            assert_eq!(has_left_work(&mut live, &session).await, leaves_work);
        }
    }
}
