//! [`Session`]: a session of a scenario, with an optional disturbance at one of its appends.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::event::{Envelope, EventStream, InputEvent, RunStatus};
use loopwright_core::log::{InMemory, LogEntry, MemoryError, SessionInfo, check_log};
use loopwright_core::testing::{
    CheckError, Gate, Script, ScriptedInput, ScriptedModel, TestClock, check_transcript,
};
use loopwright_core::{AgentBuilder, AgentHandle, Memory, RunContext, async_trait};

use super::scenario::Scenario;

/// The time without any progress after which a session fails. Under paused time it costs nothing.
const IDLE_TIMEOUT: Duration = Duration::from_secs(60);

/// The number of inputs and decisions after which a session fails.
const MAX_ROUNDS: usize = 1000;

/// A disturbance right after an append, before the session continues.
#[derive(Clone)]
pub(super) enum Disturbance {
    /// The arrival of an input.
    Input(InputEvent),
    /// A pause of the session.
    Pause(Pause),
}

/// A pause of a session. Others can wait for it and end it.
#[derive(Clone, Default)]
pub(super) struct Pause {
    pub(super) reached: Gate,
    pub(super) resume: Gate,
}

/// The condition on which a session stops before its end.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// All inputs were sent.
    End,
    /// The session is idle after the disturbance.
    Disturbed,
    /// A run has ended with a limit.
    Limit,
}

/// A session that runs a scenario.
pub(super) struct Session<'a> {
    scenario: &'a Scenario,
    model: ScriptedModel,
    handle: AgentHandle,
    events: EventStream,
    probe: Probe,
    clock: TestClock,
}

/// A session that ran to its end.
pub(super) struct Ended {
    pub(super) log: Vec<LogEntry>,
    /// The length of the log after each append.
    pub(super) appends: Vec<usize>,
    pub(super) events: Vec<Arc<Envelope>>,
    /// The replies to its requests.
    pub(super) played: Vec<Script>,
}

impl<'a> Session<'a> {
    /// Opens a session. The disturbance takes place after the append of that number.
    pub(super) async fn open(
        id: &str,
        scenario: &'a Scenario,
        builder: AgentBuilder,
        model: ScriptedModel,
        disturbance: Option<(usize, Disturbance)>,
    ) -> Result<Self, CheckError> {
        let clock = TestClock::default();
        let agent = builder.environment(clock.clone()).build();
        let agent = agent.map_err(|why| why.to_string())?;
        let probe = Probe::default();
        probe.state().disturbance = disturbance;
        let cx = RunContext::new().session(id).memory(probe.clone()).append_each();
        let (handle, events) = agent.run(cx).await.map_err(|why| why.to_string())?;
        probe.state().handle = Some(handle.clone());
        Ok(Session { scenario, model, handle, events, probe, clock })
    }

    /// Sends the inputs of the scenario, resolves its pending actions and lets its timers ring,
    /// until the session is idle and no input is left, or `until` holds. After an error of the
    /// model it sends `Continue`, once.
    pub(super) async fn run(&self, until: Until) -> Result<(), CheckError> {
        self.probe.state().unsent = self.scenario.session.inputs().iter().rev().cloned().collect();
        let ended = self.run_inputs(until).await;
        ended.map_err(|why| CheckError::new(why).log(&self.log()))
    }

    async fn run_inputs(&self, until: Until) -> Result<(), String> {
        let mut may_continue = true;
        for _ in 0..MAX_ROUNDS {
            let idle = tokio::time::timeout(IDLE_TIMEOUT, self.handle.wait_for_idle()).await;
            idle.map_err(|_| format!("the agent had not finished after {IDLE_TIMEOUT:?}"))?;
            let log = self.log();
            let is_over = match until {
                Until::End => false,
                Until::Disturbed => self.probe.state().disturbance.is_none(),
                Until::Limit => log.iter().any(|entry| ends_with(entry, RunStatus::Limit)),
            };
            let state = self.handle.state().await.map_err(|why| why.to_string())?;
            let sent = if is_over {
                return Ok(());
            } else if let Some(action) = state.pending_actions.first() {
                let decision = self.scenario.session.decision(action);
                self.handle.resolve(action, decision).await
            } else if may_continue && log.last().is_some_and(is_model_error) {
                may_continue = false;
                self.handle.send(InputEvent::Continue(None)).await
            } else if let Some(input) = self.probe.next_input(|_| true) {
                self.handle.send(input.event()).await
            } else if let Some(time) = SessionInfo::of("s", &log).wakes_at() {
                self.clock.advance_to(time).await;
                continue;
            } else {
                return Ok(());
            };
            sent.map_err(|why| format!("an input is refused: {why}"))?;
        }
        Err(format!("the session does not end: it was idle {MAX_ROUNDS} times"))
    }

