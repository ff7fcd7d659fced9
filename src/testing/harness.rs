//! [`Harness`]: a session under test. [`until`]: the events of any session up to one.

use std::sync::Arc;

use super::check::check_transcript;
use super::failure::fail;
use super::script::Script;
use super::scripted_model::ScriptedModel;
use super::test_clock::TestClock;
use super::trace::{line, trace};
use crate::agent::builder::AgentBuilder;
use crate::agent::{GenericAgent, RunContext};
use crate::error::InputError;
use crate::event::action::ExternalAction;
use crate::event::hub::EventStream;
use crate::event::input::Decision;
use crate::event::{AgentEvent, Envelope};
use crate::log::check_log;
use crate::log::entry::LogEntry;
use crate::log::memory::{InMemory, Memory};
use crate::log::replay_messages;
use crate::message::{InputId, Message};
use crate::pattern::BehaviorPattern;
use crate::session::handle::AgentHandle;

/// A session under test: an agent with a scripted model, a clock that the test moves, and a log
/// that can be reopened.
///
/// # Panics
///
/// Methods panic, and so fail the test, if the session returns an error or a check fails.
///
/// # Example
///
/// ```
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Once;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         step.ask().await?;
/// #         Ok(StepEnd::Done)
/// #     }
/// # }
/// use loopwright_core::testing::{Harness, Script};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let replies = [Script::text("Hello."), Script::text("Hello again.")];
/// let mut harness = Harness::new(Once, replies, |agent| agent).await;
/// harness.handle.prompt("Hello").await.unwrap();
/// assert_eq!(harness.transcript().await, ["U:Hello", "A:Hello./Stop"]);
/// harness.check().await;
///
/// let harness = harness.restart().await; // the session is reopened from its log
/// let outcome = harness.handle.prompt("Hello").await.unwrap();
/// assert_eq!(outcome.text, "Hello again.");
/// assert_eq!(harness.model.requests()[1].messages.len(), 3);
/// # }
/// ```
pub struct Harness {
    /// The handle of the session.
    pub handle: AgentHandle,
    /// The stream of the session's events.
    pub events: EventStream,
    /// The model, with its scripts and the requests that it has received.
    pub model: ScriptedModel,
    /// The agent, which also reopens the session after a restart.
    pub agent: GenericAgent,
    /// The log of the session.
    pub memory: InMemory,
    /// The clock of the session, unless the options of the agent set another environment.
    pub clock: TestClock,
}

/// Waits for the first event for which `stop` returns true, and returns the events up to and
/// including it.
///
/// # Panics
///
/// Panics if the event stream ends first.
pub async fn until(
    events: &mut EventStream,
    stop: impl Fn(&AgentEvent) -> bool,
) -> Vec<Arc<Envelope>> {
    let mut seen = Vec::new();
    while let Some(event) = events.next().await {
        seen.push(event.clone());
        if stop(&event.event) {
            return seen;
        }
    }
    fail(&format!("the event stream ended without the event; received:\n{}", trace(&seen)))
}

