//! A session that another process has open, behind a handle: inputs go through its mailbox, and
//! events come from its log.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until};

use crate::compaction::Compaction;
use crate::environment::SystemEnvironment;
use crate::error::{InputError, MemoryError};
use crate::event::AgentEvent;
use crate::event::hub::{EventStream, Hub, Scope, Subscriber};
use crate::event::input::{AbortRequest, InputEvent, QueueKind};
use crate::event::outcome::{RunCause, RunStatus};
use crate::event::owner_note::OwnerNote;
use crate::log::due::Due;
use crate::log::entry::LogEntry;
use crate::log::follower::Follower;
use crate::log::mailbox::{InputReceipt, PostedInput};
use crate::log::store::SessionStore;
use crate::message::{InputId, RunId, new_input_id};
use crate::session::handle::AgentHandle;
use crate::session::input::command::{Ack, Caller, Command, InputCommand, Receipt};
use crate::session::snapshot::snapshot;
use crate::session::state::AgentState;

/// Interval between reads of the log and the receipts.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Duration of failing reads after which the handles are no longer served.
const FAILURE_TIMEOUT: Duration = Duration::from_secs(10);

/// Interval between checks that a process has the session open.
const OWNER_CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// Attaches to a session that another process has open, or another part of this one. Returns a
/// handle, and the session's events from here on.
///
/// The handle posts its inputs to the session's mailbox ([`SessionStore::post`]). The owner of
/// the session acts on them, with its own agent and settings. The events come from the log, so
/// a reply arrives when it is complete, and the events of sub-agents are missing.
///
/// When the owner leaves or is killed, the stream ends with
/// [`StreamEnd::Moved`](crate::event::StreamEnd::Moved): this process can now
/// [open](crate::GenericAgent::open) the session. Unanswered inputs stay in the mailbox for the
/// next owner, and the method that sent them returns `Ok`. If [`SessionStore::in_use`] of the store
/// returns `None`, the departure of the owner is not noticed. If the session cannot be read for ten
/// seconds, the stream is closed, and what waits fails with [`InputError::Memory`].
///
/// The methods of the handle work as documented, with these differences:
///
/// - [`abort`](AgentHandle::abort) stops the run that the log shows, which is some milliseconds
///   old.
/// - [`reset`](AgentHandle::reset) fails with [`InputError::NotPostable`].
/// - The values of [`Prompt::with`](crate::event::Prompt::with) do not reach the owner, except
///   for the [`Principal`](crate::Principal).
/// - [`AgentState`] has the model of the last reply, no tools and no system prompt: only the
///   owner knows its agent.
///
/// ```
/// use loopwright_core::GenericAgent;
/// use loopwright_core::agent::attach;
/// use loopwright_core::log::InMemoryStore;
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
/// let store = InMemoryStore::new();
/// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), Once).build()?;
/// let owner = agent.open(&store, "s").await?;
///
/// let (guest, _events) = attach(&store, "s").await?; // in another process, usually
/// assert_eq!(guest.prompt("Hello").await?.text, "Hi.");
/// assert_eq!(owner.state().await?.messages.len(), 2);
/// # Ok(()) }
/// ```
///
/// # Errors
///
/// Fails as [`SessionStore::read`] does.
///
/// # Panics
///
/// Panics outside of a tokio runtime, or if time is not enabled in it.
pub async fn attach(
    store: &(impl SessionStore + Clone + 'static),
    session: impl Into<Arc<str>>,
) -> Result<(AgentHandle, EventStream), MemoryError> {
    let session = session.into();
    let mut hub = Hub::new(session.clone(), None, Arc::new(SystemEnvironment));
    let (subscriber, stream) = Subscriber::new(Scope::Session);
    hub.subscribe(subscriber);
    let (commands, from_handles) = mpsc::unbounded_channel();
    let mut attached = Attached {
        follower: Follower::new(session.clone()),
        store: Arc::new(store.clone()),
        session: session.clone(),
        commands: from_handles,
        hub,
        is_interrupted: false,
        sent: Vec::new(),
        callers: Vec::new(),
        idle: Vec::new(),
        next_owner_check: Instant::now() + OWNER_CHECK_INTERVAL,
    };
    for entry in attached.store.read(&session, 0).await? {
        attached.follower.take(std::slice::from_ref(&entry));
        attached.note_interruption(&entry);
    }
    Ok((AgentHandle::spawn(session, commands, true, attached.run_to_end()), stream))
}

/// The task behind the handles of a session that another process has open.
pub(crate) struct Attached {
    store: Arc<dyn SessionStore>,
    session: Arc<str>,
    commands: mpsc::UnboundedReceiver<Command>,
    hub: Hub,
    follower: Follower,
    /// The owner has opened the session with a run in progress, and has not continued it yet.
    is_interrupted: bool,
    /// The inputs without a receipt, in the order of posting.
    sent: Vec<Sent>,
    /// The callers that wait for the end of a run.
    callers: Vec<Waiting>,
    /// Answered when the session is idle.
    idle: Vec<Ack<()>>,
    next_owner_check: Instant,
}

/// An input that was posted, and its sender.
struct Sent {
    input: PostedInput,
    ack: Ack<Result<Receipt, InputError>>,
    /// The answer as far as the log shows it, before the receipt arrives.
    answer: Receipt,
    receipt: Option<InputReceipt>,
}

/// A caller that waits for the outcome of the run that its input starts.
struct Waiting {
    input: InputId,
    caller: Caller,
    /// The log has the input.
    is_accepted: bool,
    /// The run has started.
    has_started: bool,
    /// The input is a request, for which a run of its own starts.
    is_request: bool,
}

/// The reason why the handles are not served any longer.
enum End {
    /// No handle is left.
    Unused,
    /// No process has the session open.
    Free,
    /// The session was deleted.
    Deleted,
    /// The session could not be read for long.
    Failed(MemoryError),
}

impl Attached {
    /// Serves the handles until none is left, or no process has the session open.
    pub(crate) async fn run_to_end(mut self) {
        let end = self.run().await;
        self.commands.close();
        let why = match &end {
            End::Free => InputError::Moved,
            End::Unused | End::Deleted => InputError::Gone,
            End::Failed(error) => InputError::Memory(error.clone()),
        };
        // The next owner handles posted inputs.
        for Sent { ack, answer, .. } in self.sent.drain(..) {
            let _ = ack.send(match end {
                End::Deleted | End::Failed(_) => Err(why.clone()),
                End::Free | End::Unused => Ok(answer),
            });
        }
        for waiting in self.callers.drain(..) {
            let _ = waiting.caller.outcome.send(Err(why.clone()));
        }
        if let End::Free = end {
            tracing::info!(session = &*self.session, "the process that had the session has left");
            self.hub.close_as_moved();
        }
        while let Ok(command) = self.commands.try_recv() {
            if let Command::Input(input) = command {
                let _ = input.ack.send(Err(why.clone()));
            }
        }
    }

    async fn run(&mut self) -> End {
        let mut next_poll = Instant::now();
        let mut read_at = Instant::now();
        loop {
            tokio::select! { biased;
                () = sleep_until(next_poll) => {
                    match self.poll().await {
                        Ok(None) => read_at = Instant::now(),
                        Ok(Some(end)) => return end,
                        Err(MemoryError::NoSession(_)) => return End::Deleted,
                        Err(error) if read_at.elapsed() >= FAILURE_TIMEOUT => {
                            return End::Failed(error);
                        }
                        Err(error) => {
                            tracing::warn!(session = &*self.session, %error, "a session that \
                                another process has open cannot be read");
                        }
                    }
                    next_poll = Instant::now() + POLL_INTERVAL;
                }
                command = self.commands.recv() => match command {
                    Some(command) => self.handle(command).await,
                    None => return End::Unused,
                },
            }
        }
    }

    async fn handle(&mut self, command: Command) {
        match command {
            Command::Input(input) => self.post(*input).await,
            Command::State(ack) => drop(ack.send(self.state())),
            Command::Subscribe(subscriber) => self.hub.subscribe(subscriber),
            Command::Join(subscriber, ack) => {
                self.hub.join(subscriber, Vec::new());
                let _ = ack.send(self.follower.entries());
            }
            Command::Idle(ack) => self.idle.push(ack),
            Command::Close => self.commands.close(),
            // Only an owner is sent these.
            Command::Examine(_)
            | Command::TimePassed(_)
            | Command::MailHeld
            | Command::NoteLeft => {}
        }
    }

    /// Posts an input to the mailbox of the session.
    async fn post(&mut self, input: InputCommand) {
        let state = self.follower.state();
        if let Some(id) = state.seen(input.id.as_ref()) {
            return input.acknowledge_copy(id);
        }
        let InputCommand { mut event, id, ack, caller, .. } = input;
        let id = id.unwrap_or_else(new_input_id);
        if caller.is_some() && state.info.run.is_some() && !self.is_interrupted {
            return drop(ack.send(Err(InputError::Busy)));
        }
        if let InputEvent::Abort(AbortRequest { run: run @ None }) = &mut event {
            if state.info.run.is_none() && !state.waits() {
                return drop(ack.send(Ok(Receipt::new(id)))); // there is nothing to abort
            }
            *run = Some(RunId(state.runs)); // the caller has not seen a later one
        }
        let is_request = matches!(event, InputEvent::UserRequest(_));
        let input = match PostedInput::new(id.clone(), event) {
            Ok(input) => input,
            Err(why) => return drop(ack.send(Err(why))),
        };
        let receipt = match self.store.post(&self.session, &input).await {
            Ok(receipt) => receipt,
            Err(error) => return drop(ack.send(Err(InputError::Memory(error)))),
        };
        if let Some(caller) = caller {
            let (is_accepted, has_started) = (false, false);
            let input = id.clone();
            self.callers.push(Waiting { input, caller, is_accepted, has_started, is_request });
        }
        self.sent.push(Sent { input, ack, answer: Receipt::new(id), receipt });
    }

    /// Reads whether the session has an owner, then receipts, then the log. The order matters: the
    /// log already contains what a receipt accepts, and an owner that has left writes nothing more.
    async fn poll(&mut self) -> Result<Option<End>, MemoryError> {
        let is_due = Instant::now() >= self.next_owner_check;
        let is_free = is_due && self.store.in_use(&self.session).await? == Some(false);
        if is_due {
            self.next_owner_check = Instant::now() + OWNER_CHECK_INTERVAL;
        }
        for sent in self.sent.iter_mut().filter(|sent| sent.receipt.is_none()) {
            sent.receipt = self.store.post(&self.session, &sent.input).await?;
        }
        for entry in self.store.read(&self.session, self.follower.entries()).await? {
            self.take(&entry);
        }
        self.answer();
        self.answer_idle().await?;
        Ok(is_free.then_some(End::Free))
    }

    /// Applies an entry of the log, and emits its events.
    fn take(&mut self, entry: &LogEntry) {
        if let LogEntry::Withdrawn { inputs } = entry {
            let queue = &self.follower.state().queue;
            let texts = queue.iter().filter(|w| w.kind != QueueKind::Request);
            let texts = texts.filter(|w| inputs.contains(&w.input)).map(|w| w.message.text());
            let texts: Vec<String> = texts.collect();
            let clears = |sent: &&mut Sent| matches!(sent.input.event, InputEvent::ClearQueues);
            if let Some(sent) = self.sent.iter_mut().find(clears) {
                sent.answer.withdrawn.extend(texts);
            }
        }
        for waiting in &mut self.callers {
            let is_its_run = match entry {
                LogEntry::RunStarted { cause: RunCause::UserRequest(input), .. } => {
                    *input == waiting.input
                }
                _ => !waiting.is_request,
            };
            waiting.is_accepted |= entry.input() == Some(&waiting.input);
            if waiting.is_accepted && is_its_run && !waiting.has_started {
                waiting.has_started = true;
                waiting.caller.stream.take().into_iter().for_each(|s| self.hub.subscribe(s));
            }
        }
        for event in self.follower.take(std::slice::from_ref(entry)) {
            match &event.event {
                AgentEvent::Compaction(compaction) => self.note_compaction(compaction),
                AgentEvent::AgentEnd(outcome) => {
                    for waiting in self.callers.extract_if(.., |waiting| waiting.has_started) {
                        let _ = waiting.caller.outcome.send(Ok((**outcome).clone()));
                    }
                }
                _ => {}
            }
            self.hub.publish(event);
        }
        self.note_interruption(entry);
    }

    fn note_compaction(&mut self, compaction: &Arc<Compaction>) {
        let compacts = |sent: &&mut Sent| matches!(sent.input.event, InputEvent::Compact(_));
        for sent in self.sent.iter_mut().filter(compacts) {
            sent.answer.compacted.push(compaction.clone());
        }
    }

    fn note_interruption(&mut self, entry: &LogEntry) {
        match entry {
            LogEntry::Opened { .. }
            | LogEntry::Owner { note: OwnerNote::Left | OwnerNote::Held(_) } => {
                self.is_interrupted = self.follower.state().info.run.is_some()
            }
            LogEntry::Settings { .. }
            | LogEntry::Queued { .. }
            | LogEntry::Withdrawn { .. }
            | LogEntry::Owner { .. }
            | LogEntry::Handled { .. } => {}
            _ => self.is_interrupted = false,
        }
    }

    /// Answers the senders of inputs with a receipt.
    fn answer(&mut self) {
        for sent in self.sent.extract_if(.., |sent| sent.receipt.is_some()) {
            let Sent { ack, answer, receipt, .. } = sent;
            let refused = match receipt {
                Some(InputReceipt::Refused(why)) => Some(why),
                _ => None,
            };
            if refused.is_some() {
                self.callers.retain(|waiting| waiting.input != answer.id);
            }
            let _ = ack.send(refused.map_or(Ok(answer), Err));
        }
    }

    /// Answers callers that wait until no run is in progress.
    async fn answer_idle(&mut self) -> Result<(), MemoryError> {
        let is_running = self.follower.state().info.run.is_some() && !self.is_interrupted;
        let waits = !self.idle.is_empty() || !self.callers.is_empty();
        if is_running || !waits || !self.sent.is_empty() {
            return Ok(());
        }
        let info = self.store.session(&self.session).await?;
        // Also if a signal has arrived that the agent waits for.
        let is_due = info.due_at(0).is_some_and(|due| due != Due::Interrupted);
        if is_due || info.entries != self.follower.entries() {
            return Ok(());
        }
        self.answer_waiting();
        for ack in self.idle.drain(..) {
            let _ = ack.send(());
        }
        Ok(())
    }

    /// Answers callers whose request is queued behind pending actions.
    fn answer_waiting(&mut self) {
        let state = self.follower.state();
        let Some(outcome) = state.outcome.clone().filter(|_| state.batch.is_some()) else { return };
        for waiting in self.callers.extract_if(.., |waiting| waiting.is_accepted) {
            let mut outcome = (*outcome).clone();
            outcome.end = RunStatus::AwaitingAction;
            let _ = waiting.caller.outcome.send(Ok(outcome));
        }
    }

    fn state(&self) -> AgentState {
        let state = self.follower.state();
        AgentState {
            is_streaming: state.requested.is_some(),
            ..snapshot(&self.session, state, self.is_interrupted)
        }
    }
}
