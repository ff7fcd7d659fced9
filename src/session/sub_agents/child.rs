//! The work of a sub-agent for one call, in its own task. The task opens the session, examines it,
//! and follows it until it has ended or only waits for decisions.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::{mpsc, oneshot};
use tokio::task::yield_now;
use tokio::time::{Instant, sleep};
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::error::{AgentError, InputError, MemoryError};
use crate::event::action::ExternalAction;
use crate::event::hub::{EventStream, Subscriber};
use crate::event::input::{AbortRequest, Decision, InputEvent, Prompt};
use crate::event::outcome::{RunOutcome, RunStatus};
use crate::event::{AgentEvent, Envelope};
use crate::hooks::{HookContext, ToolCallInfo};
use crate::log::calls::ChildDecision;
use crate::log::session_log::SessionLog;
use crate::log::turn::Used;
use crate::message::{CallId, ResultStatus};
use crate::session::handle::AgentHandle;
use crate::session::input::command::{Command, InputCommand};
use crate::session::request::layers::HookLayers;
use crate::session::state::Examined;
use crate::session::sub_agents::child_agent::{ChildAgent, Opening};
use crate::tool::{Outcome, Progress, ToolOutput};

/// The id of the input that contains the task. The session has no other request, so a task that was
/// sent before a crash is recognised.
const TASK: &str = "task";

/// Maximum wait for a session that another process has open. Longer than usual leases of sessions.
const IN_USE_TIMEOUT: Duration = Duration::from_secs(60);

/// Interval between attempts to open the session.
const IN_USE_INTERVAL: Duration = Duration::from_millis(100);

/// A message from the parent to a working sub-agent. Small, since a channel has room for many.
pub(crate) enum ToChild {
    Decide(Box<ChildDecision>),
    /// A steer for the sub-agent, or for a sub-agent of its own.
    Steer(Box<InputCommand>),
    Subscribe(Subscriber),
}

/// A report of a sub-agent to its parent.
pub(crate) enum ChildReport {
    Progress(Progress),
    /// An action became pending, as shown by the sub-agent's session.
    Awaits(Arc<ExternalAction>),
    /// The work is over until these actions are decided. The number counts the decisions sent to
    /// the sub-agent that it has recorded. Later decisions came while its session was being closed.
    Idle(Vec<Arc<ExternalAction>>, usize),
    /// The work is over, with this result of the call.
    Ended {
        status: ResultStatus,
        output: ToolOutput,
        used: Used,
    },
    /// The work is over, and a hook around the call panicked.
    HookPanicked(String, Used),
}

/// The result of a call whose sub-agent is stopped, unless the sub-agent ends by itself.
pub(crate) type Stopped = (ResultStatus, String);

/// The state of a sub-agent's session when it has nothing left to do.
enum State {
    Idle(Vec<Arc<ExternalAction>>, usize),
    Ended(Arc<RunOutcome>, Used),
    /// The sub-agent was stopped before it had its task.
    NotStarted,
    Failed(String, Used),
}

/// The work of a sub-agent for one call.
pub(crate) struct Work {
    pub(crate) agent: Arc<dyn ChildAgent>,
    pub(crate) opening: Opening,
    pub(crate) info: ToolCallInfo,
    pub(crate) hooks: HookLayers,
    pub(crate) cx: HookContext,
    /// The number of the sub-agent's current turn.
    pub(crate) turn: u32,
    /// Decisions that the session may not have yet.
    pub(crate) decisions: Vec<ChildDecision>,
    pub(crate) from_parent: mpsc::UnboundedReceiver<ToChild>,
    /// Cancelled to stop the sub-agent: its run is aborted.
    pub(crate) stop: CancellationToken,
    pub(crate) stopped: Arc<OnceLock<Stopped>>,
    pub(crate) reports: mpsc::UnboundedSender<(CallId, ChildReport)>,
}

impl Work {
    pub(crate) async fn run(mut self) {
        let orphaned = self.opening.tree.orphaned.clone().map(CancellationToken::drop_guard);
        let state = self.follow().await;
        orphaned.map(DropGuard::disarm);
        let report = match state {
            State::Idle(actions, recorded) => ChildReport::Idle(actions, recorded),
            State::Ended(outcome, used) => self.ended(&outcome, used).await,
            State::NotStarted => {
                let (status, why) = self.stopped.get().cloned().unwrap_or_else(|| {
                    (ResultStatus::Skipped, "Skipped before it started.".into())
                });
                let (output, used) = (ToolOutput::text(why), Used::default());
                ChildReport::Ended { status, output, used }
            }
            State::Failed(why, used) => {
                let (status, output) = (ResultStatus::Error, ToolOutput::text(why));
                ChildReport::Ended { status, output, used }
            }
        };
        self.report(report);
    }

