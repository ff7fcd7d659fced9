//! The runtime where you write the loop.
//!
//! A [`GenericAgent`] runs an input/output event loop. For each input it hands a [`StepContext`] to
//! a [`BehaviorPattern`], which is ordinary async Rust that reads like the diagram of its loop. The
//! engine owns what every loop needs: streaming, tool calls that are validated and always answered,
//! human confirmation that survives a restart, steering while the agent works, memory, limits.
//!
//! ```text
//!            inputs                                      events
//!   prompt, steer, follow-up,              agent_start, turn_start, message_update,
//!   decision, abort                        tool_execution_*, external_action, agent_end
//!        │                                                 ▲
//!        ▼                                                 │
//!  AgentHandle ──▶ session task ──▶ BehaviorPattern ──▶ EventStream
//!                       │             next_step(StepContext)
//!                       │               take_input · ask · call_tools · take_steering · …
//!                       ▼                     │            │
//!                  Memory (the log)       ChatModel      Tool
//! ```
//!
//! # Words
//!
//! | word | meaning |
//! |---|---|
//! | session | one conversation; one task owns its state |
//! | run | from one input until the agent rests again: `agent_start` … `agent_end` |
//! | turn | one model reply and the tool calls in it: `turn_start` … `turn_end` |
//! | batch | the tool calls of one reply; open until every call has its result |
//! | steer | a user message that should change the run that is going on |
//! | follow-up | a user message that waits until the agent would otherwise stop |
//! | external action | something the agent needs from outside: above all, the confirmation of a call |
//!
//! # The seams
//!
//! [`ChatModel`] streams a reply, [`Tool`] does something, [`Memory`] keeps the session's log and a
//! [`SessionStore`] the logs of many, [`CompactionPolicy`](compaction::CompactionPolicy) says what a long conversation may leave
//! out, and [`BehaviorPattern`] is the loop. Every reply streams: whoever wants whole messages
//! reads `message_end` events or awaits [`AgentHandle::prompt`], so there is no stream mode to set.
//!
//! ```
//! use loopwright_core::testing::{Script, ScriptedModel};
//! use loopwright_core::{
//!     AgentEvent, BehaviorPattern, GenericAgent, RunContext, StepContext, StepEnd, StepError,
//! };
//!
//! /// Asks once, calls the tools of the reply, and answers with what they returned.
//! struct Once;
//!
//! #[async_trait::async_trait]
//! impl BehaviorPattern for Once {
//!     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
//!         step.take_input().await?;
//!         let reply = step.ask().await?;
//!         if reply.should_stop() {
//!             return reply.finish();
//!         }
//!         match step.call_tools(&reply).await? {
//!             batch if batch.awaits_user() => Ok(StepEnd::AwaitingAction),
//!             _ => Ok(StepEnd::Done),
//!         }
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedModel::new([Script::text("Good morning.")]);
//! let agent = GenericAgent::builder(model, Once).system("You greet.").build()?;
//! let (handle, mut events) = agent.run(RunContext::new()).await?;
//! let outcome = handle.prompt("Hello").await?;
//! assert_eq!(outcome.text, "Good morning.");
//! assert!(matches!(events.next().await.unwrap().event, AgentEvent::AgentStart { .. }));
//! # Ok(()) }
//! ```
//!
//! Where things are, what always holds and what is deliberately absent is in `ARCHITECTURE.md`.

pub mod agent;
mod encoded;
mod environment;
pub mod error;
mod extensions;
mod ids;
mod limits;
pub mod log;
pub mod message;
pub mod model;
pub mod pattern;
mod session;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tool;

/// What goes into a session and what comes out of it.
pub mod event {
    pub use crate::log::event::{
        AgentEvent, Envelope, ExternalAction, Parent, Role, RunCause, RunOutcome, RunStatus,
    };
    pub use crate::log::input::{
        ActionResult, Decision, InputEvent, Prompt, Provided, QueueKind, QueueMode, Urgency,
    };
    pub use crate::model::Update;
    pub use crate::session::hub::EventStream;
}

/// Functions that see and change what an agent does, without a pattern of their own.
pub mod hooks {
    pub use crate::session::hooks::{
        BeforeEnd, BeforeToolCall, Conversation, EndCheck, FnAfterToolCall, FnBeforeToolCall,
        FnConvertToLlm, FnHandleBeforeEnd, FnHandleStepTextPart, FnPrepareTools,
        FnTransformContext, HookContext, Hooks, PrepareTools, TextAction, TextPart, ToolCallInfo,
    };
}

/// Keeping a long conversation inside the model's context window.
pub mod compaction {
    pub use crate::log::compaction::{
        Compaction, CompactionCause, CompactionContext, CompactionPlan, CompactionPolicy,
        Replacement, SummaryRequest,
    };
}

pub use agent::{AgentBuilder, AgentHandle, GenericAgent, RunContext};
pub use event::{AgentEvent, EventStream};
pub use log::{Memory, SessionStore};
pub use message::Message;
pub use model::ChatModel;
pub use pattern::{AgentContext, Ask, BehaviorPattern, Reply, StepContext, StepEnd, StepError};
pub use tool::{Tool, ToolContext, ToolError, ToolOutput, tool_fn, tool_with};
