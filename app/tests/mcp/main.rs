//! `loopwright mcp` with clients of the protocol: the command line of the official inspector, and
//! the client of the official SDK.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

#[test]
fn it_builds() {
    assert!(std::path::Path::new(env!("CARGO_BIN_EXE_loopwright")).exists());
}
