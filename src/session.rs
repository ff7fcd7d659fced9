//! A live session: the handle to it, its state, and the requests and calls of its patterns.
//!
//! One task owns the session and lends it to the pattern as a `StepContext`. No locks: the owner of
//! `&mut Session` is the single writer. Each part owns its state:
//!
//! - `Journal`: the log.
//! - `Intake`: the received inputs.
//! - `Executor`: the running tools.
//! - `Children`: the working sub-agents.
//! - `StreamingReply`: the reply in progress.
//! - `InFlight`: the usage of requests in progress.
//! - `ShownReplies`: the detached replies in progress that are shown.
//! - `CompactionState`: the state of compactions.

pub(crate) mod budget_part;
pub(crate) mod calls;
pub(crate) mod close;
pub(crate) mod config;
pub(crate) mod event_reader;
pub(crate) mod handle;
pub(crate) mod input;
pub(crate) mod journal;
pub(crate) mod lent;
pub(crate) mod panics;
pub(crate) mod part_time;
#[cfg(feature = "testing")]
pub(crate) mod parts;
pub(crate) mod request;
pub(crate) mod snapshot;
pub(crate) mod state;
pub(crate) mod sub_agents;
pub(crate) mod wake_gate;

pub use self::calls::batch_outcome::BatchOutcome;
pub use self::calls::pattern_calls::{Call, CallAll, QuestionStatus};
pub use self::config::WhileAwaiting;
pub use self::event_reader::EventReader;
pub use self::handle::AgentHandle;
pub use self::request::ask::{Ask, Profile};
pub use self::request::ask_all::AskAll;
pub use self::request::reply::Reply;
pub use self::request::shared_budget::{BudgetPermit, SharedBudget};
pub use self::state::AgentState;

use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::join_all;
use serde_json::Value;
use tokio::sync::mpsc;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::error::{Failure, InputError, MemoryError, StepError};
use crate::event::hub::Hub;
use crate::event::input::{InputEvent, QueueKind, Urgency};
use crate::event::outcome::RunCause;
use crate::event::owner_note::OwnerNote;
use crate::event::{AgentEvent, Role};
use crate::extensions::Extensions;
use crate::hooks::HookContext;
use crate::limits::Spent;
use crate::log::entry::LogEntry;
use crate::log::memory::Memory;
use crate::log::queue::QueuedMessage;
use crate::log::state::Tail;
use crate::log::turn::Used;
use crate::message::{InputId, Message, MessageKind};
use crate::model::Update;
use crate::principal::Principal;
use crate::session::budget_part::Part;
use crate::session::calls::executor::Executor;
use crate::session::config::Config;
use crate::session::input::command::{Ack, Command, Receipt};
use crate::session::input::intake::{Accepted, Intake};
use crate::session::input::{decisions, steers};
use crate::session::journal::Journal;
use crate::session::request::compaction_state::CompactionState;
use crate::session::request::in_flight::InFlight;
use crate::session::request::reply::StreamingReply;
use crate::session::request::shown::ShownReplies;
use crate::session::snapshot::snapshot;
use crate::session::state::Examined;
use crate::session::sub_agents::children::Children;
use crate::session::sub_agents::tree::Tree;
use crate::trace_context::TraceContext;

/// A session and its parts.
pub(crate) struct Session {
    pub(crate) journal: Journal,
    pub(crate) intake: Intake,
    pub(crate) executor: Executor,
    pub(crate) children: Children,
    pub(crate) tree: Tree,
    pub(crate) reply: StreamingReply,
    pub(crate) in_flight: InFlight,
    pub(crate) shown: ShownReplies,
    pub(crate) compaction: CompactionState,
    pub(crate) config: Arc<Config>,
    pub(crate) id: Arc<str>,
    /// The host's values for the current run.
    pub(crate) extensions: Extensions,
    /// Cancelled when the run is aborted or cut off.
    pub(crate) cancel: CancellationToken,
    /// An interrupted run was found at opening and is still open.
    pub(crate) interrupted: bool,
    /// `true` while the run sends its last request, for an answer at its limit.
    pub(crate) wraps_up: bool,
    /// The time of the run that the pattern leaves for that request.
    pub(crate) kept_time: Duration,
    /// The parts of the pattern's work with budgets of their own, the innermost last.
    pub(crate) budget_parts: Vec<Part>,
    /// Start of this process's work on the current run.
    pub(crate) run_began: Option<Instant>,
    /// The tool sources that were not ready at the last listing.
    late_sources: Vec<usize>,
}

