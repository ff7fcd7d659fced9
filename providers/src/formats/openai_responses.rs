//! The OpenAI Responses format, without state on the server. Pure: no I/O.

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
pub use profile::{Profile, Reasons, Settings};

/// The OpenAI Responses format.
#[derive(Debug, Clone, Copy)]
pub struct Responses;

impl WireFormat for Responses {
    type Profile = Profile;
    type Decoder = Decoder;

    const PROVIDER: &'static str = "openai";
    const BASE_URL: &'static str = "https://api.openai.com/v1";
    const STOPS: bool = false;

    fn profile(host: &str, model: &str) -> Profile {
        Profile::of(host, model)
    }

    fn key_header(profile: &Profile) -> KeyHeader {
        profile.key_header
    }

    fn path(_: &str) -> String {
        "/responses".into()
    }

    fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
        encode(request, settings)
    }

    fn decoder(endpoint: Arc<Endpoint>) -> Decoder {
        Decoder::new(endpoint)
    }
}
