//! A binary for your agents: chat in the terminal, scripts, a server with a web page, approvals.
//!
//! [`App`] gives your agents the whole command line of `loopwright`, under a name of your own:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use loopwright_cli::{AgentRejection, AgentSetup, App};
//! use loopwright_core::{AgentBuilder, GenericAgent};
//! use loopwright_patterns::PiPattern;
//!
//! fn support(setup: &AgentSetup) -> Result<AgentBuilder, AgentRejection> {
//!     Ok(GenericAgent::builder(setup.model()?, PiPattern).system("You help with invoices."))
//! }
//!
//! fn main() -> ExitCode {
//!     App::new("acme").agent("support", support).run()
//! }
//! ```
//!
//! The binary `loopwright` is built in the same way, with the coding agent.

#![cfg_attr(docsrs, feature(doc_cfg))]

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod answer;
mod app;
mod args;
mod command_context;
mod command_line;
mod commands;
mod config;
mod environment;
mod error;
mod exit_code;
mod facts;
mod interrupt;
mod log;
mod mcp;
mod options;
mod output;
mod program;
mod session;
mod settings;
mod slash;
mod stdin;
mod store_address;
mod telemetry;
mod terms;
mod time;
mod tui;
mod wording;

pub use clap;
pub use loopwright_host::{
    AgentFactory, AgentRejection, AgentSetup, CustomSetting, SessionSettings, SettingKind,
    SystemPrompt,
};

pub use app::App;
pub use command_context::CommandContext;
pub use program::OpenStoreError;
pub use slash::{SlashContext, SlashError, SlashReply};
