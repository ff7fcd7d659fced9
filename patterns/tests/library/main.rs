//! The patterns of the library: the behaviour of each, and its conformance.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod branches;
#[path = "../tasks/cassettes.rs"]
mod cassettes;
mod composition;
mod debate;
#[path = "../tasks/family.rs"]
mod family;
mod goal;
mod graph;
#[path = "../tasks/kit.rs"]
mod kit;
mod lines;
mod map_reduce;
mod options;
mod orchestrate;
mod rag;
mod react;
mod recorded;
mod repeated_calls;
mod roles;
mod sleeping;
mod user;
mod values;
mod votes;
mod wrappers;
