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
mod svg;

use loopwright_test_support::process::Binary;

/// The binary that is tested.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_loopwright"));
