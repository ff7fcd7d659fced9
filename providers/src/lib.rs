//! Model providers for loopwright.
//!
//! Each [`WireFormat`] is a pure codec: [`openai_chat`], [`openai_responses`], [`anthropic`] and
//! [`gemini`] encode requests as bytes and decode payloads as
//! [`ModelEvent`](loopwright_core::model::ModelEvent)s. All share one HTTP transport, [`Http`], one
//! event-stream parser, [`SseParser`], and one adapter, [`Model`]. A format and an address make a
//! model, such as [`OpenAiChat`], [`OpenAiResponses`], [`Anthropic`] or [`Gemini`].
//!
//! Decorators work with any model: [`Retry`], [`Fallback`], [`RateLimit`], [`Recorded`], and
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

mod address_filter;
mod answer_tool;
pub mod anthropic;
mod attachment;
mod builder;
mod call_id;
mod catalogue;
mod codec;
mod detect;
mod embedder;
mod emitted;
mod endpoint;
mod event_template;
mod event_writer;
mod failure;
mod fallback;
mod fields;
pub mod gemini;
mod http;
mod json;
mod key;
mod lenient;
mod model;
mod offline;
pub mod openai_chat;
pub mod openai_responses;
mod prompt_truncation;
mod provider;
mod rate_limit;
mod reasoning_effort;
mod recorded;
mod reply_body;
mod reply_stream;
mod retry;
mod retry_after;
mod retry_malformed_calls;
mod retry_rule;
mod schema;
mod sse;
mod strict;
mod text_tool_calls;
mod tool_result_pairing;
mod transport;
mod turns;
mod unexpected_body;

pub use builder::{
    AnthropicBuilder, GeminiBuilder, ModelBuilder, OpenAiChatBuilder, OpenAiResponsesBuilder,
    is_connection_header,
};
pub use call_id::CallIds;
pub use catalogue::{Catalogue, ModelFacts, Wire};
pub use codec::{Decode, KeyHeader, Progress, Settings, WireFormat};
pub use detect::{Resolved, first_model, from_env, resolve, resolve_with};
pub use embedder::OpenAiEmbedder;
pub use endpoint::Endpoint;
pub use fallback::Fallback;
pub use http::{Http, Timeouts};
pub use model::{Anthropic, Gemini, Model, OpenAiChat, OpenAiResponses};
pub use offline::Offline;
pub use provider::{PROVIDERS, Provider};
pub use rate_limit::{RateLimit, RateLimiter};
pub use reasoning_effort::ReasoningEfforts;
pub use recorded::Recorded;
pub use reply_body::ReplyBody;
pub use retry::Retry;
pub use retry_malformed_calls::RetryMalformedCalls;
pub use retry_rule::{MAX_ATTEMPTS, MAX_RETRY_DELAY};
pub use sse::{SseEvent, SseParser};
pub use text_tool_calls::parse_text_tool_calls;
