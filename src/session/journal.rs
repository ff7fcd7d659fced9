//! The journal of a session: its log, the state computed from it, and the events that it produces.
//!
//! Every change of a session takes the same way. An entry is *staged* without awaiting. It is
//! *flushed* in one append, which is kept here so that dropping the pattern cannot cut it off. Then
//! it is *applied*: the state changes, and the entry's events are emitted.
//!
//! Entries that nothing outside the session depends on yet are [applied
//! ahead](Journal::apply_ahead): they change the state at once, and the next flush writes them and
//! emits their events. So all entries between two waits of the session are one append. Nobody else
//! learns of them before: code that waits, sends, starts a tool or handles a command flushes first.
//! If the pattern waits for something of its own, the task of the run writes them
//! ([`WriteBehind`]).

mod opening;
pub(crate) mod write_behind;

use std::collections::VecDeque;
use std::sync::Arc;

use futures_util::FutureExt;
use serde_json::Value;
use tokio::sync::watch;

use crate::error::{InputError, MemoryError};
use crate::event::hub::Hub;
use crate::event::{AgentEvent, Parent};
use crate::log::entry::{LogEntry, StateScope};
use crate::log::mailbox::InputReceipt;
use crate::log::memory::Memory;
use crate::log::state::SessionState;
use crate::message::{InputId, Message, MessageId, MessageKind};
use crate::session::input::command::{Ack, Receipt};
use crate::session::journal::write_behind::{
    DeferredEffect, LentWrite, Unwritten, Write, WriteBehind, WriteCallback, applied_in_part,
};
use crate::session::panics::without_panic;

/// The reason why writes fail. `is_stale` is set if the state differs from the log.
struct Failure {
    error: MemoryError,
    is_stale: bool,
}

impl Failure {
    fn stale(error: MemoryError) -> Self {
        Failure { error, is_stale: true }
    }
}

/// A refusal that the mailbox of the session records before the sender is answered.
struct Refusal {
    input: InputId,
    error: InputError,
    ack: Ack<Result<Receipt, InputError>>,
}

/// The log of a session, its state and its events.
pub(crate) struct Journal {
    // The memory is declared first: it is released before the hub closes the event streams.
    write: Option<Write>,
    memory: Arc<dyn Memory>,
    pub(crate) state: SessionState,
    /// Used through [`Journal::hub`].
    hub: Hub,
    last_message: u64,
    /// Number of entries covered by the stored snapshot.
    in_snapshot: u64,
    /// Entries are applied ahead. Some tests turn this off.
    pub(crate) joins: bool,
    /// Number of entries in the log. The state includes more if entries are applied ahead.
    written: u64,
    staged: Vec<LogEntry>,
    unwritten: Unwritten,
    /// The hub and the unwritten entries, while `is_lent`.
    behind: WriteBehind,
    is_lent: bool,
    /// Set if entries that were applied ahead could not be written, or if not all written entries
    /// could be applied. Until [`Journal::recover`], every write fails with this error.
    failed: Option<Failure>,
    /// Values set by the pattern, for the append of its next write.
    values: Vec<LogEntry>,
    callbacks: Vec<WriteCallback>,
    refusals: VecDeque<Refusal>,
    /// The next time at which the session does something without an input; see
    /// [`SessionInfo::wakes_at`](crate::log::SessionInfo::wakes_at).
    wakes_at: watch::Sender<Option<u64>>,
    /// Another process has taken over the session.
    is_lost: bool,
}

impl Journal {
    pub(crate) fn new(memory: Arc<dyn Memory>, hub: Hub) -> Self {
        Journal {
            write: None,
            memory,
            state: SessionState::default(),
            hub,
            last_message: 0,
            in_snapshot: 0,
            joins: true,
            written: 0,
            staged: Vec::new(),
            unwritten: Unwritten::default(),
            behind: WriteBehind::default(),
            is_lent: false,
            failed: None,
            values: Vec::new(),
            callbacks: Vec::new(),
            refusals: VecDeque::new(),
            wakes_at: watch::Sender::new(None),
            is_lost: false,
        }
    }

    /// Returns whether the session is at the root of its tree, where decisions arrive.
    pub(crate) fn is_of_root(&self) -> bool {
        self.parent().is_none_or(|parent| parent.root.is_none())
    }

    /// Returns the next time at which the session does something without an input, which changes
    /// with the log.
    pub(crate) fn wakes_at(&self) -> watch::Receiver<Option<u64>> {
        self.wakes_at.subscribe()
    }

