//! Testing agents: a scripted model, gates, faults, crashes at every item, replays of logs, checks
//! of events and transcripts.
//!
//! Everything here works under tokio's paused time, so tests need no sleeps:
//!
//! ```
//! # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
//! # struct Once;
//! # #[async_trait::async_trait]
//! # impl BehaviorPattern for Once {
//! #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
//! #         step.take_input().await?;
//! #         step.ask().await?;
//! #         Ok(StepEnd::Done)
//! #     }
//! # }
//! use loopwright_core::testing::{self, Harness, Script};
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() {
//! let mut harness = Harness::new(Once, [Script::text("Hello.")], |agent| agent).await;
//! let outcome = harness.handle.prompt("Say hello.").await.unwrap();
//! assert_eq!(outcome.text, "Hello.");
//! testing::check_events(&harness.told()).unwrap();
//! # }
//! ```

mod check;
mod crash;
mod faults;
mod replay;
mod script;
mod trace;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::log::{check_log, replay_messages};
pub use check::{check_events, check_request, check_transcript};
pub use crash::{CrashReport, Scenario, crash_at_every_entry};
pub use faults::{FaultyMemory, Gate, TestTool};
pub use replay::{Difference, Replay};
pub use script::{Script, ScriptedModel};
pub use trace::trace;

use crate::agent::builder::AgentBuilder;
use crate::agent::{GenericAgent, RunContext};
use crate::environment::Environment;
use crate::error::InputError;
use crate::log::entry::LogEntry;
use crate::log::event::{AgentEvent, Envelope, ExternalAction};
use crate::log::input::Decision;
use crate::log::memory::{InMemory, Memory};
use crate::message::InputId;
use crate::pattern::BehaviorPattern;
use crate::session::handle::AgentHandle;
use crate::session::hub::EventStream;

/// Time that stands at zero, and chance that counts.
#[derive(Debug, Default)]
pub struct FixedEnvironment(AtomicU64);

impl Environment for FixedEnvironment {
    fn now(&self) -> u64 {
        0
    }

    fn random(&self) -> u64 {
        self.0.fetch_add(1, Ordering::Relaxed)
    }
}

/// A session under test: an agent with a scripted model and a memory that can be reopened.
///
/// Its methods panic where a test should fail.
pub struct Harness {
    /// Speaks to the session.
    pub handle: AgentHandle,
    /// Its events.
    pub events: EventStream,
    /// The model.
    pub model: ScriptedModel,
    /// The agent.
    pub agent: GenericAgent,
    /// The session's log.
    pub memory: InMemory,
}

impl Harness {
    /// A session of an agent with this pattern and these replies; `options` sets everything else.
    pub async fn new(
        pattern: impl BehaviorPattern + 'static,
        replies: impl IntoIterator<Item = Script>,
        options: impl FnOnce(AgentBuilder) -> AgentBuilder,
    ) -> Harness {
        Self::with_memory(pattern, replies, options, InMemory::new(), |memory| Arc::new(memory))
            .await
    }

    /// The same over a log that is there already, seen by the session through `wrap`.
    pub async fn with_memory(
        pattern: impl BehaviorPattern + 'static,
        replies: impl IntoIterator<Item = Script>,
        options: impl FnOnce(AgentBuilder) -> AgentBuilder,
        memory: InMemory,
        wrap: impl FnOnce(InMemory) -> Arc<dyn Memory>,
    ) -> Harness {
        let model = ScriptedModel::new(replies);
        let builder =
            GenericAgent::builder(model.clone(), pattern).environment(FixedEnvironment::default());
        let agent = options(builder).build().unwrap_or_else(|e| failed(&e));
        let cx = RunContext::new().session("s").shared_memory(wrap(memory.clone()));
        let (handle, events) = agent.run(cx).await.unwrap_or_else(|e| failed(&e));
        Harness { handle, events, model, agent, memory }
    }

    /// The process dies: the session is opened anew from what is in its log.
    pub async fn restart(self) -> Harness {
        let items = self.memory.items();
        self.restart_from(items).await
    }

    /// The process dies with only these items in the log.
    pub async fn restart_from(self, items: Vec<LogEntry>) -> Harness {
        let Harness { handle, events, model, agent, .. } = self;
        drop((handle, events));
        let memory = InMemory::from_items(items); // the dead process may write to the old one as it likes
        let cx = RunContext::new().session("s").memory(memory.clone());
        let (handle, events) = agent.run(cx).await.unwrap_or_else(|e| failed(&e));
        Harness { handle, events, model, agent, memory }
    }

    /// Reads events up to the first for which `stop` holds, and gives them.
    pub async fn until(&mut self, stop: impl Fn(&AgentEvent) -> bool) -> Vec<Arc<Envelope>> {
        let mut seen = Vec::new();
        while let Some(event) = self.events.next().await {
            seen.push(event.clone());
            if stop(&event.event) {
                return seen;
            }
        }
        failed(&format!("the event never came; seen:\n{}", trace(&seen)))
    }

    /// Reads events up to the next `agent_end`, and gives them.
    pub async fn run_end(&mut self) -> Vec<Arc<Envelope>> {
        self.until(|event| matches!(event, AgentEvent::AgentEnd(_))).await
    }

    /// The events that lie unread.
    pub fn told(&mut self) -> Vec<Arc<Envelope>> {
        std::iter::from_fn(|| self.events.try_next()).collect()
    }

    /// The calls that wait for an answer.
    pub async fn pending(&self) -> Vec<ExternalAction> {
        self.handle.pending().await.unwrap_or_else(|e| failed(&e))
    }

    /// Resolves the pending action at `index`, counted in the order of [`Harness::pending`].
    pub async fn resolve(&self, index: usize, decision: Decision) -> Result<InputId, InputError> {
        let pending = self.pending().await;
        let Some(action) = pending.get(index) else {
            failed(&format!("no pending action {index}: there are {}", pending.len()))
        };
        self.handle.resolve(action.call.clone(), action.digest.clone(), decision).await
    }

    /// The conversation, a line a message: see [`trace`].
    pub async fn transcript(&self) -> Vec<String> {
        let state = self.handle.state().await.unwrap_or_else(|e| failed(&e));
        state.messages.iter().map(|m| trace::line(m)).collect()
    }

    /// Checks the log and the conversation against the rules that hold for every agent.
    pub async fn check(&self) {
        let state = self.handle.state().await.unwrap_or_else(|e| failed(&e));
        check_log(&self.memory.items()).unwrap_or_else(|e| failed(&e));
        if state.pending_tool_calls.is_empty() {
            check_transcript(&state.messages).unwrap_or_else(|e| failed(&e));
        }
        let folded = replay_messages(&self.memory.items());
        let lines = |messages: &[Arc<crate::Message>]| {
            messages.iter().map(|m| trace::line(m)).collect::<Vec<_>>()
        };
        if lines(&folded) != lines(&state.messages) {
            failed(&format!(
                "RAM is not the fold of the log:\n{:#?}\n{:#?}",
                lines(&folded),
                lines(&state.messages)
            ))
        }
    }
}

/// The one place where this module panics: a test has failed.
#[allow(clippy::panic, reason = "a failed check is a failed test")]
pub(crate) fn failed(why: &dyn std::fmt::Display) -> ! {
    panic!("{why}")
}
