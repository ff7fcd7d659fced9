//! [`AgentHandle`], the host's side of a session.

use std::sync::Arc;

use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::compaction::Compaction;
use crate::error::InputError;
use crate::event::action::ExternalAction;
use crate::event::hub::{EventStream, Scope, Subscriber};
use crate::event::input::{
    AbortRequest, ActionResult, Decision, Input, InputEvent, Prompt, Provided,
};
use crate::event::outcome::RunOutcome;
use crate::message::{CallId, InputId, RunId};
use crate::session::input::command::{Ack, Caller, Command, InputCommand, Receipt};
use crate::session::state::AgentState;

type Outcome = Result<RunOutcome, InputError>;

/// A handle to an open session, for sending inputs and reading its state.
///
/// Clones refer to the same session. When the last clone is dropped, the session ends after the run
/// in progress.
///
/// # Contract
///
/// Inputs of one handle are handled in the order of the calls. A method that changes something
/// resolves when the change is durable. If it fails, nothing has changed. If its future is dropped,
/// the input is still sent, and only its receipt is lost.
///
/// After the session has ended, methods fail with [`InputError::Gone`]. If another process takes
/// over the session, waiting methods fail with [`InputError::Moved`], or with
/// [`InputError::Memory`] if the loss was noticed because the input could not be recorded.
///
/// ```
/// use loopwright_core::GenericAgent;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Once;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         step.ask().await?.finish()
/// #     }
/// # }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([Script::text("Good morning.")]);
/// let agent = GenericAgent::builder(model, Once).build()?;
/// let handle = agent.session().await?;
/// let outcome = handle.prompt("Hello").await?;
/// assert_eq!(outcome.text, "Good morning.");
/// assert_eq!(handle.state().await?.messages.len(), 2);
/// # Ok(()) }
/// ```
#[derive(Clone)]
pub struct AgentHandle {
    id: Arc<str>,
    pub(crate) commands: mpsc::UnboundedSender<Command>,
    /// Cancelled when the session is closed.
    closed: CancellationToken,
    is_attached: bool,
}

