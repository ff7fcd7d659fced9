//! A runtime for agents whose loop you write.
//!
//! A [`GenericAgent`] runs an input/output event loop. For each input it hands a [`StepContext`] to
//! a [`BehaviorPattern`], which is ordinary async Rust that reads like the diagram of its loop. The
//! engine owns what every loop needs: streaming, validated tool calls that each get a result,
//! approvals that survive a restart, steering during a run, memory and limits.
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
//! # Terms
//!
//! | word | meaning |
//! |---|---|
//! | session | a conversation; one task owns its state |
//! | run | the work from an input until the agent is idle: `agent_start` … `agent_end` |
//! | turn | one model reply and the tool calls in it: `turn_start` … `turn_end` |
//! | batch | the tool calls of one reply; open until every call has its result |
//! | steer | a user message that should change the run in progress |
//! | follow-up | a user message that waits until the agent would otherwise stop |
//! | external action | what the agent needs from outside: the approval of a call, or input |
//!
//! # Extension points
//!
//! - [`ChatModel`] streams a reply, and [`Tool`] carries out a call.
//! - [`Memory`] stores the log of a session, and [`SessionStore`] the logs of many.
//! - [`BehaviorPattern`] is the loop, and [`Hooks`](hooks::Hooks) change single steps.
//! - [`CompactionPolicy`](compaction::CompactionPolicy) shortens long conversations.
//! - [`Retriever`](retrieval::Retriever) finds passages for a query, and
//!   [`Embedder`](retrieval::Embedder) turns texts into vectors.
//!
//! Every reply streams; there is no stream mode to set. For whole messages, read `message_end`
//! events or await [`AgentHandle::prompt`].
//!
//! ```
//! use loopwright_core::testing::{Script, ScriptedModel};
//! use loopwright_core::{
//!     AgentEvent, BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError,
//! };
//!
//! /// Asks once, calls the tools of the reply, and answers with what they returned.
//! struct Once;
//!
//! #[async_trait::async_trait]
//! impl BehaviorPattern for Once {
//!     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
//!         step.take_input().await?;
//!         let reply = step.ask().await?.or_end()?;
//!         step.call_tools(&reply).await?.or_end()?;
//!         Ok(StepEnd::Done)
//!     }
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let model = ScriptedModel::new([Script::text("Good morning.")]);
//! let agent = GenericAgent::builder(model, Once).system("You greet.").build()?;
//! let handle = agent.session().await?;
//! let mut events = handle.subscribe();
//! let outcome = handle.prompt("Hello").await?;
//! assert_eq!(outcome.text, "Good morning.");
//! assert!(matches!(events.next().await.unwrap().event, AgentEvent::AgentStart { .. }));
//! # Ok(()) }
//! ```
//!
//! `ARCHITECTURE.md` describes the modules, the invariants, and what is deliberately absent.

#![cfg_attr(docsrs, feature(doc_cfg))]

pub mod agent;
pub mod compaction;
mod encoded;
mod environment;
pub mod error;
pub mod event;
#[doc(hidden)] // for the other crates of the workspace
pub mod excerpt;
mod extensions;
#[doc(hidden)] // for the other crates of the workspace
pub mod hex;
pub mod hooks;
pub mod json;
pub mod json_schema;
pub mod limits;
pub mod log;
#[cfg(feature = "media")]
pub mod media;
pub mod message;
pub mod model;
pub mod net;
pub mod pattern;
mod principal;
pub mod retrieval;
pub mod session;
mod step_end;
#[cfg(feature = "testing")]
pub mod testing;
pub mod tool;
mod trace_context;

// Names of the files beside this one.
pub use environment::{Environment, SystemEnvironment};
pub use extensions::Extensions;
pub use principal::Principal;
pub use step_end::StepEnd;
pub use trace_context::TraceContext;

// The most common names, which their modules have too.
pub use agent::{AgentBuilder, GenericAgent, RunContext};
pub use error::{StepError, ToolError};
pub use event::{AgentEvent, EventStream};
pub use log::{Memory, SessionStore};
pub use message::Message;
pub use model::ChatModel;
pub use pattern::{AgentContext, BehaviorPattern, StepContext};
pub use session::{AgentHandle, Ask, AskAll, Reply};
pub use tool::{Tool, ToolContext, ToolOutput, Tools, tool_fn, tool_with};

// Foreign items that appear in public signatures.
pub use async_trait::async_trait;
pub use {schemars, serde_json};
