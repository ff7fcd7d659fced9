//! Writing of entries that are applied before they are written.
//!
//! These entries belong to the journal. While a pattern awaits something other than the session,
//! the journal is out of reach. So the unwritten entries are left in a [`LentWrite`], which the
//! task of the run writes while it waits for the pattern.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;

use crate::error::MemoryError;
use crate::event::AgentEvent;
use crate::event::hub::Hub;
use crate::log::entry::LogEntry;
use crate::log::memory::Memory;
use crate::message::RunId;
use crate::session::panics::without_panic;

pub(crate) type WriteCallback = Box<dyn FnOnce(Result<(), MemoryError>) + Send>;

/// An append in progress.
pub(crate) struct Write {
    pub(crate) entries: Arc<[LogEntry]>,
    pub(crate) append: BoxFuture<'static, Result<(), MemoryError>>,
    pub(crate) callbacks: Vec<WriteCallback>,
    /// Number of entries, from the first, that are already applied.
    pub(crate) applied: usize,
}

impl Write {
    /// Creates the append of these entries at the end of the log. It starts when it is polled
    /// first.
    pub(crate) fn new(memory: &Arc<dyn Memory>, at: u64, entries: Vec<LogEntry>) -> Self {
        let entries: Arc<[LogEntry]> = entries.into();
        let (memory, appended) = (memory.clone(), entries.clone());
        // If the memory panics after its write succeeded, the next append detects it.
        let append = without_panic(async move { memory.append(at, appended).await }).boxed();
        Write { entries, append, callbacks: Vec::new(), applied: 0 }
    }
}

/// Entries that are applied, but neither written nor being written.
#[derive(Default)]
pub(crate) struct Unwritten {
    pub(crate) entries: Vec<LogEntry>,
    /// Their effects, deferred until they are written.
    pub(crate) effects: Vec<DeferredEffect>,
}

/// An effect of an entry, deferred until the entry is written.
pub(crate) enum DeferredEffect {
    Run(RunId),
    Event(AgentEvent),
}

impl DeferredEffect {
    pub(crate) fn emit_all(effects: &mut Vec<DeferredEffect>, hub: &mut Hub) {
        for effect in effects.drain(..) {
            match effect {
                DeferredEffect::Run(run) => hub.set_run(run),
                DeferredEffect::Event(event) => hub.emit(event),
            }
        }
    }
}

/// The parts that the journal lends to the task of the run to write its entries, and the result.
pub(crate) struct LentWrite {
    // The memory is released before the hub closes the event streams.
    pub(crate) write: Option<Write>,
    pub(crate) memory: Arc<dyn Memory>,
    pub(crate) at: u64,
    pub(crate) unwritten: Unwritten,
    pub(crate) hub: Hub,
    pub(crate) result: Option<Result<(), MemoryError>>,
}

impl LentWrite {
    fn poll(&mut self, cx: &mut Context<'_>) {
        if self.result.is_some() {
            return;
        }
        let LentWrite { memory, at, unwritten, hub, write, result } = self;
        let write = write.get_or_insert_with(|| {
            let entries = std::mem::take(&mut unwritten.entries);
            Write { applied: entries.len(), ..Write::new(memory, *at, entries) }
        });
        let Poll::Ready(written) = write.append.poll_unpin(cx) else { return };
        if written.is_ok() {
            // The clock may panic. Then the state is rebuilt, and the append is not polled again.
            *result = Some(Err(applied_in_part()));
            DeferredEffect::emit_all(&mut unwritten.effects, hub);
        }
        *result = Some(written);
    }
}

/// Returns the error with which writes fail after a panic of the clock, until the state is rebuilt.
pub(crate) fn applied_in_part() -> MemoryError {
    MemoryError::Failed("a panic came before all entries of an append were applied".into())
}

/// The slot in which a journal leaves unwritten entries for the task of the run.
#[derive(Clone, Default)]
pub(crate) struct WriteBehind(Arc<Slot>);

#[derive(Default)]
struct Slot {
    /// Unwritten entries are lent. The flag saves the wait for the pattern a lock.
    is_unwritten: AtomicBool,
    lent: Mutex<Option<LentWrite>>,
}

impl WriteBehind {
    pub(crate) fn put(&self, lent: LentWrite) {
        *self.lent() = Some(lent);
        self.0.is_unwritten.store(true, Ordering::Release);
    }

    pub(crate) fn take(&self) -> Option<LentWrite> {
        self.0.is_unwritten.store(false, Ordering::Release);
        self.lent().take()
    }

    /// Returns whether unwritten entries are lent.
    pub(crate) fn is_unwritten(&self) -> bool {
        self.0.is_unwritten.load(Ordering::Acquire)
    }

    /// Polls the append of the lent entries, and emits their events when it has succeeded.
    pub(crate) fn poll_write(&self, cx: &mut Context<'_>) {
        if self.is_unwritten()
            && let Some(lent) = &mut *self.lent()
        {
            lent.poll(cx);
            self.0.is_unwritten.store(lent.result.is_none(), Ordering::Release);
        }
    }

    fn lent(&self) -> MutexGuard<'_, Option<LentWrite>> {
        self.0.lent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
