//! The Chat Completions format of OpenAI and most other servers. Pure: no I/O.

mod decode;
mod details;
mod encode;
mod profile;
mod thinking;
mod wire;

use std::sync::Arc;

use loopwright_core::model::ChatRequest;

use super::codec::{KeyHeader, WireFormat};
use crate::http::endpoint::Endpoint;

pub use decode::Decoder;
pub use encode::encode;
pub use profile::{Answers, Asks, Profile, Replay, Settings, Temperature};

/// The Chat Completions format.
#[derive(Debug, Clone, Copy)]
pub struct ChatCompletions;

impl WireFormat for ChatCompletions {
    type Profile = Profile;
    type Decoder = Decoder;

    const PROVIDER: &'static str = "openai";
    const BASE_URL: &'static str = "https://api.openai.com/v1";

    fn profile(host: &str, model: &str) -> Profile {
        Profile::of(host, model)
    }

    fn profile_of(provider: &str, host: &str, model: &str) -> Profile {
        Profile::of_provider(provider, host, model)
    }

    fn key_header(profile: &Profile) -> KeyHeader {
        profile.key_header
    }

    fn path(_: &str) -> String {
        "/chat/completions".into()
    }

    fn encode(request: &ChatRequest, settings: &Settings) -> Vec<u8> {
        encode(request, settings)
    }

    fn decoder(endpoint: Arc<Endpoint>) -> Decoder {
        Decoder::new(endpoint)
    }
}
