//! Model providers for loopwright.
mod codec;
mod error;
pub mod openai_chat;
mod sse;

pub use codec::{Decode, Progress};
pub use error::Place;
pub use sse::{SseEvent, SseParser};
