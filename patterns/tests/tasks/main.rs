//! Twelve tasks for comparing agent frameworks, each as a pattern with its tests: its behaviour,
//! and the same result after a crash or an abort at every append.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod ask_user;
mod branches;
mod cassettes;
mod delegation;
mod ensemble;
mod extraction;
mod family;
mod graph;
mod judge;
mod kit;
mod plan_execute;
mod question;
mod rag;
mod react;
mod router;
mod self_consistency;
mod sub_agents;
mod table;