    fn report(&self, report: ChildReport) {
        let _ = self.reports.send((self.info.call.clone(), report));
    }

    /// Passes the result through the hooks, unless the sub-agent is stopped, before or meanwhile.
    async fn ended(&self, outcome: &RunOutcome, used: Used) -> ChildReport {
        let session: Value = self.opening.session.to_string().into();
        let stopped = self.stopped.get().filter(|_| outcome.end == RunStatus::Aborted);
        let (status, text) = answer(outcome, stopped);
        let details = json!({ "session": session, "end": outcome.end, "value": outcome.value });
        let output = ToolOutput::text(text).details(details);
        if self.hooks.is_empty() || stopped.is_some() {
            return ChildReport::Ended { status, output, used };
        }
        let result = || async {
            yield_now().await; // so that a hook that runs the call for ever can be stopped
            Outcome::Result(status, output.clone())
        };
        let hooked = tokio::select! { biased;
            () = self.stop.cancelled() => {
                let (status, why) = self.stopped.get().cloned().unwrap_or_else(|| {
                    (ResultStatus::Aborted, "Aborted while its hooks worked.".into())
                });
                Outcome::Result(status, ToolOutput::text(why))
            }
            hooked = self.hooks.around_tool_call(&self.cx, &self.info, result) => hooked,
        };
        match hooked {
            Outcome::Result(status, output) => ChildReport::Ended { status, output, used },
            Outcome::HookPanicked(panic) => ChildReport::HookPanicked(panic, used),
            Outcome::Cancelled(_) | Outcome::Suspended(_) => {
                let (status, output) = (ResultStatus::Error, ToolOutput::default());
                ChildReport::Ended { status, output, used }
            }
        }
    }

    /// Works until the session has ended or waits, then closes it.
    async fn follow(&mut self) -> State {
        if self.stop.is_cancelled() && self.stored().await.is_none() {
            return State::NotStarted;
        }
        let (handle, mut events) = match self.open().await {
            Ok(opened) => opened,
            Err(error) => {
                let used = self.stored().await.unwrap_or_default();
                let why = format!("The session of the sub-agent could not be opened: {error}.");
                return State::Failed(why, used);
            }
        };
        let end = self.until_idle(&handle, &mut events).await;
        handle.close().await;
        match end {
            Some(end) => end,
            None => {
                let used = self.stored().await.unwrap_or_default();
                State::Failed("The session of the sub-agent has failed.".into(), used)
            }
        }
    }

    /// Opens the session, and waits if another process has it open. Only the root works in the
    /// session, so that process is about to leave: it had the root before, or only looks at the
    /// session.
    async fn open(&self) -> Result<(AgentHandle, EventStream), AgentError> {
        let until = Instant::now() + IN_USE_TIMEOUT;
        loop {
            match self.agent.open(self.opening.clone()).await {
                Err(AgentError::Memory(MemoryError::InUse(_))) if Instant::now() < until => {
                    sleep(IN_USE_INTERVAL).await;
                }
                opened => return opened,
            }
        }
    }

    /// Returns the stored usage of the session, or `None` without a session.
    async fn stored(&self) -> Option<Used> {
        let store = self.opening.tree.store.as_ref()?;
        let entries = store.read(&self.opening.session, 0).await.ok()?;
        Some(SessionLog::of(&entries).used())
    }

    /// Works until the session is idle. Returns `None` if the session has failed.
    async fn until_idle(
        &mut self,
        handle: &AgentHandle,
        events: &mut EventStream,
    ) -> Option<State> {
        let mut recorded = self.decisions.len();
        let mut is_aborted = self.stop.is_cancelled();
        if is_aborted {
            abort(handle);
        } else {
            let task = self.info.arguments["task"].as_str().unwrap_or_default();
            let request = InputEvent::UserRequest(Prompt::from(task)).with_id(TASK);
            let _ = handle.post(request, None).await;
            if examine(handle).await?.is_interrupted {
                drop(handle.post(InputEvent::Continue(None).into(), None));
            }
        }
        for decision in std::mem::take(&mut self.decisions) {
            decide(handle, decision).await;
        }
        loop {
            let mut idle = std::pin::pin!(handle.wait_for_idle());
            loop {
                tokio::select! { biased;
                    () = self.stop.cancelled(), if !is_aborted => {
                        is_aborted = true;
                        abort(handle);
                        break;
                    }
                    Some(message) = self.from_parent.recv() => {
                        recorded += usize::from(matches!(message, ToChild::Decide(_)));
                        pass_on(handle, message).await;
                        break;
                    }
                    event = events.next() => self.note(&*event?),
                    () = &mut idle => {
                        while let Some(event) = events.try_next() {
                            self.note(&event);
                        }
                        let mut is_new = false;
                        while let Ok(message) = self.from_parent.try_recv() {
                            is_new = true;
                            recorded += usize::from(matches!(message, ToChild::Decide(_)));
                            pass_on(handle, message).await;
                        }
                        if is_new || self.stop.is_cancelled() && !is_aborted {
                            break;
                        }
                        return state_of(examine(handle).await?, recorded);
                    }
                }
            }
        }
    }

