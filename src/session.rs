//! The state of one session and the one way to change it: stage, flush, apply.
//!
//! One task owns it and lends it to the pattern as a `StepContext`. There is no lock: whoever holds
//! `&mut Session` is the single writer. A change is *staged* without awaiting, *flushed* (the write
//! itself is kept here, so that dropping the pattern cannot drop it half-way), and everything that
//! follows from it happens when it is *applied*, at once.

pub(crate) mod ask;
pub(crate) mod batch;
pub(crate) mod close;
pub(crate) mod compaction;
pub(crate) mod config;
pub(crate) mod detached;
pub(crate) mod handle;
pub(crate) mod hooks;
pub(crate) mod hub;
pub(crate) mod inbox;
pub(crate) mod running;
pub(crate) mod state;
pub(crate) mod stream;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::panic::AssertUnwindSafe;
use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};
use tokio_util::sync::CancellationToken;

use crate::error::{InputError, MemoryError, StepError};
use crate::extensions::Extensions;
use crate::log::compaction::Compaction;
use crate::log::entry::LogEntry;
use crate::log::event::AgentEvent;
use crate::log::fold::{Fold, Tail};
use crate::log::input::InputEvent;
use crate::log::memory::Memory;
use crate::message::{ContentPart, InputId, Message, MessageId, MessageKind, StopReason, Usage};
use crate::model::ModelInfo;
use crate::model::Update;
use crate::model::assemble::Assembler;
use crate::session::config::Config;
use crate::session::hub::{Hub, Subscriber};
use crate::session::running::Crew;
use crate::session::state::AgentState;
use crate::tool::ToolList;
use crate::tool::toolbox::Toolbox;

pub(crate) type Ack<T> = oneshot::Sender<T>;

/// What the session hears, at rest and while a verb waits.
pub(crate) enum Mail {
    Input(Box<Input>),
    State(Ack<AgentState>),
    Subscribe(Subscriber),
    /// One who comes late: gets what streams from its beginning, and is told the length of the log.
    Join(Subscriber, Ack<u64>),
}

/// An input event and who waits for its receipt.
pub(crate) struct Input {
    pub(crate) event: InputEvent,
    pub(crate) ack: Ack<Result<Receipt, InputError>>,
}

/// An input is durable.
#[derive(Debug, Clone)]
pub(crate) struct Receipt {
    pub(crate) id: InputId,
    /// Texts that the input took back.
    pub(crate) taken_back: Vec<String>,
    /// What the input had compacted.
    pub(crate) compacted: Vec<Arc<Compaction>>,
}

impl Receipt {
    pub(crate) fn of(id: InputId) -> Self {
        Receipt { id, taken_back: Vec::new(), compacted: Vec::new() }
    }
}

/// Somebody wants the conversation to be compacted, and waits for it.
pub(crate) struct Wish {
    pub(crate) instructions: Option<Arc<str>>,
    pub(crate) ack: Ack<Result<Receipt, InputError>>,
}

/// What is kept for compactions.
#[derive(Default)]
pub(crate) struct Compacting {
    pub(crate) wishes: VecDeque<Wish>,
    /// What came of the one that the present run was started for.
    pub(crate) told: Option<Result<Vec<Arc<Compaction>>, InputError>>,
    /// Tokens of these tools and the system prompt, by estimate.
    pub(crate) overhead: Option<(Arc<ToolList>, u64)>,
    /// How large the conversation was when a summary of it that could wait was paid for and not
    /// had.
    pub(crate) unsummarised: Option<u64>,
}

/// A reply that streams.
pub(crate) struct Partial {
    pub(crate) id: MessageId,
    /// The model that says it.
    pub(crate) model: Arc<ModelInfo>,
    pub(crate) reply: Assembler,
    /// Text of blocks that a hook holds back.
    pub(crate) held: BTreeMap<u32, String>,
}

/// Items on their way into the log, and who waits for them.
struct Write {
    items: Arc<[LogEntry]>,
    then: Vec<Then>,
    done: BoxFuture<'static, Result<(), MemoryError>>,
}
type Then = Box<dyn FnOnce(Result<(), MemoryError>) + Send>;

