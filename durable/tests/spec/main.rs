//! The cluster in one process.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod cluster;
mod schedules;
mod waiting;