impl AgentHandle {
    /// Starts the task of a session, and returns a handle to it.
    pub(crate) fn spawn(
        id: Arc<str>,
        commands: mpsc::UnboundedSender<Command>,
        is_attached: bool,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> AgentHandle {
        let closed = CancellationToken::new();
        let guard = closed.clone().drop_guard();
        tokio::spawn(async move {
            task.await;
            drop(guard);
        });
        AgentHandle { id, commands, closed, is_attached }
    }

    /// Returns the name of the session.
    pub fn id(&self) -> &Arc<str> {
        &self.id
    }

    /// Subscribes to the events from here on. Dropping the stream unsubscribes.
    pub fn subscribe(&self) -> EventStream {
        let (subscriber, stream) = Subscriber::new(Scope::Session);
        let _ = self.commands.send(Command::Subscribe(subscriber));
        stream
    }

    /// Subscribes to the events of the session and of its sub-agents, at any depth, from here on.
    /// [`Envelope::session_id`](crate::event::Envelope::session_id) and
    /// [`Envelope::parent`](crate::event::Envelope::parent) identify the session of an event. Each
    /// session numbers its own events.
    pub fn subscribe_tree(&self) -> EventStream {
        let (subscriber, stream) = Subscriber::new(Scope::Tree);
        let _ = self.commands.send(Command::Subscribe(subscriber));
        stream
    }

    /// Subscribes a reader that has missed earlier events.
    ///
    /// The stream begins with the events that are not in the log yet, merged: the reply in progress
    /// from its `message_start`, and the output of running tools. The number is the current length
    /// of the session's log. Its entries give the earlier events
    /// ([`SessionLog::events_after`](crate::log::SessionLog::events_after)), without gap or
    /// overlap.
    pub async fn join(&self) -> Result<(u64, EventStream), InputError> {
        self.join_as(Scope::Session).await
    }

    /// Subscribes a reader that has missed earlier events, like [`AgentHandle::join`]. From here
    /// on, the stream includes the events of sub-agents, like [`AgentHandle::subscribe_tree`].
    pub async fn join_tree(&self) -> Result<(u64, EventStream), InputError> {
        self.join_as(Scope::Tree).await
    }

    async fn join_as(&self, scope: Scope) -> Result<(u64, EventStream), InputError> {
        let (subscriber, stream) = Subscriber::new(scope);
        let (ack, joined) = oneshot::channel();
        let _ = self.commands.send(Command::Join(subscriber, ack));
        Ok((joined.await.map_err(|_| InputError::Gone)?, stream))
    }

    /// Sends a request and waits until its run has ended. A run that ends in an error is `Ok`: its
    /// outcome contains the error.
    ///
    /// If the run cannot start because calls of an earlier request wait for a decision, the request
    /// stays queued, and the outcome is
    /// [`RunStatus::AwaitingAction`](crate::event::RunStatus::AwaitingAction).
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::Busy`] while a run is in progress.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<RunOutcome, InputError> {
        self.run(InputEvent::UserRequest(prompt.into())).await
    }

    /// Sends a request or a continuation, and waits until its run has ended, like
    /// [`AgentHandle::prompt`] and [`AgentHandle::continue_run`]. With an id
    /// ([`InputEvent::with_id`](crate::event::InputEvent::with_id)), it starts one run even if it
    /// is sent again.
    ///
    /// # Errors
    ///
    /// Fails with
    ///
    /// - [`InputError::Busy`] while a run is in progress,
    /// - [`InputError::Known`] if an input with this id was accepted before,
    /// - [`InputError::AlreadyRefused`] if it was refused before: a new attempt needs a new id,
    /// - [`InputError::NothingToContinue`] if there is nothing to continue,
    /// - [`InputError::StartsNoRun`] for other events.
    pub async fn run(&self, input: impl Into<Input>) -> Result<RunOutcome, InputError> {
        let outcome = self.start(input.into(), None).await?;
        outcome.await.unwrap_or(Err(InputError::Gone))
    }

    /// Sends a request or a continuation, and returns the events of its run. The last one is
    /// `agent_end`.
    ///
    /// # Errors
    ///
    /// Fails like [`AgentHandle::run`].
    pub async fn run_stream(&self, input: impl Into<Input>) -> Result<EventStream, InputError> {
        let (subscriber, stream) = Subscriber::new(Scope::Run);
        self.start(input.into(), Some(subscriber)).await?;
        Ok(stream)
    }

    /// Sends a request and returns the events of its run. The last one is `agent_end`. See
    /// [`AgentHandle::run_stream`].
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::Busy`] while a run is in progress.
    pub async fn prompt_stream(
        &self,
        prompt: impl Into<Prompt>,
    ) -> Result<EventStream, InputError> {
        self.run_stream(InputEvent::UserRequest(prompt.into())).await
    }

    /// Continues from the end of the conversation: after an error, an interruption, or with queued
    /// messages. Waits until the run has ended.
    pub async fn continue_run(&self) -> Result<RunOutcome, InputError> {
        self.run(InputEvent::Continue(None)).await
    }

    /// Sends any input and returns its id: the client's, or a new one. A request that is sent
    /// during a run is queued, up to 32. `Compact` resolves when the compaction is done.
    ///
    /// An input that may arrive twice needs a client's id
    /// ([`InputEvent::with_id`](crate::event::InputEvent::with_id)): if an input with this id was
    /// accepted before, even before a restart, it is acknowledged and nothing changes. Without one,
    /// `Reset`, `ClearQueues`, `Compact`, `Continue` without a message, and an abort while idle get
    /// an id that a later input may get too.
    pub async fn send(&self, input: impl Into<Input>) -> Result<InputId, InputError> {
        Ok(self.input(input).await?.id)
    }

    /// Sends a message that should change the run in progress. While idle it is queued for the next
    /// run.
    pub async fn steer(&self, prompt: impl Into<Prompt>) -> Result<InputId, InputError> {
        self.send(InputEvent::Steer(prompt.into())).await
    }

