//! The page in a real Chromium, served by `loopwright serve`, with a model whose replies each test
//! controls.
//!
//! Needs Debian's `chromium`, which `.ci/run` installs. Pictures of it are saved in
//! `target/screenshots/`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod access;
mod breaks;
mod fixture;
mod images;
mod inbox;
mod layout;
mod markdown;
mod memory;
mod origins;
mod previews;
mod questions;
mod settings;
mod stages;
mod stored_sessions;
mod sub_agents;
mod tabs;
mod todos;
mod untrusted_text;
mod usage;

use loopwright_test_support::process::Binary;

/// The binary that is tested.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_loopwright"));
