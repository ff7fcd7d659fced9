//! The page in a real Chromium: `loopwright serve` behind it, and behind that a model whose words
//! come when a test says so.
//!
//! Needs Debian's `chromium`, which `.ci/run` installs. Pictures of it are saved in
//! `target/screenshots/`.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod access;
mod begun;
mod breaks;
mod browser;
mod looks;
mod markdown;
mod place;
#[path = "../spec/process.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod process;
#[path = "../spec/server.rs"]
#[allow(dead_code, reason = "shared with the specification, which uses all of it")]
mod server;
mod use_of_it;
mod what_models_say;