    /// Sends a message to the sub-agent that works for this call, to change its run in progress.
    /// For a sub-agent of a sub-agent, `call` consists of both calls, joined by `~`, as in
    /// [`ExternalAction::call`].
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::NoSubAgent`] if no sub-agent works for the call now.
    pub async fn steer_to(
        &self,
        call: impl Into<CallId>,
        prompt: impl Into<Prompt>,
    ) -> Result<InputId, InputError> {
        self.send(InputEvent::SteerTo { call: call.into(), prompt: prompt.into() }).await
    }

    /// Sends a message that is delivered when the agent would otherwise stop.
    pub async fn follow_up(&self, prompt: impl Into<Prompt>) -> Result<InputId, InputError> {
        self.send(InputEvent::FollowUp(prompt.into())).await
    }

    /// Sends a signal to the pattern, which takes it when it
    /// [waits for an event](crate::StepContext::wait_for_event) under this key, now or later.
    /// Resolves when the signal is durable. To send one that may arrive twice, use
    /// [`AgentHandle::send`] with an id.
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::BadSignal`] if the key is empty or has more than 256 bytes, or if
    /// the value has more than 64 KiB of JSON. Fails with [`InputError::SignalsFull`] if the
    /// pattern does not wait for it, and 100 signals are kept already.
    pub async fn signal(
        &self,
        key: impl Into<Arc<str>>,
        value: impl Into<Value>,
    ) -> Result<InputId, InputError> {
        self.send(InputEvent::Signal { key: key.into(), value: value.into() }).await
    }

    /// Stops the run in progress. Queued messages are returned in `agent_end`. While idle, open
    /// calls get the result "aborted", and the waits of a sleeping agent are removed. Resolves
    /// when the abort is durable; [`AgentHandle::wait_for_idle`] waits for the end of the run.
    pub async fn abort(&self) -> Result<(), InputError> {
        self.input(InputEvent::Abort(AbortRequest::new())).await.map(drop)
    }

    /// Stops this run as [`AgentHandle::abort`] does. If it has already ended, the next run is not
    /// stopped. The run of an event is [`Envelope::run_id`](crate::event::Envelope::run_id).
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::NothingToAbort`] if the run is not in progress, waits for no
    /// decision, and the agent does not sleep after it.
    pub async fn abort_run(&self, run: RunId) -> Result<(), InputError> {
        self.input(InputEvent::Abort(AbortRequest::new().run(run))).await.map(drop)
    }

    /// Aborts the run and starts an empty conversation. Returns the texts of queued requests,
    /// steers and follow-ups.
    pub async fn reset(&self) -> Result<Vec<String>, InputError> {
        Ok(self.input(InputEvent::Reset).await?.withdrawn)
    }

    /// Withdraws queued steers and follow-ups, and returns their texts.
    pub async fn clear_queues(&self) -> Result<Vec<String>, InputError> {
        Ok(self.input(InputEvent::ClearQueues).await?.withdrawn)
    }

    /// Replaces older messages with a summary that follows these instructions. Returns the
    /// replacements, or an empty list if there is nothing to replace.
    ///
    /// While idle, this is a separate run without a reply, and the counters of the limits start
    /// over. During a run, it happens before the next request, or right after the run. A tool or a
    /// hook of the same session must not await it: it would wait for itself.
    ///
    /// Messages that are too long for one summary can be replaced in parts. If a later part fails
    /// or is interrupted, the earlier ones stay replaced and are returned. Messages that the policy
    /// plans to leave out without a summary are left out: see [`Compaction::summarised`].
    ///
    /// # Errors
    ///
    /// Fails with [`InputError::NoCompaction`] if the agent has no
    /// [policy](crate::AgentBuilder::compaction). Fails with [`InputError::NotCompacted`] while
    /// calls wait for a decision or an interrupted run is open, or if the first summary fails or is
    /// interrupted; nothing has changed then.
    pub async fn compact(
        &self,
        instructions: Option<&str>,
    ) -> Result<Vec<Arc<Compaction>>, InputError> {
        let event = InputEvent::Compact(instructions.map(str::to_owned));
        Ok(self.input(event).await?.compacted)
    }

    /// Returns the pending actions.
    pub async fn pending(&self) -> Result<Vec<ExternalAction>, InputError> {
        Ok(self.state().await?.pending_actions)
    }

    /// Lets a pending call run, once, with the arguments that were shown. See
    /// [`AgentHandle::resolve`].
    pub async fn approve(&self, action: &ExternalAction) -> Result<InputId, InputError> {
        self.resolve(action, Decision::Approve).await
    }

    /// Refuses a pending action. The model gets the reason, which may be empty. See
    /// [`AgentHandle::resolve`].
    pub async fn deny(
        &self,
        action: &ExternalAction,
        reason: impl Into<String>,
    ) -> Result<InputId, InputError> {
        self.resolve(action, Decision::Deny(reason.into())).await
    }

    /// Provides the input that a pending action asks for. See [`AgentHandle::resolve`].
    pub async fn answer(
        &self,
        action: &ExternalAction,
        value: impl Into<Value>,
    ) -> Result<InputId, InputError> {
        self.resolve(action, Decision::Provide(Provided::Input(value.into()))).await
    }

    /// Resolves a pending action as it was shown. When every call of the batch is resolved, the
    /// run resumes.
    ///
    /// # Errors
    ///
    /// Fails with
    ///
    /// - [`InputError::NotPending`] if the call is not pending,
    /// - [`InputError::DigestDiffers`] if its arguments differ from the shown ones,
    /// - [`InputError::BadArguments`] or [`InputError::BadDecision`] if the decision does not fit
    ///   the action.
    ///
    /// A refused decision changes nothing.
    pub async fn resolve(
        &self,
        action: &ExternalAction,
        decision: Decision,
    ) -> Result<InputId, InputError> {
        let result = ActionResult::new(action.call.clone(), action.digest.clone(), decision);
        self.send(result).await
    }

    /// Closes the session after the run in progress, and waits until its memory is released:
    /// another process can open the session then. What was sent before is handled first. Other
    /// handles of the session fail with [`InputError::Gone`] from here on. If the future is
    /// dropped, the session closes all the same.
    ///
    /// An attached handle only detaches: the process that has the session open keeps it, and
    /// handles what was posted.
    ///
    /// [Abort](AgentHandle::abort) a run first that must not be waited for. A tool or a hook of the
    /// same session that awaits this waits for itself.
    pub async fn close(&self) {
        let _ = self.commands.send(Command::Close);
        self.closed.cancelled().await;
    }

    /// Returns whether the session has ended, so that all methods fail: it was closed, or has
    /// [moved](crate::event::StreamEnd::Moved) to another process.
    pub fn has_ended(&self) -> bool {
        self.commands.is_closed()
    }

    /// Returns whether the handle is [attached](crate::agent::attach) to a session that
    /// another process has open.
    pub fn is_attached(&self) -> bool {
        self.is_attached
    }

    /// Waits until no run is in progress and none is about to start, after all earlier inputs of
    /// this handle.
    pub async fn wait_for_idle(&self) {
        let (ack, idle) = oneshot::channel();
        let _ = self.commands.send(Command::Idle(ack));
        let _ = idle.await;
    }

    /// Records in the session's log that this process is about to end, if the session has work. The
    /// end of the process then does not count towards holding the work, unless the work progresses
    /// first.
    pub fn note_end(&self) {
        let _ = self.commands.send(Command::NoteLeft);
    }

    /// Returns a snapshot of the session.
    pub async fn state(&self) -> Result<AgentState, InputError> {
        let (ack, state) = oneshot::channel();
        let _ = self.commands.send(Command::State(ack));
        state.await.map_err(|_| InputError::Gone)
    }

    /// Sends an input at once. Its receipt can be awaited.
    pub(crate) fn post(
        &self,
        input: Input,
        caller: Option<Caller>,
    ) -> oneshot::Receiver<Result<Receipt, InputError>> {
        let Input { id, event } = input;
        let (ack, receipt) = oneshot::channel();
        let input = Box::new(InputCommand { event, id, ack, caller, received: None, waits: false });
        let _ = self.commands.send(Command::Input(input));
        receipt
    }

    async fn input(&self, input: impl Into<Input>) -> Result<Receipt, InputError> {
        self.post(input.into(), None).await.unwrap_or(Err(InputError::Gone))
    }

    /// Sends an input that starts a run. On return it is durable.
    async fn start(
        &self,
        input: Input,
        stream: Option<Subscriber>,
    ) -> Result<oneshot::Receiver<Outcome>, InputError> {
        if !matches!(input.event, InputEvent::UserRequest(_) | InputEvent::Continue(_)) {
            return Err(InputError::StartsNoRun);
        }
        let (ack, outcome): (Ack<Outcome>, _) = oneshot::channel();
        let caller = Caller { outcome: ack, stream };
        self.post(input, Some(caller)).await.unwrap_or(Err(InputError::Gone))?;
        Ok(outcome)
    }
}
