//! The Anthropic Messages format. Pure: no I/O.

mod answer;
mod decode;
mod encode;
mod pause;
mod profile;
mod thinking;
mod wire;

use std::sync::Arc;

use loopwright::ChatRequest;

use crate::codec::{KeyHeader, WireFormat};
use crate::error::Place;

pub use decode::Decoder;
pub use encode::encode;
pub use profile::{Answers, Profile, Thinks};

/// What a body needs besides the request.
pub type Settings = crate::codec::Settings<Profile>;

/// Marks the signature of a block of thinking that is redacted: what follows is all there is of it.
const REDACTED: &str = "redacted:";

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
    fn decoder(place: Arc<Place>) -> Decoder {
        Decoder::new(place)
    }
}
