//! Code mode: scripts of the model, in processes of their own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod approval;
mod conformance;
#[allow(dead_code, reason = "the test does not call `main`")]
#[path = "../../examples/code_mode.rs"]
mod example;
mod kit;
mod limits;
mod scripts;
mod stops;
mod tokens;

/// C548: The example runs, with an approval in the middle of its script.
#[tokio::test]
async fn the_example_runs() {
    example::run(kit::interpreter()).await.unwrap();
}