    /// Returns whether another process has taken over the session, so that the state is out of
    /// date.
    pub(crate) fn is_lost(&mut self) -> bool {
        self.take_back();
        self.is_lost
    }

    /// Notes that another process has taken over the session.
    pub(crate) fn note_loss(&mut self) {
        self.is_lost = true;
    }

    pub(crate) fn memory(&self) -> &Arc<dyn Memory> {
        &self.memory
    }

    /// Returns the hub, which sends the events of the session.
    pub(crate) fn hub(&mut self) -> &mut Hub {
        self.take_back();
        &mut self.hub
    }

    /// Returns the session's id.
    pub(crate) fn session(&self) -> &Arc<str> {
        self.hub.session()
    }

    /// Returns the call that the session works for.
    pub(crate) fn parent(&self) -> Option<&Arc<Parent>> {
        self.hub.parent()
    }

    /// Returns the handle with which the task of the run writes unwritten entries, while the
    /// pattern waits for something of its own.
    pub(crate) fn write_behind(&self) -> WriteBehind {
        self.behind.clone()
    }

    /// Returns the number of entries in the log, or fewer if a write has just ended.
    pub(crate) fn written(&self) -> u64 {
        self.written
    }

    /// Returns whether entries are applied but not yet written.
    pub(crate) fn has_unwritten(&self) -> bool {
        self.state.info.entries > self.written
    }

    /// Stages an entry for the next append. Do not await between taking an input from a channel and
    /// staging it: otherwise the input can be lost.
    pub(crate) fn stage(&mut self, entry: LogEntry) {
        self.staged.push(entry);
    }