impl Harness {
    /// Opens a session of an agent with this pattern and these replies. `options` sets the rest of
    /// the agent.
    pub async fn new(
        pattern: impl BehaviorPattern + 'static,
        replies: impl IntoIterator<Item = Script>,
        options: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Harness {
        Self::with_memory(pattern, replies, options, InMemory::new(), |memory| Arc::new(memory))
            .await
    }

    /// Opens a session like [`Harness::new`], over the log in `memory`. The session uses the memory
    /// that `wrap` returns, for example a [`FaultyMemory`](super::FaultyMemory).
    pub async fn with_memory(
        pattern: impl BehaviorPattern + 'static,
        replies: impl IntoIterator<Item = Script>,
        options: impl FnOnce(AgentBuilder) -> AgentBuilder,
        memory: InMemory,
        wrap: impl FnOnce(InMemory) -> Arc<dyn Memory>,
    ) -> Harness {
        let model = ScriptedModel::new(replies);
        let clock = TestClock::default();
        let builder = GenericAgent::builder(model.clone(), pattern).environment(clock.clone());
        let agent = options(builder).build().unwrap_or_else(|e| fail(&e));
        let cx = RunContext::new().session("s").shared_memory(wrap(memory.clone()));
        let (handle, events) = agent.run(cx).await.unwrap_or_else(|e| fail(&e));
        Harness { handle, events, model, agent, memory, clock }
    }

    /// Simulates the death of the process: drops the session, and opens it again from its log.
    pub async fn restart(self) -> Harness {
        let entries = self.memory.entries();
        self.restart_from(entries).await
    }

    /// Simulates the death of the process with only these entries in the log.
    pub async fn restart_from(self, entries: Vec<LogEntry>) -> Harness {
        let Harness { handle, events, model, agent, clock, .. } = self;
        drop((handle, events));
        // The dropped session may still write to the old memory.
        let memory = InMemory::from_entries(entries);
        let cx = RunContext::new().session("s").memory(memory.clone());
        let (handle, events) = agent.run(cx).await.unwrap_or_else(|e| fail(&e));
        Harness { handle, events, model, agent, memory, clock }
    }

    /// Waits for an event of the session, as [`until`] does.
    pub async fn until(&mut self, stop: impl Fn(&AgentEvent) -> bool) -> Vec<Arc<Envelope>> {
        until(&mut self.events, stop).await
    }

    /// Waits for the next `agent_end`, and returns the events up to and including it.
    pub async fn run_end(&mut self) -> Vec<Arc<Envelope>> {
        self.until(|event| matches!(event, AgentEvent::AgentEnd(_))).await
    }

    /// Returns the emitted events that were not read yet, without waiting.
    pub fn drain_events(&mut self) -> Vec<Arc<Envelope>> {
        std::iter::from_fn(|| self.events.try_next()).collect()
    }

    /// Returns the pending actions of the session.
    pub async fn pending(&self) -> Vec<ExternalAction> {
        self.handle.pending().await.unwrap_or_else(|e| fail(&e))
    }

    /// Resolves the pending action at `index` in the order of [`Harness::pending`].
    ///
    /// # Errors
    ///
    /// Returns the error of [`AgentHandle::resolve`].
    pub async fn resolve(&self, index: usize, decision: Decision) -> Result<InputId, InputError> {
        let pending = self.pending().await;
        let Some(action) = pending.get(index) else {
            fail(&format!("there is no pending action {index}: there are {}", pending.len()))
        };
        self.handle.resolve(action, decision).await
    }

    /// Returns the conversation, one line per message: `U:text` for the user,
    /// `A:text[calls]/Stop` for the assistant, `R:call/Status` for a result, and `C:kind` for a
    /// custom message.
    pub async fn transcript(&self) -> Vec<String> {
        let state = self.handle.state().await.unwrap_or_else(|e| fail(&e));
        state.messages.iter().map(|m| line(m)).collect()
    }

    /// Checks the log and the conversation against the rules of every agent, and that the
    /// conversation in memory equals the conversation in the log.
    pub async fn check(&self) {
        let state = self.handle.state().await.unwrap_or_else(|e| fail(&e));
        check_log(&self.memory.entries()).unwrap_or_else(|e| fail(&e));
        if state.pending_tool_calls.is_empty() {
            check_transcript(&state.messages).unwrap_or_else(|e| fail(&e));
        }
        let lines =
            |messages: &[Arc<Message>]| messages.iter().map(|m| line(m)).collect::<Vec<_>>();
        let logged = lines(&replay_messages(&self.memory.entries()));
        let current = lines(&state.messages);
        if logged != current {
            fail(&format!(
                "the conversation is not that of the log:\nlog: {logged:#?}\nnow: {current:#?}"
            ))
        }
    }
}
