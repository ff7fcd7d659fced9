//! The runtime where you write the loop.
//!
//! A [`GenericAgent`] runs an input/output event loop. For each input it hands a [`StepContext`] to a
//! [`BehaviorPattern`], which is ordinary async Rust that reads like the diagram of its loop. The engine
//! owns what every loop needs: streaming, tool calls that are validated and always answered, human
//! confirmation that survives a restart, steering while the agent works, memory, limits.
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
//! [`ChatModel`] streams a reply, [`Tool`] does something, [`Memory`] keeps the session's log and a [`MemoryStore`]
//! the logs of many, [`Compact`] says what a long conversation may leave out, and [`BehaviorPattern`] is the loop.
//! Every reply streams: whoever wants whole messages reads `message_end`
//! events or awaits [`AgentHandle::prompt`], so there is no stream mode to set.
//!
//! ```
//! use loopwright::testing::{Script, ScriptedModel};
//! use loopwright::*;
//!
//! /// Asks once, calls the tools of the reply, and answers with what they returned.
//! struct Once;
//!
//! #[async_trait::async_trait]
//! impl BehaviorPattern for Once {
//!     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
//!         step.take_input().await?;
//!         let reply = step.ask().await?;
//!         if reply.ended() {
//!             return reply.into();
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

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod agent;
mod ambient;
mod aside;
mod ask;
mod assemble;
mod batch;
mod builder;
mod calls;
mod compact;
mod compaction;
mod config;
mod context;
mod crew;
mod encoded;
mod error;
mod event;
mod extensions;
mod fold;
mod handle;
mod hear;
mod hooks;
mod hub;
mod ids;
mod input;
mod item;
mod limits;
mod memory;
mod message;
mod model;
mod partial;
mod past;
mod pattern;
mod queue;
mod run;
mod schema;
mod session;
mod settle;
mod state;
mod step;
mod store;
mod stream;
mod task;
pub mod testing;
mod tool;
mod tool_fn;
mod toolbox;
mod turn;

pub use agent::{GenericAgent, RunContext};
pub use ambient::{Ambient, SystemAmbient};
pub use ask::{Ask, Reply};
pub use batch::BatchEnd;
pub use builder::AgentBuilder;
pub use compact::{Compact, CompactCause, CompactContext, CompactPlan, Compaction, Replacement, SummaryRequest};
pub use config::WhileAwaiting;
pub use context::AgentContext;
pub use error::{
    AgentError, InputError, MemoryError, ModelError, ModelErrorKind, Need, StepError, ToolError, ToolboxError,
};
pub use event::{AgentEvent, EndKind, Envelope, ExternalAction, Parent, Role, RunCause, RunOutcome, Update};
pub use extensions::Extensions;
pub use handle::AgentHandle;
pub use hooks::{
    BeforeEnd, BeforeToolCall, EndCheck, FnAfterToolCall, FnBeforeToolCall, FnConvertToLlm, FnHandleBeforeEnd,
    FnHandleStepTextPart, FnPrepareTools, FnTransformContext, PrepareTools, TextAction, TextPart, ToolCallInfo,
};
pub use hub::EventStream;
pub use input::{ActionResult, Decision, InputEvent, Lane, Prompt, QueueMode, Urgency};
pub use item::Item;
pub use limits::{Limit, Limits};
pub use memory::{InMemory, Memory};
pub use message::{
    AssistantMessage, Body, CallId, Content, CustomMessage, History, InputId, Message, MessageId, Part, ResultStatus,
    RunId, StopReason, ToolCall, ToolResult, Usage, UserMessage,
};
pub use model::{
    BlockKind, ChatModel, ChatRequest, LongPrices, ModelEvent, ModelInfo, OutputSchema, Prices, ThinkingLevel,
    ToolChoice, ToolList,
};
pub use partial::PartialJson;
pub use past::{Branch, Past};
pub use pattern::{BehaviorPattern, StepEnd};
pub use state::AgentState;
pub use step::{Remember, StepContext};
pub use store::{Found, InMemoryStore, MemoryStore, PendingAction, PendingFilter, SessionInfo};
pub use tool::{
    Answer, Approval, ApprovalPredicate, Effect, Progress, Tool, ToolContext, ToolOutput, ToolSource, ToolSpec,
    ToolUpdate,
};
pub use tool_fn::{FnTool, tool_fn, tool_with};
pub use toolbox::Toolbox;
