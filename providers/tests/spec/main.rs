//! The providers over a real socket.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may")]

mod anthropic;
mod choice;
mod gemini;
mod keys;
mod openai_chat;
mod openai_responses;
mod server;
