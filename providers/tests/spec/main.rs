//! The providers over a real socket, and the decorators of any model.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod anthropic;
mod choice;
mod fallback;
mod gemini;
mod keys;
mod kit;
mod openai_chat;
mod openai_responses;
mod proxy;
mod rate_limit;
mod recorded;
mod server;
