//! Tests of the command line through the built binary. No test needs the network or a key.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod acp;
mod addresses;
mod agents_md;
mod approvals;
mod attached;
mod chat;
mod config;
mod confirmation;
mod cut_off;
mod exit_codes;
#[cfg(not(any(feature = "fleet", feature = "oidc")))]
mod features;
mod foreign_sessions;
mod guard;
mod init;
mod json;
mod mcp;
mod mcp_servers;
mod memory;
mod model;
mod models;
mod outputs;
mod patterns;
mod prompt;
mod questions;
mod schedules;
mod scripts;
mod serve;
mod sessions;
mod shell;
mod sub_agents;
mod terminal;
mod todos;
mod tools;
mod until;

use loopwright_test_support::process::Binary;

/// The binary that is tested.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_loopwright"));
