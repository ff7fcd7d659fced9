//! Model providers for loopwright.
//!
//! Each [`WireFormat`] is a pure codec: [`openai_chat`], [`openai_responses`], [`anthropic`] and
//! [`gemini`] encode requests as bytes and decode payloads as
//! [`ModelEvent`](loopwright_core::model::ModelEvent)s. All share one HTTP transport, [`Http`], one
//! event-stream parser, [`SseParser`], and one adapter, [`Model`]. A format and an address make a
//! model, such as [`OpenAiChat`], [`OpenAiResponses`], [`Anthropic`] or [`Gemini`].
//!
//! Decorators work with any model: [`Retry`], [`Fallback`], [`RateLimit`], and
//! [`RetryMalformedCalls`] for calls that a server could not read. [`parse_text_tool_calls`] is a
//! hook for models that write calls as text. [`Offline`] is a model without a server. [`resolve`]
//! finds a model by its id, and a [`Catalogue`] contains sizes and prices of models.
//! [`OpenAiEmbedder`] turns texts into vectors.
//!
//! Features select the TLS backend: `rustls-ring` (default), `rustls-aws-lc`, `rustls-no-provider`
//! (the program installs a crypto provider) or `native-tls`. Without a TLS feature, only `http://`
//! addresses work, such as those on a local network.
//!
//! ```no_run
//! use loopwright_providers::{Retry, RetryMalformedCalls, resolve};
//!
//! let model = Retry::new(RetryMalformedCalls::new(resolve("openai/gpt-4o-mini", None)?));
//! # Ok::<(), loopwright_core::model::ModelError>(())
//! ```

#![cfg_attr(docsrs, feature(doc_cfg))]

/// The examples of the README, run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod catalogue;
mod decorators;
mod embedder;
mod formats;
mod http;
mod model;
mod offline;

pub use catalogue::detect::{Resolved, first_model, from_env, resolve, resolve_with};
pub use catalogue::provider::{PROVIDERS, Provider};
pub use catalogue::{Catalogue, ModelFacts, Wire};
pub use decorators::fallback::Fallback;
pub use decorators::rate_limit::{RateLimit, RateLimiter};
pub use decorators::retry::Retry;
pub use decorators::retry_malformed_calls::RetryMalformedCalls;
pub use decorators::retry_rule::{MAX_ATTEMPTS, MAX_RETRY_DELAY};
pub use decorators::text_tool_calls::parse_text_tool_calls;
pub use embedder::OpenAiEmbedder;
pub use formats::codec::{Decode, KeyHeader, Progress, Settings, WireFormat};
pub use formats::encoding::call_id::CallIds;
pub use formats::encoding::reasoning_effort::ReasoningEfforts;
pub use formats::{anthropic, gemini, openai_chat, openai_responses};
pub use http::endpoint::Endpoint;
pub use http::sse::{SseEvent, SseParser};
pub use http::{Http, Timeouts};
pub use model::builder::{
    AnthropicBuilder, GeminiBuilder, ModelBuilder, OpenAiChatBuilder, OpenAiResponsesBuilder,
    is_connection_header,
};
pub use model::reply_body::ReplyBody;
pub use model::{Anthropic, Gemini, Model, OpenAiChat, OpenAiResponses};
pub use offline::Offline;
