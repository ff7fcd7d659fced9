//! The providers over a real socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod anthropic;
mod gemini;
mod handover;
mod openai_chat;
mod openai_responses;
mod options;
mod quirks;
#[path = "../rules/rules.rs"]
mod rules;
mod server;
