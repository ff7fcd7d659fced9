//! The specification of the stores and of summary compaction: one module for each subject.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod audit;
mod conformance;
mod deadlines;
mod growth;
mod jsonl;
mod kit;
mod long_term;
mod mailbox;
mod schedules;
mod sqlite;
mod sub_agents;
mod summary_compaction;
