//! [`InputQueue`]: the unsent inputs of a session, and a memory that sends them when their
//! condition holds.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use async_trait::async_trait;

use super::scripted_session::{EffectCount, ScriptedInput};
use crate::error::MemoryError;
use crate::log::entry::LogEntry;
use crate::log::memory::{InMemory, Memory};
use crate::log::snapshots::{Snapshot, Snapshots};
use crate::session::handle::AgentHandle;

/// The unsent inputs, which also act as the session's memory to see the logged entries. Clones
/// share the inputs and the log.
#[derive(Clone)]
pub(super) struct InputQueue {
    log: InMemory,
    /// The state of the log, for a session that is reopened.
    snapshot: Option<Snapshot>,
    effects: Option<EffectCount>,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// The handle for sending; `None` until the session is open.
    handle: Option<AgentHandle>,
    unsent: VecDeque<ScriptedInput>,
    sent: Vec<SentInput>,
    appends: Vec<Append>,
}

/// An append in the log.
#[derive(Clone, Copy)]
pub(super) struct Append {
    /// Length of the log after the append.
    pub(super) end: usize,
    /// Number of side effects before the append.
    pub(super) effects: u64,
}

/// An input that was sent.
#[derive(Clone)]
pub(super) struct SentInput {
    pub(super) number: usize,
    /// Length of the log when the input was sent.
    pub(super) log_len: usize,
    /// `true` if its condition held, so that the agent need not have been idle.
    pub(super) was_due: bool,
}

impl InputQueue {
    pub(super) fn new(
        log: InMemory,
        inputs: &[ScriptedInput],
        snapshot: Option<Snapshot>,
        effects: Option<EffectCount>,
    ) -> Self {
        let state = State { unsent: inputs.iter().cloned().collect(), ..State::default() };
        InputQueue { log, snapshot, effects, state: Arc::new(Mutex::new(state)) }
    }

    /// Sets the handle for sending inputs with a condition.
    pub(super) fn set_handle(&self, handle: AgentHandle) {
        self.state().handle = Some(handle);
    }

    /// Returns the entries of the log.
    pub(super) fn entries(&self) -> Vec<LogEntry> {
        self.log.entries()
    }

    /// Removes and returns the next input.
    pub(super) fn next(&self) -> Option<ScriptedInput> {
        self.take_if(false, |_| true)
    }

    /// Returns the inputs sent so far.
    pub(super) fn sent(&self) -> Vec<SentInput> {
        self.state().sent.clone()
    }

    /// Returns the appends so far.
    pub(super) fn appends(&self) -> Vec<Append> {
        self.state().appends.clone()
    }

    fn take_if(
        &self,
        was_due: bool,
        is_wanted: impl Fn(&ScriptedInput) -> bool,
    ) -> Option<ScriptedInput> {
        let mut state = self.state();
        let input =
            state.unsent.front().is_some_and(is_wanted).then(|| state.unsent.pop_front())??;
        let log_len = self.log.entries().len();
        state.sent.push(SentInput { number: input.number, log_len, was_due });
        Some(input)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl Memory for InputQueue {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let effects = self.effects.as_ref().map_or(0, |count| count());
        self.log.append(at, entries.clone()).await?;
        if !entries.is_empty() {
            let end = at as usize + entries.len();
            self.state().appends.push(Append { end, effects });
        }
        let is_due = |input: &ScriptedInput| input.is_due(&entries);
        let handle = self.state().handle.clone();
        if let Some(handle) = handle
            && let Some(input) = self.take_if(true, is_due)
        {
            drop(handle.post(input.input, None));
            // The session's task receives the input before the pattern continues.
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.log.load(from).await
    }
}

#[async_trait]
impl Snapshots for InputQueue {
    async fn latest(&self) -> Result<Option<Snapshot>, MemoryError> {
        Ok(self.snapshot.clone())
    }

    async fn store(&self, _: Snapshot) -> Result<(), MemoryError> {
        Ok(())
    }
}
