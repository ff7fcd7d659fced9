//! The Anthropic Messages format. Pure: no I/O.
//!
//! # Thinking that is bound to its history
//!
//! Fable 5.1, Opus 5.5, Sonnet 5.5, Haiku 5.5 and later ([`Profile::binds`]) accept a signed
//! thinking block only after the system prompt, tools and messages it was written with. Otherwise
//! they refuse the request as invalid. If this crate changes the history, it omits thinking:
//!
//! - of replies to requests that asked for a tool as text ([`Profile::forces`]),
//! - of all replies if the options contain tools that the provider runs, because their blocks are
//!   not part of a reply,
//! - of earlier replies after a compaction ([`ChatRequest::compacted`]).
//!
//! Changes by hooks cannot be detected here. A `transform_context` or `offers_tool` for such a
//! model must not change earlier output. It may omit what it has always omitted, and append at the
//! end. A hook that changes the history must remove the thinking after the change, or ask the
//! server to do so:
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
//! Such an option is merged into the field that the thinking level sets, so the effort still
//! follows the level. An option with another `type` replaces the level. Set the effort by the
//! option `output_config` then.

mod decode;
mod encode;
mod paused_turn;
mod profile;
mod structured_output;
mod thinking;
mod wire;

use std::sync::Arc;

use loopwright_core::model::ChatRequest;

use super::codec::{KeyHeader, WireFormat};
use crate::http::endpoint::Endpoint;

pub use decode::Decoder;
pub use encode::encode;
pub use profile::{Answers, Profile, Settings, Thinks};

/// The Anthropic Messages format.
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
