//! Model providers for loopwright.
mod codec;
mod error;
mod http;
mod offline;
mod openai;
pub mod openai_chat;
mod reply;
mod retry;
mod sse;

pub use codec::{Decode, Progress};
pub use error::Place;
pub use http::{Http, Timeouts};
pub use offline::Offline;
pub use openai::{OpenAiChat, OpenAiChatBuilder};
pub use retry::Retry;
pub use sse::{SseEvent, SseParser};