    /// Keeps a value of the pattern for the append of its next write, so that the log has both or
    /// neither. An input that arrives in the meantime is not such a write.
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
            _ => self.state.values.get(&(scope, key.into())).map(|value| &**value),
        }
    }

    /// Applies the staged entries before they are written. Their events are emitted after the next
    /// flush has written them. Flushes at once if someone waits for the write.
    pub(crate) async fn apply_ahead(&mut self) -> Result<(), MemoryError> {
        let is_awaited = !self.callbacks.is_empty() || !self.refusals.is_empty();
        if self.staged.is_empty() && !is_awaited && self.is_lent && self.behind.is_unwritten() {
            return Ok(()); // nothing is new
        }
        self.take_back();
        let is_busy = self.write.is_some() || self.failed.is_some();
        if is_busy || is_awaited || !self.joins {
            return self.flush().await;
        }
        let mut entries = self.take_staged();
        let Unwritten { entries: unwritten, effects } = &mut self.unwritten;
        for entry in &entries {
            if let LogEntry::RunStarted { run, .. } = entry {
                effects.push(DeferredEffect::Run(*run));
            }
            self.state.apply(entry, &mut |event| effects.push(DeferredEffect::Event(event)));
        }
        unwritten.append(&mut entries);
        self.note_wake();
        if self.has_unwritten() {
            self.lend();
        }
        Ok(())
    }

    /// Parks the unwritten entries, for the task of the run to write.
    fn lend(&mut self) {
        self.behind.put(LentWrite {
            memory: self.memory.clone(),
            at: self.written,
            unwritten: std::mem::take(&mut self.unwritten),
            hub: self.hub.take(),
            write: None,
            result: None,
        });
        self.is_lent = true;
    }

    /// Takes back the lent entries, and applies the result of a write by the task of the run.
    fn take_back(&mut self) {
        if !std::mem::replace(&mut self.is_lent, false) {
            return;
        }
        if let Some(LentWrite { unwritten, hub, write, result, .. }) = self.behind.take() {
            (self.unwritten, self.hub, self.write) = (unwritten, hub, write);
            if let Some(result) = result {
                let _ = self.apply_written(result); // a failure is kept, and fails the next write
            }
        }
    }

    /// Takes the staged entries, with the values of the pattern that belong to them.
    fn take_staged(&mut self) -> Vec<LogEntry> {
        if !self.staged.iter().all(LogEntry::is_of_input) {
            self.staged.splice(0..0, self.values.drain(..));
        }
        std::mem::take(&mut self.staged)
    }

    /// Stages the values of the pattern.
    pub(crate) fn stage_values(&mut self) {
        self.staged.append(&mut self.values);
    }

    /// Calls back when the staged entries are in the log, or could not be written. With nothing
    /// staged, the callback confirms that the log ends where this session expects it.
    pub(crate) fn when_written(
        &mut self,
        callback: impl FnOnce(Result<(), MemoryError>) + Send + 'static,
    ) {
        self.callbacks.push(Box::new(callback));
    }

    /// Sends the receipt of an input when the staged entries are written, or else the error.
    pub(crate) fn acknowledge(&mut self, ack: Ack<Result<Receipt, InputError>>, receipt: Receipt) {
        self.when_written(move |written| {
            let _ = ack.send(written.map(|()| receipt).map_err(InputError::Memory));
        });
    }

    /// Refuses an input, which changed nothing. The answer waits for the next flush, which records
    /// the refusal in the mailbox. Without an id or a mailbox, the flush confirms that the log ends
    /// where this session expects it.
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

    /// Writes the staged entries, then applies them: log first, then state, then events. If the
    /// future is dropped, the next call continues.
    pub(crate) async fn flush(&mut self) -> Result<(), MemoryError> {
        self.take_back();
        let has_work = |journal: &Journal| {
            journal.write.is_some()
                || journal.failed.is_some()
                || journal.has_unwritten()
                || !journal.staged.is_empty()
                || !journal.callbacks.is_empty()
        };
        while has_work(self) {
            let result = self.write().await;
            if let Err(error) = self.apply_written(result) {
                for Refusal { ack, .. } in self.refusals.drain(..) {
                    let _ = ack.send(Err(InputError::Memory(error.clone())));
                }
                return Err(error);
            }
        }
        // After the accepted inputs. A refusal is recorded again if the future was dropped
        // meanwhile.
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

    /// Appends all entries that are not written. This is the first half of a flush;
    /// [`Journal::apply_written`] is the second.
    pub(crate) async fn write(&mut self) -> Result<(), MemoryError> {
        self.take_back();
        if self.write.is_none() {
            self.write = Some(self.begin_write());
        }
        match &mut self.write {
            Some(write) => (&mut write.append).await,
            None => Ok(()),
        }
    }

    fn begin_write(&mut self) -> Write {
        let mut entries = std::mem::take(&mut self.unwritten.entries);
        let applied = entries.len();
        entries.append(&mut self.take_staged());
        let callbacks = std::mem::take(&mut self.callbacks);
        let write = Write::new(&self.memory, self.written, entries);
        let append = match &self.failed {
            Some(Failure { error, .. }) => std::future::ready(Err(error.clone())).boxed(),
            None => write.append,
        };
        Write { applied, callbacks, append, ..write }
    }

    /// Applies a write that has ended, without awaiting.
    pub(crate) fn apply_written(
        &mut self,
        result: Result<(), MemoryError>,
    ) -> Result<(), MemoryError> {
        let Some(Write { entries, applied, callbacks, .. }) = self.write.take() else {
            return Ok(());
        };
        match &result {
            Ok(()) => {
                self.written += entries.len() as u64;
                // The clock may panic. The rest is then applied when the state is rebuilt.
                self.failed = Some(Failure::stale(applied_in_part()));
                DeferredEffect::emit_all(&mut self.unwritten.effects, &mut self.hub);
                entries[applied..].iter().for_each(|entry| self.apply(entry));
                self.failed = None;
                self.note_wake();
            }
            Err(error) => {
                self.is_lost |= error.is_lost();
                self.unwritten.effects.clear();
                if applied > 0 {
                    self.failed.get_or_insert(Failure::stale(error.clone()));
                }
            }
        }
        callbacks.into_iter().for_each(|callback| callback(result.clone()));
        result
    }

    fn note_wake(&self) {
        if self.is_of_root() {
            let next = self.state.info.wakes_at();
            self.wakes_at.send_if_modified(|known| std::mem::replace(known, next) != next);
        }
    }

    fn apply(&mut self, entry: &LogEntry) {
        if let LogEntry::RunStarted { run, .. } = entry {
            self.hub.set_run(*run);
        }
        let hub = &mut self.hub;
        self.state.apply(entry, &mut |event| hub.emit(event));
    }

    /// Emits an event without a log entry.
    pub(crate) fn emit_transient(&mut self, event: AgentEvent) {
        self.hub().emit_transient(event);
    }

    /// Returns the id of the next message. An id whose message is never written leaves a gap.
    pub(crate) fn next_message_id(&mut self) -> MessageId {
        self.last_message = self.last_message.max(self.state.messages) + 1;
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