    /// Returns the entries of the log.
    pub(super) fn log(&self) -> Vec<LogEntry> {
        self.probe.log.entries()
    }

    /// Withdraws the queued messages.
    pub(super) async fn clear_queues(&self) -> Result<(), CheckError> {
        let sent = self.handle.send(InputEvent::ClearQueues).await;
        sent.map(drop).map_err(|why| CheckError::new(format!("an input is refused: {why}")))
    }

    /// Sends a request of the user, and resolves pending actions until the session is idle.
    pub(super) async fn request(&self, text: &str) -> Result<(), CheckError> {
        let request = InputEvent::UserRequest(text.into());
        let sent = self.handle.send(request).await.map_err(|why| why.to_string());
        sent.map_err(|why| CheckError::new(format!("an input is refused: {why}")))?;
        let ended = self.run_inputs(Until::End).await;
        ended.map_err(|why| CheckError::new(why).log(&self.log()))
    }

    /// Replaces the replies of the model by the scenario's.
    pub(super) fn repeat_replies(&self) {
        self.model.set_replies(self.scenario.session.replies().iter().cloned());
    }

    /// Checks the rules that hold for every session, and returns its record.
    pub(super) async fn end(mut self) -> Result<Ended, CheckError> {
        let state = self.handle.state().await.map_err(|why| why.to_string())?;
        let log = self.log();
        let failed = |why: String| CheckError::new(why).log(&log);
        check_log(&log).map_err(failed)?;
        if state.pending_tool_calls.is_empty() {
            check_transcript(&state.messages).map_err(failed)?;
        }
        if let Some(why) = self.model.refused().first() {
            return Err(failed(format!("a malformed request was sent: {why}")));
        }
        let events = std::iter::from_fn(|| self.events.try_next()).collect();
        let appends = self.probe.state().appends.clone();
        Ok(Ended { log, appends, events, played: self.model.played() })
    }
}

/// Returns whether the entry ends a run with this status.
pub(super) fn ends_with(entry: &LogEntry, status: RunStatus) -> bool {
    matches!(entry, LogEntry::RunEnded { end, .. } if *end == status)
}

/// Returns whether the entry ends a run with an error of a model.
pub(super) fn is_model_error(entry: &LogEntry) -> bool {
    matches!(entry, LogEntry::RunEnded { model_error: Some(_), .. })
}

/// The memory of a session. It notes its appends, sends inputs whose condition holds, and disturbs
/// the session. Clones share the log.
#[derive(Clone, Default)]
struct Probe {
    log: InMemory,
    state: Arc<Mutex<ProbeState>>,
}

#[derive(Default)]
struct ProbeState {
    /// `None` until the session is open.
    handle: Option<AgentHandle>,
    /// The remaining inputs, the last one first.
    unsent: Vec<ScriptedInput>,
    /// The length of the log after each append.
    appends: Vec<usize>,
    disturbance: Option<(usize, Disturbance)>,
}

impl Probe {
    fn state(&self) -> MutexGuard<'_, ProbeState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next_input(&self, is_wanted: impl Fn(&ScriptedInput) -> bool) -> Option<ScriptedInput> {
        self.state().unsent.pop_if(|input| is_wanted(input))
    }

    /// Notes an append and returns its disturbance. After an abort, no inputs remain.
    fn note(&self, end: usize) -> Option<Disturbance> {
        let mut state = self.state();
        let number = state.appends.len();
        state.appends.push(end);
        let (_, disturbance) = state.disturbance.take_if(|(at, _)| *at == number)?;
        if let Disturbance::Input(InputEvent::Abort(_)) = &disturbance {
            state.unsent.clear();
        }
        Some(disturbance)
    }

    /// Sends an input without waiting for its receipt. The session's task receives it before the
    /// pattern continues.
    async fn send(&self, event: InputEvent) {
        let Some(handle) = self.state().handle.clone() else { return };
        tokio::select! { biased;
            _ = handle.send(event) => {}
            () = std::future::ready(()) => {}
        }
        tokio::task::yield_now().await;
    }
}

#[async_trait]
impl Memory for Probe {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.log.append(at, entries.clone()).await?;
        if entries.is_empty() {
            return Ok(());
        }
        match self.note(at as usize + entries.len()) {
            Some(Disturbance::Input(event)) => self.send(event).await,
            Some(Disturbance::Pause(pause)) => {
                pause.reached.open();
                pause.resume.wait().await;
            }
            None => {}
        }
        if let Some(input) = self.next_input(|input| input.is_due(&entries)) {
            self.send(input.event()).await;
        }
        Ok(())
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }
}