pub(crate) struct Session {
    // First, so that the memory is let go before the hub ends the streams of events.
    write: Option<Write>,
    memory: Arc<dyn Memory>,
    pub(crate) config: Arc<Config>,
    pub(crate) id: Arc<str>,
    pub(crate) fold: Fold,
    pub(crate) hub: Hub,
    pub(crate) mail: mpsc::UnboundedReceiver<Mail>,
    /// The tools of the present run.
    pub(crate) tools: Toolbox,
    /// The host's values, for the present run.
    pub(crate) extensions: Extensions,
    /// The host's values that came with requests which wait.
    pub(crate) riders: HashMap<InputId, Extensions>,
    pub(crate) compacting: Compacting,
    pub(crate) partial: Option<Partial>,
    /// A complete reply that a hook still looks at: written together with what the hook says.
    pub(crate) heard_out: Option<LogEntry>,
    pub(crate) crew: Crew,
    /// Cancelled when the run is aborted or cut off.
    pub(crate) cancel: CancellationToken,
    /// An interrupted run was found at opening and nothing has been done about it.
    pub(crate) interrupted: bool,
    /// The tools of the last request, so that the same ones are encoded once.
    pub(crate) offered: Option<Arc<ToolList>>,
    numbered: u64,
    staged: Vec<LogEntry>,
    then: Vec<Then>,
}

impl Session {
    pub(crate) fn new(
        config: Arc<Config>,
        hub: Hub,
        id: Arc<str>,
        memory: Arc<dyn Memory>,
        mail: mpsc::UnboundedReceiver<Mail>,
    ) -> Self {
        let tools = config.tools.clone();
        Session {
            write: None,
            memory,
            config,
            id,
            fold: Fold::default(),
            hub,
            mail,
            tools,
            extensions: Extensions::new(),
            riders: HashMap::new(),
            compacting: Compacting::default(),
            partial: None,
            heard_out: None,
            crew: Crew::default(),
            cancel: CancellationToken::new(),
            interrupted: false,
            offered: None,
            numbered: 0,
            staged: Vec::new(),
            then: Vec::new(),
        }
    }

    /// What is kept of the session.
    pub(crate) fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Folds the log and takes the session over, with these settings of the host if there are any.
    pub(crate) async fn open(&mut self, settings: Option<Arc<Value>>) -> Result<(), MemoryError> {
        for item in self.memory.load(0).await? {
            if let LogEntry::RunStarted { run, .. } = &item {
                self.hub.set_run(*run);
            }
            let hub = &mut self.hub;
            self.fold.apply(&item, &mut |_| hub.pass_over());
        }
        self.interrupted = self.fold.run.is_some();
        let lost = self.fold.requested;
        let time = self.config.environment.now();
        self.stage(LogEntry::Opened { epoch: self.fold.epoch + 1, time });
        if let Some(settings) = settings.filter(|new| self.fold.settings.as_ref() != Some(new)) {
            self.stage(LogEntry::Settings { settings });
        }
        self.flush().await.map_err(|e| {
            if let StepError::Memory(e) = e { e } else { MemoryError::Failed(e.to_string()) }
        })?;
        if let Some(message_id) = lost {
            self.hub.overlay(AgentEvent::MessageUpdate { message_id, update: Update::Withdrawn });
        }
        Ok(())
    }

    // ---- the one way to change anything -------------------------------------------------------

    /// Never awaits: between taking something from a channel and staging it nothing can be lost.
    pub(crate) fn stage(&mut self, item: LogEntry) {
        self.staged.push(item);
    }

    pub(crate) fn stage_heard_out(&mut self) {
        self.staged.extend(self.heard_out.take());
    }

    /// Called once what has been staged is in the log, or could not be written.
    pub(crate) fn when_written(
        &mut self,
        then: impl FnOnce(Result<(), MemoryError>) + Send + 'static,
    ) {
        self.then.push(Box::new(then));
    }

    /// Memory first, then RAM, then the events that tell of it. Dropped, it goes on at the next
    /// call.
    pub(crate) async fn flush(&mut self) -> Result<(), StepError> {
        while self.write.is_some() || !self.staged.is_empty() || !self.then.is_empty() {
            let result = self.write().await;
            self.written(result)?;
        }
        Ok(())
    }

