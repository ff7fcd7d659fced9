//! Two servers on one file: payments are confirmed by others in another process, and each is made
//! at most once wherever a server is killed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may")]

#[path = "../../../app/tests/spec/http.rs"]
#[allow(dead_code, reason = "shared with the tests of `loopwright`, which use all of it")]
mod http;
#[path = "../../../app/tests/spec/process.rs"]
#[allow(dead_code, reason = "shared with the tests of `loopwright`, which use all of it")]
mod process;
#[path = "../../../app/tests/spec/server.rs"]
#[allow(dead_code, reason = "shared with the tests of `loopwright`, which use all of it")]
mod server;

mod bank;
mod cases;
mod kills;
mod world;

/// The binary that is tested.
pub(crate) const BIN: &str = env!("CARGO_BIN_EXE_payments");

/// C298: the apps of the examples are short.
#[test]
fn an_app_has_at_most_60_lines() {
    for app in [include_str!("../src/main.rs"), include_str!("../../your_app/src/main.rs")] {
        assert!(app.lines().count() <= 60, "{} lines", app.lines().count());
    }
}
