//! The providers over a real socket, and the wrappers of models.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod addresses;
mod anthropic;
mod cassette;
mod choice;
mod embedder;
mod fallback;
mod gemini;
mod handover;
mod keys;
mod kit;
mod left_out_images;
mod openai_chat;
mod openai_responses;
mod options;
mod proxy;
mod quirks;
mod rate_limit;
#[path = "../rules/rules.rs"]
mod rules;
mod server;
mod trace_headers;
mod unshown;
