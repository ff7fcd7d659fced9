//! The work of a sub-agent for one call, in a task of its own: its session is opened, examined,
//! and followed until it has ended or only waits for decisions.

use std::sync::Arc;

use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::InputError;
use crate::log::action::ExternalAction;
use crate::log::event::{AgentEvent, Envelope};
use crate::log::input::{AbortRequest, ActionResult, Decision, InputEvent, Prompt};
use crate::log::outcome::RunOutcome;
use crate::log::session_log::SessionLog;
use crate::log::turn::Used;
use crate::message::{CallId, InputId};
use crate::session::child_agent::{ChildAgent, Opening};
use crate::session::command::{Command, Input};
use crate::session::handle::AgentHandle;
use crate::session::hub::{EventStream, Subscriber};
use crate::session::state::Examined;
use crate::tool::Progress;

/// The id of the input that contains the task. The session has no other request, so a task that
/// was sent before a crash is known.
const TASK: &str = "task";

/// What the parent sends to a sub-agent that works.
pub(crate) enum ToChild {
    Decide(ActionResult),
    /// A steer for it, or for the sub-agent of its own that works for this call.
    Steer(Option<Arc<str>>, Box<Input>),
    Subscribe(Subscriber),
}

/// What the work of a sub-agent reports to the parent.
pub(crate) enum ChildReport {
    Progress(Progress),
    /// An action became pending, as the sub-agent's session shows it.
    Awaits(Arc<ExternalAction>),
    /// The work is over until these actions are decided. The sub-agent has recorded all decisions
    /// that it was sent.
    Idle(Vec<Arc<ExternalAction>>),
    /// The work is over.
    Ended(Arc<RunOutcome>, Used),
    /// It was stopped before it had its task.
    NotStarted,
    /// Its session failed.
    Failed(String, Used),
}

/// The work of a sub-agent for one call.
pub(crate) struct Work {
    pub(crate) agent: Arc<dyn ChildAgent>,
    pub(crate) opening: Opening,
    pub(crate) call: CallId,
    pub(crate) task: Arc<str>,
    /// The decisions that its session may not have.
    pub(crate) decisions: Vec<ActionResult>,
    pub(crate) from_parent: mpsc::UnboundedReceiver<ToChild>,
    /// Cancelled when it is to stop: its run is aborted then.
    pub(crate) stop: CancellationToken,
    pub(crate) reports: mpsc::UnboundedSender<(CallId, ChildReport)>,
}

impl Work {
    pub(crate) async fn run(mut self) {
        let orphaned = self.opening.tree.orphaned.clone().drop_guard();
        let end = self.follow().await;
        orphaned.disarm();
        self.report(end);
    }

    fn report(&self, report: ChildReport) {
        let _ = self.reports.send((self.call.clone(), report));
    }

    /// Works until the session has ended or waits, and closes it.
    async fn follow(&mut self) -> ChildReport {
        if self.stop.is_cancelled() && self.stored().await.is_none() {
            return ChildReport::NotStarted;
        }
        let (handle, mut events) = match self.agent.open(self.opening.clone()).await {
            Ok(opened) => opened,
            Err(error) => {
                let used = self.stored().await.unwrap_or_default();
                let why = format!("The session of the sub-agent could not be opened: {error}.");
                return ChildReport::Failed(why, used);
            }
        };
        let end = self.until_idle(&handle, &mut events).await;
        drop(handle);
        while events.next().await.is_some() {} // until its memory is released
        match end {
            Some(end) => end,
            None => {
                let used = self.stored().await.unwrap_or_default();
                ChildReport::Failed("The session of the sub-agent has failed.".into(), used)
            }
        }
    }

    /// Returns what the session has used, as it is stored, or `None` without a session.
    async fn stored(&self) -> Option<Used> {
        let store = self.opening.tree.store.as_ref()?;
        let entries = store.read(&self.opening.session, 0).await.ok()?;
        Some(SessionLog::of(&entries).used())
    }

    /// Returns `None` if the session has failed.
    async fn until_idle(
        &mut self,
        handle: &AgentHandle,
        events: &mut EventStream,
    ) -> Option<ChildReport> {
        let mut is_aborted = self.stop.is_cancelled();
        if is_aborted {
            abort(handle);
        } else {
            let mut prompt = Prompt::from(&*self.task);
            prompt.id = Some(InputId::from(TASK));
            let _ = handle.post(InputEvent::UserRequest(prompt), None).await;
            if examine(handle).await?.is_interrupted {
                drop(handle.post(InputEvent::Continue(None), None));
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
                            pass_on(handle, message).await;
                        }
                        if is_new || self.stop.is_cancelled() && !is_aborted {
                            break;
                        }
                        return state_of(examine(handle).await?);
                    }
                }
            }
        }
    }

    /// Reports what an event means for the parent.
    fn note(&self, event: &Envelope) {
        let progress = |what: String| {
            ChildReport::Progress(Progress::new(u64::from(event.run_id.0 > 0), None, what))
        };
        match &event.event {
            AgentEvent::ExternalAction(action) => self.report(ChildReport::Awaits(action.clone())),
            AgentEvent::TurnStart { turn } => self.report(progress(format!("turn {turn}"))),
            AgentEvent::ToolExecutionStart { name, .. } => {
                self.report(progress(format!("calls `{name}`")));
            }
            _ => {}
        }
    }
}

/// Returns how the work stands in an idle session, or `None` if its log cannot be written.
fn state_of(examined: Examined) -> Option<ChildReport> {
    let Examined { is_interrupted, pending, outcome, used } = examined;
    if is_interrupted {
        return None;
    }
    Some(match outcome {
        _ if !pending.is_empty() => ChildReport::Idle(pending),
        Some(outcome) => ChildReport::Ended(outcome, used),
        None => ChildReport::NotStarted,
    })
}

async fn examine(handle: &AgentHandle) -> Option<Examined> {
    let (ack, examined) = oneshot::channel();
    let _ = handle.commands.send(Command::Examine(ack));
    examined.await.ok()
}

fn abort(handle: &AgentHandle) {
    drop(handle.post(InputEvent::Abort(AbortRequest::new()), None));
}

/// Sends a decision. The parent has checked it and acknowledged it, so one that does not fit after
/// all, because the tools are others by now, becomes a denial.
async fn decide(handle: &AgentHandle, decision: ActionResult) {
    let denial = |why: &InputError| {
        let mut denial = decision.clone();
        denial.decision = Decision::Deny(format!("the decision could not be carried out: {why}"));
        denial
    };
    let sent = handle.post(InputEvent::ExternalActionResult(decision.clone()), None).await;
    use InputError::{BadArguments, BadDecision, NoTool};
    if let Ok(Err(why @ (BadArguments(_) | BadDecision(_) | NoTool(_)))) = sent {
        let _ = handle.post(InputEvent::ExternalActionResult(denial(&why)), None).await;
    }
}

async fn pass_on(handle: &AgentHandle, message: ToChild) {
    match message {
        ToChild::Decide(decision) => decide(handle, decision).await,
        ToChild::Subscribe(subscriber) => {
            let _ = handle.commands.send(Command::Subscribe(subscriber));
        }
        ToChild::Steer(None, input) => drop(handle.commands.send(Command::Input(input))),
        ToChild::Steer(Some(call), input) => {
            drop(handle.commands.send(Command::SteerTo(call, input)));
        }
    }
}