    /// Reports an event that concerns the parent.
    fn note(&mut self, event: &Envelope) {
        let activity = match &event.event {
            AgentEvent::ExternalAction(action) => {
                return self.report(ChildReport::Awaits(action.clone()));
            }
            AgentEvent::TurnStart { turn } => {
                self.turn = *turn;
                format!("turn {turn}")
            }
            AgentEvent::ToolExecutionStart { name, .. } => format!("calls `{name}`"),
            _ => return,
        };
        self.report(ChildReport::Progress(Progress::new(self.turn.into(), None, activity)));
    }
}

/// Returns the status and the text of the call's result, after its sub-agent has ended.
fn answer(outcome: &RunOutcome, stopped: Option<&Stopped>) -> (ResultStatus, String) {
    let with_text = |why: String| match outcome.text.is_empty() {
        true => why,
        false => format!("{why}\nIts last reply:\n{}", outcome.text),
    };
    let error = outcome.error.as_deref().unwrap_or("it was stopped");
    match (outcome.end, stopped) {
        (_, Some((status, why))) => (*status, with_text(why.clone())),
        (RunStatus::Done, None) if outcome.limit.is_some() && outcome.value.is_none() => {
            let why = "The sub-agent has reached its limit before it was done.";
            (ResultStatus::Ok, with_text(why.into()))
        }
        (RunStatus::Done, None) => {
            let value = outcome.value.as_ref().map(|value| value.to_string());
            (ResultStatus::Ok, value.unwrap_or_else(|| outcome.text.clone()))
        }
        (RunStatus::Incomplete, None) => {
            (ResultStatus::Ok, with_text("The sub-agent's answer is incomplete.".into()))
        }
        (RunStatus::Limit, None) => {
            let why = format!("The sub-agent has reached a limit: {error}.");
            (ResultStatus::Error, with_text(why))
        }
        (RunStatus::Aborted, None) => {
            (ResultStatus::Aborted, with_text("The sub-agent was aborted.".into()))
        }
        (_, None) => (ResultStatus::Error, with_text(format!("The sub-agent failed: {error}."))),
    }
}

/// Returns the state of the work in an idle session, or `None` if its log cannot be written.
fn state_of(examined: Examined, recorded: usize) -> Option<State> {
    let Examined { is_interrupted, pending, outcome, used } = examined;
    if is_interrupted {
        return None;
    }
    Some(match outcome {
        _ if !pending.is_empty() => State::Idle(pending, recorded),
        Some(outcome) => State::Ended(outcome, used),
        None => State::NotStarted,
    })
}

async fn examine(handle: &AgentHandle) -> Option<Examined> {
    let (ack, examined) = oneshot::channel();
    let _ = handle.commands.send(Command::Examine(ack));
    examined.await.ok()
}

fn abort(handle: &AgentHandle) {
    drop(handle.post(InputEvent::Abort(AbortRequest::new()).into(), None));
}

/// Sends a decision, which the parent has already checked and acknowledged. If it no longer fits,
/// because the tools have changed, it becomes a denial.
async fn decide(handle: &AgentHandle, decision: ChildDecision) {
    let ChildDecision { input, mut result } = decision;
    let post =
        |result| handle.post(InputEvent::ExternalActionResult(result).with_id(input.clone()), None);
    use InputError::{BadArguments, BadDecision, NoTool};
    if let Ok(Err(why @ (BadArguments(_) | BadDecision(_) | NoTool(_)))) =
        post(result.clone()).await
    {
        result.decision = Decision::Deny(format!("the decision could not be carried out: {why}"));
        let _ = post(result).await;
    }
}

async fn pass_on(handle: &AgentHandle, message: ToChild) {
    match message {
        ToChild::Decide(decision) => decide(handle, *decision).await,
        ToChild::Subscribe(subscriber) => {
            let _ = handle.commands.send(Command::Subscribe(subscriber));
        }
        ToChild::Steer(input) => drop(handle.commands.send(Command::Input(input))),
    }
}
