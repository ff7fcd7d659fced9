//! The specification: one module per subject, one test per sentence of the design.
//!
//! The doc comments of tests name the claims of `docs/SPEC.md` that they show (`C12`).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

mod aborts;
mod answering;
mod approvals;
mod around_calls;
mod ask_all;
mod ask_user;
mod attached;
mod bad_memory;
mod batches;
mod behaviours;
mod bounds;
mod budgets;
mod call_all;
mod cassette;
mod changed_logs;
mod children;
mod clock;
mod compaction;
mod confirmation;
mod crash;
mod cut_calls;
mod cut_replies;
mod events;
mod examples;
mod first_call;
mod guide;
mod held;
mod hooks;
mod joined_appends;
mod kit;
mod mailbox;
mod ownership;
mod packages;
mod parts;
mod pattern_calls;
mod patterns;
mod principals;
mod reentry;
mod rejoin;
mod repeated_calls;
mod replay;
mod rewind;
mod schedules;
mod sessions;
mod shared_budgets;
mod shown;
mod shown_changes;
mod single_prompts;
mod snapshots;
mod sources;
mod stages;
mod state;
mod steering;
mod step_ends;
mod tidy;
mod todo;
mod tool_schemas;
mod typed;
mod verbs;
mod windows;
mod wrap_up;
