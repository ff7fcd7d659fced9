//! `loopwright mcp` with clients of the protocol: the command line of the official inspector, and
//! the client of loopwright.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod inspector;
#[path = "../../../server/tests/clients/installed.rs"]
mod installed;
mod own_client;
#[path = "../spec/process.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod process;
#[path = "../spec/server.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod server;

/// The binary that is tested.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_loopwright");