    /// The first half of a flush: one append of all that is staged. [`Session::written`] is the
    /// other.
    pub(crate) async fn write(&mut self) -> Result<(), MemoryError> {
        let write = self.write.get_or_insert_with(|| {
            let items: Arc<[LogEntry]> = std::mem::take(&mut self.staged).into();
            let (memory, at, append) = (self.memory.clone(), self.fold.len, items.clone());
            let work = async move {
                if append.is_empty() { Ok(()) } else { memory.append(at, append).await }
            };
            // A panicking memory has failed; if the write took place all the same, the next append
            // finds out.
            let failed = |_| Err(MemoryError::Failed("the session's memory panicked".into()));
            let done = Box::pin(
                AssertUnwindSafe(work).catch_unwind().map(move |done| done.unwrap_or_else(failed)),
            );
            Write { items, then: std::mem::take(&mut self.then), done }
        });
        (&mut write.done).await
    }

    /// What follows from a write, all at once.
    pub(crate) fn written(&mut self, result: Result<(), MemoryError>) -> Result<(), StepError> {
        let Some(write) = self.write.take() else {
            return Ok(());
        };
        if result.is_ok() {
            write.items.iter().for_each(|item| self.apply(item));
        }
        write.then.into_iter().for_each(|then| then(result.clone()));
        Ok(result?)
    }

    pub(crate) async fn commit(&mut self, item: LogEntry) -> Result<(), StepError> {
        self.stage(item);
        self.flush().await
    }

    fn apply(&mut self, item: &LogEntry) {
        if let LogEntry::RunStarted { run, .. } = item {
            self.hub.set_run(*run);
        }
        let hub = &mut self.hub;
        self.fold.apply(item, &mut |event| hub.tell(event));
    }

    /// The number of the next message. One that is never written leaves a gap.
    pub(crate) fn next_message(&mut self) -> MessageId {
        self.numbered = self.numbered.max(self.fold.messages) + 1;
        MessageId(self.numbered)
    }

    pub(crate) fn message(&mut self, body: impl Into<MessageKind>) -> Arc<Message> {
        Arc::new(Message::new(self.next_message(), body))
    }

    /// What a model could say next. A custom message counts where a hook may turn it into another.
    pub(crate) fn tail(&self) -> Tail {
        let custom =
            matches!(self.fold.history.last().map(|m| &m.body), Some(MessageKind::Custom(_)));
        if custom && self.config.hooks.convert_to_llm.is_some() {
            Tail::Answerable
        } else {
            self.fold.tail()
        }
    }

    /// Asks the sources for their tools, at the start of a run.
    pub(crate) async fn load_tools(&mut self) -> Result<(), StepError> {
        let config = self.config.clone();
        if config.sources.is_empty() {
            return Ok(());
        }
        let mut tools = config.tools.clone();
        for (prefix, source) in &config.sources {
            let failed = |why: String| StepError::ToolSource { source_name: prefix.clone(), why };
            let listed = self.wait_for(source.tools()).await?.map_err(|e| failed(e.to_string()))?;
            tools = tools
                .with_source(prefix, listed, &self.tools)
                .map_err(|e| failed(e.to_string()))?;
        }
        self.tools = tools;
        Ok(())
    }

    // ---- what is told --------------------------------------------------------------------------

    /// The reply that streamed as a message, as far as it came; withdrawn if nothing was said.
    pub(crate) fn close_reply(
        &mut self,
        partial: Partial,
        stop: StopReason,
        usage: Usage,
    ) -> Option<Arc<Message>> {
        let Partial { id, model, mut reply, held } = partial;
        for (block, text) in held.into_iter().filter(|(_, text)| !text.is_empty()) {
            if let Ok(update) = reply.delta(block, text) {
                self.hub.overlay(AgentEvent::MessageUpdate { message_id: id, update });
            }
        }
        let Some(mut reply) = reply.finish(stop, model.id.clone(), usage) else {
            self.hub
                .overlay(AgentEvent::MessageUpdate { message_id: id, update: Update::Withdrawn });
            return None;
        };
        let mut taken = Vec::new();
        for part in &mut reply.parts {
            if let ContentPart::ToolCall(call) = part {
                call.id = self.fold.unique_call_id(&call.id, &taken);
                taken.push(call.id.clone());
            }
        }
        Some(Arc::new(Message::new(id, reply)))
    }
}
