//! What every wire format has in common: a request in, bytes out; payloads in, model events out; no
//! I/O.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use loopwright_core::model::{ChatRequest, ModelEvent};
use serde_json::{Map, Value};

use crate::endpoint::Endpoint;

/// A wire format: where its requests go, what they carry, how they are written and how replies are
/// read.
///
/// It is a name without values, such as [`ChatCompletions`](crate::openai_chat::ChatCompletions),
/// and all of it is pure. [`Model`](crate::Model) makes a [`ChatModel`](loopwright_core::ChatModel)
/// of it.
pub trait WireFormat: Clone + Send + Sync + 'static {
    /// What servers that speak this format do each in its own way, as plain data.
    type Profile: Clone + Debug + Default + Send + Sync;
    /// Reads one reply.
    type Decoder: Decode + Unpin + 'static;

    /// The name of the provider whose format it is.
    const PROVIDER: &'static str;
    /// That provider's base URL.
    const BASE_URL: &'static str;
    /// Headers of each request, besides the key's and the content type.
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    /// What the server at `host` does in its own way with `model`.
    fn profile(host: &str, model: &str) -> Self::Profile;

    /// What the provider of this name, whose server is at `host`, does in its own way with `model`.
    /// A server on one's own machine is known by its provider's name only.
    fn profile_of(_provider: &str, host: &str, model: &str) -> Self::Profile {
        Self::profile(host, model)
    }

    /// Whether what is signed in the reply to `request` goes back with the conversation. It cannot
    /// where the request had words of ours in it that the next one has not, and the signature holds
    /// for both.
    fn signs(_request: &ChatRequest, _settings: &Settings<Self::Profile>) -> bool {
        true
    }

    /// The header that the key goes into.
    fn key_header(profile: &Self::Profile) -> KeyHeader;

    /// What follows the base URL, beginning with a slash: a path, with a query where there is one.
    fn path(model: &str) -> String;

    /// The body of `request`: JSON.
    fn encode(request: &ChatRequest, settings: &Settings<Self::Profile>) -> Vec<u8>;

    /// A decoder of one reply from `endpoint`.
    fn decoder(endpoint: Arc<Endpoint>) -> Self::Decoder;
}

/// The header that a key goes into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeyHeader {
    /// `Authorization`, as `Bearer KEY`.
    #[default]
    Bearer,
    /// A header of this name, as it is.
    Named(&'static str),
}

/// What a body needs besides the request.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings<P> {
    /// The model's name, as the server knows it.
    pub model: String,
    /// The model's id, `provider/name`. Signatures and reasoning go back to the model that replies
    /// name by it, and to no other.
    pub id: Arc<str>,
    /// What the server does in its own way.
    pub profile: P,
    /// Tokens that fit into a reply, where that is known: the limit of formats that must have one.
    pub max_output: Option<u32>,
    /// Further fields of the body, such as `top_p`.
    pub options: Map<String, Value>,
}

impl<P: Default> Settings<P> {
    /// Settings for a model of this name, of no known provider.
    pub fn new(model: impl Into<String>) -> Self {
        let model = model.into();
        let id = model.as_str().into();
        Settings { id, model, profile: P::default(), max_output: None, options: Map::new() }
    }
}

/// Reads the stream of one reply. A decoder is made for one request and used up by it.
pub trait Decode: Send {
    /// Reads the payload of one event and appends what it tells to `out`.
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Progress;

    /// The body of the request that goes on with a reply which the provider has only paused, made
    /// of the body that began it. What that request gives is decoded as more of the same reply.
    /// Most providers never pause.
    fn resume(&mut self, _sent: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// The stream has ended: appends the event that ends the reply, unless it was there already.
    fn finish(&mut self, out: &mut VecDeque<ModelEvent>);
}

/// How far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// Nothing was said: a keep-alive, which is no progress.
    Waiting,
    /// More is to come; a stream that ends now was cut.
    Open,
    /// Everything has been said; only extras such as usage may follow.
    Complete,
    /// The last event is out: `Done` or `Error`.
    Ended,
}
