//! The specification of stores and of what keeps a session inside a model's window: one module a
//! subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod compacting;
mod conformance;
mod growth;
mod jsonl;
mod kit;
mod sqlite;
