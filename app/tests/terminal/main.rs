//! The terminal app in a real terminal (tmux), with the test's model server behind it.
//!
//! Needs Debian's `tmux`, which `.ci/run` installs.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may")]

mod attached;
mod conversation;
mod display;
mod exit;
mod memory;
mod picture;
#[path = "../spec/process.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod process;
#[path = "../spec/server.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod server;
mod svg;
mod tmux;

/// The binary that is tested.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_loopwright");
