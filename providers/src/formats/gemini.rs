//! The Gemini format, `streamGenerateContent`. Pure: no I/O.

mod arguments;
mod decode;
mod encode;
mod profile;
mod wire;

use std::sync::Arc;

use loopwright_core::model::ChatRequest;

use super::codec::{KeyHeader, WireFormat};
use crate::http::endpoint::Endpoint;

pub use decode::Decoder;
pub use encode::encode;
pub use profile::{Profile, Settings, Thinks};

/// The Gemini format.
#[derive(Debug, Clone, Copy)]
pub struct GenerateContent;

impl WireFormat for GenerateContent {
    type Profile = Profile;
    type Decoder = Decoder;

    const PROVIDER: &'static str = "google";
    const BASE_URL: &'static str = "https://generativelanguage.googleapis.com/v1beta";

    fn profile(_: &str, model: &str) -> Profile {
        Profile::of_model(model)
    }

    fn key_header(_: &Profile) -> KeyHeader {
        KeyHeader::Named("x-goog-api-key")
    }

    fn path(model: &str) -> String {
        let name = model.strip_prefix("models/").unwrap_or(model);
        format!("/models/{name}:streamGenerateContent?alt=sse")
    }

    fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
        encode(request, settings)
    }

    fn decoder(endpoint: Arc<Endpoint>) -> Decoder {
        Decoder::new(endpoint)
    }
}
