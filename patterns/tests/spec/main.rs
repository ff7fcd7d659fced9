//! The specification of the suite for patterns.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod conformance;
mod painter;
mod votes;
mod wrong;
