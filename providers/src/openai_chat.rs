//! The Chat Completions format, spoken by OpenAI and by most other servers. Pure: no I/O.

mod decode;
mod encode;
mod wire;

pub use decode::Decoder;
pub use encode::{Settings, encode};
