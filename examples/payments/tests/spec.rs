//! Two servers on one file. People confirm payments in another process, and each payment is made at
//! most once wherever a server is killed.

#![allow(clippy::unwrap_used, clippy::panic, clippy::expect_used, reason = "a test may")]

mod bank;
mod cases;
mod kills;
mod world;

use loopwright_test_support::process::Binary;

/// The tested binary.
pub(crate) const BIN: Binary = Binary::new(env!("CARGO_BIN_EXE_payments"));

/// C298: the apps of the examples are short.
#[test]
fn an_app_has_at_most_60_lines() {
    for app in [include_str!("../src/main.rs"), include_str!("../../your_app/src/main.rs")] {
        assert!(app.lines().count() <= 60, "{} lines", app.lines().count());
    }
}
