//! `loopwright mcp` with clients of the protocol: the command line of the official inspector, and
//! the client of loopwright.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod inspector;
mod own_client;

use loopwright_test_support::process::Binary;

/// The binary that is tested.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_loopwright"));
