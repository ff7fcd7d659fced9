//! Agents by name, for programs that run sessions for users: `loopwright-server`, the terminal of
//! `loopwright-cli`, or a front end of your own. Nothing here knows HTTP.
//!
//! An [`AgentFactory`] builds the agent of each session: a function, or one
//! [`GenericAgent`](loopwright_core::GenericAgent) for all sessions. It receives an [`AgentSetup`]:
//! the [`SessionSettings`] of the session, the principal, and the [`Models`]. [`Agents`] has the
//! factories by name, and checks what clients ask for against the [`OperatorRules`].
//!
//! ```
//! use loopwright_core::testing::{Script, ScriptedModel};
//! use loopwright_core::{AgentBuilder, GenericAgent};
//! use loopwright_host::{AgentFactory, AgentRejection, AgentSetup, SessionSettings};
//! use loopwright_patterns::PiPattern;
//!
//! fn support(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
//!     let model = ScriptedModel::new([Script::text("Invoice 7 is paid.")]);
//!     let prompt = setup.system().unwrap_or("You help with invoices.");
//!     Ok(GenericAgent::builder(model, PiPattern).system(prompt))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let mut settings = SessionSettings::new();
//! settings.max_turns = Some(10);
//! let agent = support.build(&AgentSetup::new(settings)).await?;
//! let outcome = agent.session().await?.prompt("Is invoice 7 paid?").await?;
//! assert_eq!(outcome.text, "Invoice 7 is paid.");
//! # Ok(()) }
//! ```
//!
//! # Features
//!
//! - `coding-agent` (on by default): `CodingAgent`, which works on files below roots with the
//!   coding tools, and `EnvModels`, the models of the known providers. Without it the crate depends
//!   on neither providers nor tools, patterns and memory.
//! - `long-term` (on by default): facts that outlive sessions, for `CodingAgent`.
//! - `rustls-ring` (on by default): TLS for `EnvModels`; without it only `http://` addresses work.

#![cfg_attr(docsrs, feature(doc_cfg))]

mod agents;
#[cfg(feature = "coding-agent")]
mod coding_agent;
mod error;
mod rejection;
mod rules;
mod settings;

pub use agents::{
    AgentFactory, AgentSetup, Agents, Models, RequestAgent, RequestOptions, SystemPrompt,
};
#[cfg(feature = "coding-agent")]
#[cfg_attr(docsrs, doc(cfg(feature = "coding-agent")))]
pub use coding_agent::{CodingAgent, CodingAgentBuilder, EnvModels};
pub use error::ConfigError;
pub use rejection::{AgentRejection, RejectionKind};
pub use rules::OperatorRules;
pub use settings::{
    CustomSetting, LlmConfig, SessionSettings, Setting, SettingKind, SettingPlace, SettingScope,
    SettingType, SettingsChange,
};
