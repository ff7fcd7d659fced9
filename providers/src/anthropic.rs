//! The Anthropic Messages format. Pure: no I/O.
//!
//! # Thinking that is bound to its history
//!
//! From Fable 5.1, Opus 5.5, Sonnet 5.5 and Haiku 5.5 on ([`Profile::binds`]) a signed thinking
//! block is accepted only after the same system prompt, tools and messages as when it was written;
//! otherwise the request is refused as invalid. If this crate changes the history, it omits the
//! thinking: that of a reply to a request which asked for a tool as text ([`Profile::forces`]), all
//! thinking if the options contain tools that the provider runs, whose blocks are not part of a
//! reply, and after a compaction that of earlier replies ([`ChatRequest::compacted`]).
//!
//! Changes by hooks cannot be detected here. A `transform_context` or `prepare_tools` for such a
//! model must not change earlier output: it may omit what it has always omitted, and append at the
//! end. A hook that changes the history must remove the thinking after the change from the
//! messages, or the server must be asked to do so:
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
//! Such an option is merged into the field that the thinking level makes, so the effort stays that
//! of the level. An option with another `type` replaces the level; the effort is then also set by
//! an option, `output_config`.

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