impl Session {
    pub(crate) fn new(
        config: Arc<Config>,
        hub: Hub,
        id: Arc<str>,
        memory: Arc<dyn Memory>,
        commands: mpsc::UnboundedReceiver<Command>,
    ) -> Self {
        Session {
            journal: Journal::new(memory, hub),
            intake: Intake::new(commands),
            executor: Executor::new(config.tools.clone()),
            children: Children::default(),
            tree: Tree::default(),
            reply: StreamingReply::default(),
            in_flight: InFlight::default(),
            shown: ShownReplies::default(),
            compaction: CompactionState::default(),
            config,
            id,
            extensions: Extensions::new(),
            cancel: CancellationToken::new(),
            interrupted: false,
            wraps_up: false,
            kept_time: Duration::ZERO,
            budget_parts: Vec::new(),
            run_began: None,
            late_sources: Vec::new(),
        }
    }

    /// Returns the usage since the last request of the user.
    pub(crate) fn spent(&self) -> Spent {
        self.with_run_time(self.journal.state.spent)
    }

    /// Returns the usage of the session.
    pub(crate) fn whole_spent(&self) -> Spent {
        self.with_run_time(self.journal.state.total())
    }

    /// Adds the time for which this process has worked on the current run.
    fn with_run_time(&self, used: Used) -> Spent {
        let mut spent = self.journal.state.spent_of(used);
        let run_time = self.run_began.map(|began| began.elapsed()).unwrap_or_default();
        spent.time = spent.time.saturating_add(run_time);
        spent
    }

    /// Reads the log and takes ownership of the session, with these settings of the host. A new
    /// session belongs to `owner`.
    pub(crate) async fn open(
        &mut self,
        settings: Option<Arc<Value>>,
        owner: Option<Principal>,
    ) -> Result<(), MemoryError> {
        self.journal.open(settings, owner, self.config.environment.now()).await?;
        self.interrupted = self.journal.state.info.run.is_some();
        Ok(())
    }

    /// Returns the memory if the session takes inputs of other processes from its mailbox. Inputs
    /// for a sub-agent are sent to the session at its root.
    pub(crate) fn mailbox_memory(&self) -> Option<Arc<dyn Memory>> {
        let memory = self.journal.memory();
        let is_root = self.journal.parent().is_none();
        (is_root && memory.mailbox().is_some()).then(|| memory.clone())
    }

    /// Restores the principal that sent the run's request from the log. After a restart the values
    /// of the request are gone, and a posted request never had any.
    pub(crate) fn restore_principal(&mut self) {
        if let Some(principal) = &self.journal.state.principal
            && Principal::of(&self.extensions) != Some(principal)
        {
            self.extensions = self.extensions.clone().with(principal.clone());
        }
    }

    /// Returns the trace context of the next run: the earlier run's if it continues one, else the
    /// host's.
    pub(crate) fn trace_of_next_run(&self, cause: &RunCause) -> Option<Arc<TraceContext>> {
        let earlier = self.journal.state.trace.as_ref().filter(|_| cause.is_continuation());
        earlier.cloned().or_else(|| TraceContext::of(&self.extensions).cloned().map(Arc::new))
    }

    /// Returns the trace context of the run in progress.
    pub(crate) fn run_trace(&self) -> Option<TraceContext> {
        self.journal.state.run_trace(&self.id)
    }

    /// Handles one command. An accepted input is durable when this returns.
    pub(crate) async fn receive(&mut self, command: Command) -> Result<Accepted, MemoryError> {
        // Flush first: ids and duplicates are decided from the written log, and nobody learns of
        // entries that are not written.
        let written = self.journal.flush().await;
        if written.is_err() {
            let _ = self.rebuild_state().await; // what is not in the log is not given out
        }
        let accepted = self.handle(command).await;
        written.and(accepted)
    }

    /// Rebuilds the state if it differs from the log.
    async fn rebuild_state(&mut self) -> Result<(), MemoryError> {
        if self.journal.rebuild_state().await? {
            // These belong to calls that the log may not have.
            self.executor.ready.clear();
            self.children.idle.clear();
        }
        Ok(())
    }

    /// Rebuilds the state if it differs from the log, and lets writes succeed again. Returns the
    /// earlier failure, if there was one.
    pub(crate) async fn recover(&mut self) -> Result<Option<MemoryError>, MemoryError> {
        self.rebuild_state().await?;
        self.journal.recover().await
    }

