//! Tools for testing agents: a scripted model, gates, faults, a crash after every append, replays
//! of logs, cassettes of models and tools, and checks of events and transcripts.
//!
//! All of them work under tokio's paused time, so tests need no sleeps. It is in tokio's feature
//! `test-util`, which `full` does not include (`cargo add --dev tokio --features
//! macros,rt,test-util`); without it, `#[tokio::test(start_paused = true)]` does not compile.
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
//! testing::check_events(&harness.drain_events()).unwrap();
//! # }
//! ```

mod cassette;
mod check;
mod check_error;
mod crash;
mod excerpt;
mod failure;
mod faulty_memory;
mod gate;
mod harness;
mod log_text;
mod recording;
mod replay;
mod request_text;
mod script;
mod scripted_model;
mod test_clock;
mod test_tool;
mod trace;

pub use cassette::{Cassette, CassetteError, CassetteErrorKind};
pub use check::{check_events, check_request, check_transcript};
pub use check_error::CheckError;
pub use crash::{
    CrashReport, ScriptedInput, ScriptedSession, TreeInput, TreeReport, crash_at_every_append,
    crash_tree, default_decision,
};
pub use faulty_memory::FaultyMemory;
pub use gate::Gate;
pub use harness::{Harness, until};
pub use log_text::{entry_name, log_text};
pub use replay::{Difference, Replay};
pub use script::Script;
pub use scripted_model::ScriptedModel;
pub use test_clock::TestClock;
pub use test_tool::TestTool;
pub use trace::trace;
