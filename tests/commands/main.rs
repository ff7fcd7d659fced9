//! Commands that are slow to test: real work with a compiler, and commands that mean no good.
//!
//! `cargo test --test commands`; Linux only.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod session;
mod torture;
mod work;