    async fn handle(&mut self, command: Command) -> Result<Accepted, MemoryError> {
        match command {
            Command::State(ack) => drop(ack.send(self.state())),
            Command::Subscribe(subscriber) => {
                if subscriber.is_of_tree() {
                    self.children.subscribe(&subscriber);
                }
                self.journal.hub().subscribe(subscriber)
            }
            Command::TimePassed(now) => {
                let Session { journal, config, executor, .. } = self;
                let tools = &executor.tools;
                let is_any = decisions::take_defaults(journal, config, tools, now).await?;
                return Ok(if is_any { Accepted::Decision } else { Accepted::Other });
            }
            Command::MailHeld | Command::Close => {} // the queue of commands has handled them
            Command::NoteLeft => {
                let state = &self.journal.state;
                if state.info.owners.would_lose(state.info.has_work()) {
                    self.journal.commit(LogEntry::Owner { note: OwnerNote::Left }).await?;
                }
            }
            Command::Examine(ack) => drop(ack.send(self.examined())),
            Command::Join(subscriber, ack) => {
                let transient = self.transient_events();
                if subscriber.is_of_tree() {
                    self.children.subscribe(&subscriber);
                }
                self.journal.hub().join(subscriber, transient);
                let _ = ack.send(self.journal.written());
            }
            Command::Idle(ack) => self.intake.idle.push(ack),
            Command::Input(input) if matches!(input.event, InputEvent::SteerTo { .. }) => {
                let Session { children, tree, journal, .. } = self;
                steers::steer(*input, self.id.clone(), children, tree, journal);
            }
            Command::Input(input) => {
                let Session { journal, intake, executor, config, .. } = self;
                let accepted = intake.accept(*input, journal, config, &executor.tools);
                self.journal.flush().await?;
                return Ok(accepted);
            }
        }
        Ok(Accepted::Other)
    }

    /// Refuses the input with this client id, once it is confirmed that the state is up to date. A
    /// refused input changes nothing.
    pub(crate) async fn refuse(
        &mut self,
        input: Option<InputId>,
        ack: Ack<Result<Receipt, InputError>>,
        error: InputError,
    ) {
        self.journal.refuse(input, error, ack);
        let _ = self.journal.flush().await; // a failure is the answer
    }

    /// Returns whether a steer that came after `before` interrupts the request.
    pub(crate) fn is_interrupted(&self, before: u64) -> bool {
        let interrupts = |w: &QueuedMessage| w.at > before && w.urgency == Urgency::Interrupt;
        self.journal.state.queue.of(QueueKind::Steering).any(interrupts)
    }

    /// Handles all commands that have arrived. After a failure the rest are still answered.
    pub(crate) async fn receive_all(&mut self) -> Result<(), MemoryError> {
        let mut result = self.journal.apply_ahead().await;
        while let Ok(command) = self.intake.commands.try_recv() {
            result = result.and(self.receive(command).await.map(drop));
        }
        result
    }

    /// Awaits `work` while commands are handled.
    pub(crate) async fn wait_for<F: Future + Send>(
        &mut self,
        work: F,
    ) -> Result<F::Output, MemoryError> {
        self.journal.flush().await?;
        let mut work = std::pin::pin!(work);
        loop {
            tokio::select! { biased;
                Some(command) = self.intake.commands.recv() => {
                    self.receive(command).await?;
                }
                done = &mut work => return Ok(done),
            }
        }
    }

    /// Returns whether the run was started by a message that replaces the decisions on pending
    /// actions.
    pub(crate) fn supersedes(&self) -> bool {
        let supersedes = self.config.while_awaiting == WhileAwaiting::Supersede;
        supersedes && self.journal.state.run_supersedes()
    }

    /// Fails while calls of the last reply have no result: no message may come between a reply and
    /// the results of its calls.
    pub(crate) fn check_batch_closed(&self) -> Result<(), StepError> {
        let state = &self.journal.state;
        if state.batch.is_none() {
            return Ok(());
        }
        Err(StepError::BatchOpen(state.calls().iter().filter(|c| c.result.is_none()).count()))
    }

    /// Writes a message of the pattern.
    pub(crate) async fn remember(
        &mut self,
        message: MessageKind,
    ) -> Result<Arc<Message>, StepError> {
        let message = self.journal.message(message);
        self.check_batch_closed()?;
        if message.as_assistant().is_some_and(|reply| reply.calls().next().is_some()) {
            return Err(StepError::CallsWithoutReply);
        }
        self.journal.commit(LogEntry::Remembered { message: message.clone() }).await?;
        Ok(message)
    }

    /// Asks the tool sources for their tools, at the start of a run. If a call is open, waits for
    /// the source of its tool.
    pub(crate) async fn load_tools(&mut self) -> Result<(), StepError> {
        self.list_tools().await?;
        let config = self.config.clone();
        let is_awaited = |prefix: &str| {
            let mut open = self.journal.state.calls().iter().filter(|call| call.result.is_none());
            open.any(|call| {
                let name = &call.call.name;
                name.starts_with(prefix) && self.executor.tools.entry(name).is_err()
            })
        };
        let late = self.late_sources.iter().map(|at| &config.sources[*at]);
        let awaited: Vec<_> = late.filter(|(prefix, _)| is_awaited(prefix)).collect();
        if awaited.is_empty() {
            return Ok(());
        }
        self.wait_for(join_all(awaited.into_iter().map(|(_, source)| source.ready()))).await?;
        self.list_tools().await
    }

