//! The wire formats: pure codecs, each in a folder of its own, with one interface. No I/O.

pub mod anthropic;
pub(crate) mod codec;
mod decoding;
pub(crate) mod encoding;
pub mod gemini;
pub mod openai_chat;
pub mod openai_responses;
