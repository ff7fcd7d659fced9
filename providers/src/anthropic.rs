//! The Anthropic Messages format. Pure: no I/O.
//!
//! # Thoughts that belong to their past
//!
//! From Fable 5.1, Opus 5.5, Sonnet 5.5 and Haiku 5.5 on ([`Profile::binds`]) a signed thought is
//! taken back only after the very system prompt, tools and messages that it was thought after; else
//! the request is refused as invalid. Of what this crate changes itself the thoughts are left
//! behind: those of a reply to which a tool was asked for in words ([`Profile::forces`]), and all
//! of them where the options have tools in them that the provider runs, whose blocks are no part of
//! a reply; and where the conversation was compacted, those of the replies from before
//! ([`ChatRequest::compacted`]).
//!
//! What a hook changes cannot be seen from here. A `transform_context` or `prepare_tools` for such
//! a model should be the same for what was there before: it may leave out what it has always left
//! out and add at the end. One that rewrites the past has to take the thoughts after the change out
//! of the messages, or the server has to be told to do so:
//!
//! ```
//! use loopwright_providers::Anthropic;
//! use serde_json::json;
//!
//! let model = Anthropic::builder("claude-opus-5-5")
//!     .header("anthropic-beta", "thinking-binding-controls-2026-08-01")
//!     .option("thinking", json!({
//!         "type": "adaptive", "display": "summarized",
//!         "block_binding": {"prefix_mismatch_behavior": "drop_block"},
//!     }))
//!     .build()?;
//! # Ok::<(), loopwright_core::model::ModelError>(())
//! ```
//!
//! That option replaces what the thinking level says; the effort is then an option too, in
//! `output_config`.

mod decode;
mod encode;
mod paused_turn;
mod profile;
mod structured_output;
mod thinking;
mod wire;

use std::sync::Arc;

use loopwright_core::model::ChatRequest;

use crate::codec::{KeyHeader, WireFormat};
use crate::endpoint::Endpoint;

pub use decode::Decoder;
pub use encode::encode;
pub use profile::{Answers, Profile, Settings, Thinks};

/// Implements the Anthropic Messages format.
#[derive(Debug, Clone, Copy)]
pub struct Messages;

impl WireFormat for Messages {
    type Profile = Profile;
    type Decoder = Decoder;

    const PROVIDER: &'static str = "anthropic";
    const BASE_URL: &'static str = "https://api.anthropic.com/v1";
    const HEADERS: &'static [(&'static str, &'static str)] = &[("anthropic-version", "2023-06-01")];

    fn profile(_: &str, model: &str) -> Profile {
        Profile::of_model(model)
    }

    fn signs(request: &ChatRequest, settings: &Settings) -> bool {
        encode::signs(request, settings)
    }

    fn key_header(profile: &Profile) -> KeyHeader {
        profile.key_header
    }

    fn path(_: &str) -> String {
        "/messages".into()
    }

    fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
        encode(request, settings)
    }

    fn decoder(endpoint: Arc<Endpoint>) -> Decoder {
        Decoder::new(endpoint)
    }
}
