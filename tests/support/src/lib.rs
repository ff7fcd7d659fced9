//! Helpers that the tests of several packages share: processes, servers, browsers and terminals.
//!
//! Packages have it as a development dependency. It depends on none of them, so their unit tests
//! can use it too.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

pub mod browser;
pub mod clients;
#[cfg(feature = "collector")]
pub mod collector;
pub mod http;
pub mod model_server;
#[cfg(unix)]
pub mod postgres;
#[cfg(target_os = "linux")]
pub mod process;
pub mod restate;
#[cfg(target_os = "linux")]
pub mod terminal;

use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time after which a waiting test fails, even on a busy machine.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// Returns the target directory of Cargo.
fn target() -> PathBuf {
    let target = std::env::var_os("CARGO_TARGET_DIR").map(PathBuf::from);
    target.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target"))
}
