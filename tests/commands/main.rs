//! Slow tests of commands: real work with a compiler, and hostile commands.
//!
//! `cargo test --test commands`; Linux only.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a failed check is a failed test")]

mod session;
mod torture;
mod work;
