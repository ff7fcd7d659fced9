//! The journal of a session: its log, the fold of the log, and the events that it produces.
//!
//! Every change of a session takes one way. An entry is *staged* without awaiting, *flushed* in one
//! append (the append itself is kept here, so that dropping the pattern cannot drop it half-way),
//! and then *applied*: folded into the state, with the events that follow from it emitted.

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use tokio::sync::watch;

use crate::error::{InputError, MemoryError};
use crate::log::entry::{LogEntry, StateScope};
use crate::log::event::AgentEvent;
use crate::log::fold::Fold;
use crate::log::mailbox::InputReceipt;
use crate::log::memory::Memory;
use crate::message::{InputId, Message, MessageId, MessageKind};
use crate::principal::Principal;
use crate::session::command::{Ack, Receipt};
use crate::session::hub::Hub;
use crate::session::panics::without_panic;

type WriteCallback = Box<dyn FnOnce(Result<(), MemoryError>) + Send>;

/// An append in progress.
struct Write {
    entries: Arc<[LogEntry]>,
    callbacks: Vec<WriteCallback>,
    append: BoxFuture<'static, Result<(), MemoryError>>,
}

/// A refusal that the mailbox of the session records before the sender is answered.
struct Refusal {
    input: InputId,
    error: InputError,
    ack: Ack<Result<Receipt, InputError>>,
}

/// Owns the log of a session and all that follows from it.
pub(crate) struct Journal {
    // The memory is declared first: it is released before the hub closes the event streams.
    write: Option<Write>,
    memory: Arc<dyn Memory>,
    pub(crate) fold: Fold,
    pub(crate) hub: Hub,
    last_message: u64,
    staged: Vec<LogEntry>,
    /// Values that the pattern has set, for the append of its next write.
    values: Vec<LogEntry>,
    callbacks: Vec<WriteCallback>,
    refusals: VecDeque<Refusal>,
    /// The next deadline of the pending actions, in milliseconds since 1970.
    deadline: watch::Sender<Option<u64>>,
    /// Another process has taken over the session.
    is_lost: bool,
}

impl Journal {
    pub(crate) fn new(memory: Arc<dyn Memory>, hub: Hub) -> Self {
        Journal {
            write: None,
            memory,
            fold: Fold::default(),
            hub,
            last_message: 0,
            staged: Vec::new(),
            values: Vec::new(),
            callbacks: Vec::new(),
            refusals: VecDeque::new(),
            deadline: watch::Sender::new(None),
            is_lost: false,
        }
    }

    /// Returns whether the session is at a root, where decisions arrive: not that of a sub-agent.
    pub(crate) fn is_of_root(&self) -> bool {
        self.hub.parent().is_none_or(|parent| parent.root.is_none())
    }

    /// Returns the next deadline of the pending actions, which changes with the log.
    pub(crate) fn deadline(&self) -> watch::Receiver<Option<u64>> {
        self.deadline.subscribe()
    }

    /// Returns whether another process has taken over the session, so that the state is out of
    /// date.
    pub(crate) fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Notes that another process has taken over the session.
    pub(crate) fn note_loss(&mut self) {
        self.is_lost = true;
    }

    pub(crate) fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Folds the log and takes ownership of the session, with these settings of the host if they
    /// are new. It belongs to `owner` if it is new. `time` is in milliseconds since 1970.
    pub(crate) async fn open(
        &mut self,
        settings: Option<Arc<Value>>,
        owner: Option<Principal>,
        time: u64,
    ) -> Result<(), MemoryError> {
        for entry in without_panic(self.memory.load(0)).await? {
            if let LogEntry::RunStarted { run, .. } = &entry {
                self.hub.set_run(*run);
            }
            let hub = &mut self.hub;
            self.fold.apply(&entry, &mut |_| hub.skip_seq());
        }
        let root = self.fold.parent.as_ref().and_then(|parent| parent.root.clone());
        if let (Some(root), None) = (root, self.hub.parent()) {
            let session = self.hub.session().clone();
            return Err(MemoryError::SubAgent { session, root });
        }
        let (epoch, parent) = (self.fold.epoch + 1, self.hub.parent().cloned());
        let owner = owner.filter(|_| self.fold.epoch == 0);
        self.stage(LogEntry::Opened { epoch, time, parent, owner });
        let old = self.fold.settings.as_deref().unwrap_or(&Value::Null);
        if let Some(settings) = settings.filter(|new| **new != *old) {
            self.stage(LogEntry::Settings { settings });
        }
        self.flush().await
    }

    /// Stages an entry for the next append. Between taking an input from a channel and staging it
    /// there must be no await, so that nothing can be lost.
    pub(crate) fn stage(&mut self, entry: LogEntry) {
        self.staged.push(entry);
    }

    /// Keeps a value of the pattern for the append of its next write: neither must be in the log
    /// without the other. An input that arrives in the meantime is not such a write.
    pub(crate) fn set_value(&mut self, scope: StateScope, key: Arc<str>, value: Arc<Value>) {
        let is_new = |entry: &LogEntry| !is_value(entry, scope, &key);
        self.values.retain(is_new);
        self.values.push(LogEntry::State { scope, key, value });
    }

    /// Returns a value of the pattern, written or not.
    pub(crate) fn value(&self, scope: StateScope, key: &str) -> Option<&Value> {
        let is_wanted = |entry: &&LogEntry| is_value(entry, scope, key);
        match self.values.iter().find(is_wanted) {
            Some(LogEntry::State { value, .. }) => Some(value),
            _ => self.fold.state.get(&(scope, key.into())).map(|value| &**value),
        }
    }

