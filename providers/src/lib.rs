//! Model providers for loopwright.
//!
//! Each wire format is a pure codec, [`openai_chat`] so far: a request in, bytes out; payloads in,
//! [`ModelEvent`](loopwright::ModelEvent)s out. All share one transport, [`Http`], and one
//! event-stream parser, [`SseParser`]. A model is a codec and an address, [`OpenAiChat`]; what can be
//! said of any model is a decorator, [`Retry`]. [`Offline`] needs none of it.
//!
//! ```no_run
//! use loopwright_providers::{Retry, resolve};
//!
//! let model = Retry::new(resolve("openai/gpt-4o-mini", None)?);
//! # Ok::<(), loopwright::ModelError>(())
//! ```

mod codec;
mod detect;
mod error;
mod http;
mod offline;
mod openai;
pub mod openai_chat;
mod reply;
mod retry;
mod sse;

pub use codec::{Decode, Progress};
pub use detect::{PROVIDERS, Provider, first_model, from_env, resolve, resolve_with};
pub use error::Place;
pub use http::{Http, Timeouts};
pub use offline::Offline;
pub use openai::{OpenAiChat, OpenAiChatBuilder};
pub use retry::Retry;
pub use sse::{SseEvent, SseParser};