    /// Adds the tools of sources that were not ready at the start of the run.
    pub(crate) async fn load_late_tools(&mut self) -> Result<(), StepError> {
        let is_ready = |at: &usize| self.config.sources[*at].1.ready().now_or_never().is_some();
        match self.late_sources.iter().any(is_ready) {
            true => self.list_tools().await,
            false => Ok(()),
        }
    }

    async fn list_tools(&mut self) -> Result<(), StepError> {
        let config = self.config.clone();
        if config.sources.is_empty() {
            return Ok(());
        }
        let listed = join_all(config.sources.iter().map(|(_, source)| source.tools()));
        let listed = self.wait_for(listed).await?;
        let mut tools = config.tools.clone();
        for ((prefix, _), listed) in config.sources.iter().zip(listed) {
            let failed = |error| StepError::ToolSource { source_name: prefix.clone(), error };
            let listed = listed.map_err(|error| failed(Failure::of(error)))?;
            tools = tools
                .with_source(prefix, listed, &self.executor.tools)
                .map_err(|error| failed(Failure::of(error)))?;
        }
        self.executor.tools = tools;
        let is_late = |at: &usize| config.sources[*at].1.ready().now_or_never().is_none();
        self.late_sources = (0..config.sources.len()).filter(is_late).collect();
        Ok(())
    }

    pub(crate) fn hook_context(&self) -> HookContext {
        HookContext {
            session_id: self.id.clone(),
            session_created: self.journal.state.created.unwrap_or_default(),
            extensions: self.extensions.clone(),
            request: self.journal.state.request.clone(),
        }
    }

    /// Returns the kind of message at the end of the conversation. A custom message counts as
    /// answerable if there is a hook, which may convert it.
    pub(crate) fn tail(&self) -> Tail {
        if self.may_convert_last() { Tail::Answerable } else { self.journal.state.tail() }
    }

    /// Returns whether the last message reaches the model only if a hook converts it.
    pub(crate) fn may_convert_last(&self) -> bool {
        let last = self.journal.state.messages().next_back();
        let is_custom = last.is_some_and(|m| matches!(m.body, MessageKind::Custom(_)));
        is_custom && !self.config.hooks.is_empty()
    }

    /// Returns the texts of all queued messages.
    pub(crate) fn queued_texts(&self) -> Vec<String> {
        self.journal.state.waiting().map(|w| w.message.text()).collect()
    }

    /// Returns the events of the streaming reply and the running tools so far, merged.
    fn transient_events(&self) -> Vec<AgentEvent> {
        let mut events = Vec::new();
        if let Some((message_id, updates)) = self.reply.updates_so_far() {
            events.push(AgentEvent::MessageStart { message_id, role: Role::Assistant });
            let update = |update: Update| AgentEvent::MessageUpdate { message_id, update };
            events.extend(updates.into_iter().map(update));
            let now = self.config.environment.now();
            events.extend(self.reply.retry(now).map(AgentEvent::Retry));
        }
        events.extend(self.shown.updates_so_far());
        events.extend(self.executor.updates_so_far());
        events.extend(self.children.updates_so_far());
        events
    }

    fn examined(&self) -> Examined {
        let state = &self.journal.state;
        Examined {
            is_interrupted: self.interrupted && state.info.run.is_some(),
            pending: state.pending().cloned().collect(),
            outcome: state.outcome.clone(),
            used: state.used(),
        }
    }

    /// Waits forever if a session above is being aborted: the abort is on its way, and nothing may
    /// start any more.
    pub(crate) async fn stop_if_cancelled(&mut self) {
        if self.cancel.is_cancelled() {
            std::future::pending().await
        }
    }

    fn state(&self) -> AgentState {
        let Config { system, model, thinking, steering_mode, follow_up_mode, .. } = &*self.config;
        AgentState {
            system_prompt: system.clone(),
            model: model.info().id.clone(),
            thinking_level: *thinking,
            steering_mode: *steering_mode,
            follow_up_mode: *follow_up_mode,
            tools: self.executor.tools.list().to_vec(),
            is_streaming: self.reply.is_streaming(),
            streaming_message: self.reply.message_so_far(),
            repaired: self.journal.memory().repaired().map(Arc::from),
            ..snapshot(&self.id, &self.journal.state, self.interrupted)
        }
    }
}