    /// Stages the values of the pattern.
    pub(crate) fn stage_values(&mut self) {
        self.staged.append(&mut self.values);
    }

    /// Calls back when what has been staged is in the log, or could not be written. If nothing is
    /// staged, it is confirmed that the log ends where this session expects it.
    pub(crate) fn when_written(
        &mut self,
        callback: impl FnOnce(Result<(), MemoryError>) + Send + 'static,
    ) {
        self.callbacks.push(Box::new(callback));
    }

    /// Answers that an input changed nothing, once the next flush has recorded that in the mailbox,
    /// or, if the input has no id or the session no mailbox, has confirmed that the log ends where
    /// this session expects it.
    pub(crate) fn refuse(
        &mut self,
        input: Option<InputId>,
        error: InputError,
        ack: Ack<Result<Receipt, InputError>>,
    ) {
        match input.filter(|_| error.is_refusal() && self.memory.mailbox().is_some()) {
            Some(input) => self.refusals.push_back(Refusal { input, error, ack }),
            None => self.when_written(move |confirmed| {
                let error = confirmed.err().map_or(error, InputError::Memory);
                let _ = ack.send(Err(error));
            }),
        }
    }

    /// Stages one entry and flushes.
    pub(crate) async fn commit(&mut self, entry: LogEntry) -> Result<(), MemoryError> {
        self.stage(entry);
        self.flush().await
    }

    /// Writes what is staged, then applies it: log first, then state, then events. If the future is
    /// dropped, the next call continues.
    pub(crate) async fn flush(&mut self) -> Result<(), MemoryError> {
        while self.write.is_some() || !self.staged.is_empty() || !self.callbacks.is_empty() {
            let result = self.write().await;
            if let Err(error) = self.apply_written(result) {
                for Refusal { ack, .. } in self.refusals.drain(..) {
                    let _ = ack.send(Err(InputError::Memory(error.clone())));
                }
                return Err(error);
            }
        }
        // After what was accepted before, and each again if the future was dropped meanwhile.
        while let Some(Refusal { input, error, .. }) = self.refusals.front() {
            let refused = InputReceipt::Refused(error.clone());
            let recorded = match self.memory.mailbox() {
                Some(mailbox) => without_panic(mailbox.acknowledge(input, &refused)).await,
                None => Ok(()),
            };
            self.is_lost |= recorded.as_ref().is_err_and(MemoryError::is_lost);
            if let Some(Refusal { error, ack, .. }) = self.refusals.pop_front() {
                let _ = ack.send(Err(recorded.err().map_or(error, InputError::Memory)));
            }
        }
        Ok(())
    }

    /// Appends all that is staged. It is the first half of a flush; [`Journal::apply_written`] is
    /// the second.
    pub(crate) async fn write(&mut self) -> Result<(), MemoryError> {
        let write = self.write.get_or_insert_with(|| {
            if !self.staged.iter().all(LogEntry::is_of_input) {
                self.staged.splice(0..0, self.values.drain(..));
            }
            let entries: Arc<[LogEntry]> = std::mem::take(&mut self.staged).into();
            let memory = self.memory.clone();
            let at = self.fold.len;
            let appended = entries.clone();
            let append = async move { memory.append(at, appended).await };
            let callbacks = std::mem::take(&mut self.callbacks);
            // If the memory panics after its write took place, the next append finds out.
            Write { entries, callbacks, append: Box::pin(without_panic(append)) }
        });
        (&mut write.append).await
    }

    /// Applies a write that has ended, without awaiting.
    pub(crate) fn apply_written(
        &mut self,
        result: Result<(), MemoryError>,
    ) -> Result<(), MemoryError> {
        let Some(write) = self.write.take() else { return Ok(()) };
        if result.is_ok() {
            write.entries.iter().for_each(|entry| self.apply(entry));
            if self.is_of_root() {
                let next = self.fold.next_deadline();
                self.deadline.send_if_modified(|known| std::mem::replace(known, next) != next);
            }
        }
        self.is_lost |= result.as_ref().is_err_and(MemoryError::is_lost);
        write.callbacks.into_iter().for_each(|callback| callback(result.clone()));
        result
    }

    fn apply(&mut self, entry: &LogEntry) {
        if let LogEntry::RunStarted { run, .. } = entry {
            self.hub.set_run(*run);
        }
        let hub = &mut self.hub;
        self.fold.apply(entry, &mut |event| hub.emit(event));
    }

    /// Emits an event that no log entry produces.
    pub(crate) fn emit_transient(&mut self, event: AgentEvent) {
        self.hub.emit_transient(event);
    }

    /// Returns the id of the next message. An id whose message is never written leaves a gap.
    pub(crate) fn next_message_id(&mut self) -> MessageId {
        self.last_message = self.last_message.max(self.fold.messages) + 1;
        MessageId(self.last_message)
    }

    /// Builds a message with the next id.
    pub(crate) fn message(&mut self, body: impl Into<MessageKind>) -> Arc<Message> {
        Arc::new(Message::new(self.next_message_id(), body))
    }
}

fn is_value(entry: &LogEntry, wanted: StateScope, name: &str) -> bool {
    matches!(entry, LogEntry::State { scope, key, .. } if *scope == wanted && **key == *name)
}
