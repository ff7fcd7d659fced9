//! The guarantees of the server crate to apps that mount it, over real HTTP.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod a2a;
mod access;
mod agents;
mod api;
mod approvals;
mod client_addresses;
mod custom_settings;
mod daily_runs;
mod daily_use;
mod event_streams;
mod front_end_protocols;
mod full_disk;
#[cfg(feature = "cluster")]
mod hand_over;
mod history;
mod http2;
mod images;
mod inbox;
#[cfg(feature = "jwt")]
mod jwt;
mod limits;
mod memory;
mod mount;
mod openai_api;
mod openapi;
mod outbox;
mod proxies;
mod questions;
mod refusals;
mod releases;
mod remote_agents;
mod responses;
mod resume;
mod rules;
mod schedules;
mod sessions;
mod settings;
mod stages;
mod sub_agents;
mod system_prompts;
mod todos;
mod traces;
mod two_servers;
mod waiting;
