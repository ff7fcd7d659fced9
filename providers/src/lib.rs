//! Model providers for loopwright.
//!
//! Each [`WireFormat`] is a pure codec, [`openai_chat`], [`openai_responses`], [`anthropic`] and
//! [`gemini`]: a request in, bytes out; payloads in,
//! [`ModelEvent`](loopwright_core::model::ModelEvent)s out. All share one transport, [`Http`], one
//! event-stream parser, [`SseParser`], and one adapter, [`Model`]: a format and an address make a
//! model, such as [`OpenAiChat`], [`OpenAiResponses`], [`Anthropic`] and [`Gemini`]. What can be
//! said of any model is a decorator: [`Retry`], [`Fallback`], [`RateLimit`], [`Recorded`], and
//! [`Reprompt`] for calls that a server could not read. [`calls_in_text`] is a hook for models that
//! write theirs as text. [`Offline`] needs none of it. [`resolve`] finds a model by its id,
//! [`Catalogue`] knows its sizes and prices.
//!
//! ```no_run
//! use loopwright_providers::{Reprompt, Retry, resolve};
//!
//! let model = Retry::new(Reprompt::new(resolve("openai/gpt-4o-mini", None)?));
//! # Ok::<(), loopwright_core::model::ModelError>(())
//! ```

mod answer;
pub mod anthropic;
mod body;
mod builder;
mod call_id;
mod catalogue;
mod client;
mod codec;
mod detect;
mod effort;
mod error;
mod fallback;
mod frame;
pub mod gemini;
mod http;
mod json;
mod key;
mod lenient;
mod model;
mod offline;
pub mod openai_chat;
pub mod openai_responses;
mod pairs;
mod prompt;
mod provider;
mod rate_limit;
mod recorded;
mod reply;
mod reprompt;
mod retry;
mod salvage;
mod schema;
mod shown;
mod sse;
mod strict;
mod told;
mod turns;
mod wait;

pub use body::ReplyBody;
pub use builder::ModelBuilder;
pub use call_id::CallIds;
pub use catalogue::{Catalogue, Facts, Wire};
pub use codec::{Decode, KeyHeader, Progress, Settings, WireFormat};
pub use detect::{Resolved, first_model, from_env, resolve, resolve_with};
pub use effort::Efforts;
pub use error::Place;
pub use fallback::Fallback;
pub use http::{Http, Timeouts};
pub use model::{
    Anthropic, AnthropicBuilder, Gemini, GeminiBuilder, Model, OpenAiChat, OpenAiChatBuilder,
    OpenAiResponses, OpenAiResponsesBuilder,
};
pub use offline::Offline;
pub use provider::{PROVIDERS, Provider};
pub use rate_limit::{RateLimit, RateLimiter};
pub use recorded::Recorded;
pub use reprompt::Reprompt;
pub use retry::Retry;
pub use salvage::calls_in_text;
pub use sse::{SseEvent, SseParser};
