//! The interface of wire formats: encodes a request into bytes and decodes payloads into model
//! events, without I/O.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use loopwright_core::model::{ChatRequest, ModelEvent};
use serde_json::{Map, Value};

use crate::endpoint::Endpoint;

/// Describes a wire format: where requests go, which headers they carry, how they are encoded and
/// how replies are decoded.
///
/// It is a name without values, such as [`ChatCompletions`](crate::openai_chat::ChatCompletions),
/// and all of it is pure. [`Model`](crate::Model) makes a [`ChatModel`](loopwright_core::ChatModel)
/// of it.
pub trait WireFormat: Clone + Send + Sync + 'static {
    /// Describes how servers of this format deviate, as plain data.
    type Profile: Clone + Debug + Default + Send + Sync;
    /// Reads one reply.
    type Decoder: Decode + Unpin + 'static;

    /// Names the provider whose format this is.
    const PROVIDER: &'static str;
    /// Holds that provider's base URL.
    const BASE_URL: &'static str;
    /// Says whether requests of this format can contain texts before which the model stops. A
    /// request with such texts fails otherwise.
    const STOPS: bool = true;
    /// Lists the headers of each request besides the key and the content type.
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    /// Returns the profile of `model` at the server at `host`.
    fn profile(host: &str, model: &str) -> Self::Profile;

    /// Returns the profile of `model` served by this provider at `host`. A local server is
    /// identified only by its provider's name.
    fn profile_of(_provider: &str, host: &str, model: &str) -> Self::Profile {
        Self::profile(host, model)
    }

    /// Returns whether the signatures in the reply to `request` may be sent back with the
    /// conversation. They may not if the encoder added text that later requests lack and that the
    /// signature covers.
    fn signs(_request: &ChatRequest, _settings: &Settings<Self::Profile>) -> bool {
        true
    }

    /// Returns the header that carries the key.
    fn key_header(profile: &Self::Profile) -> KeyHeader;

    /// Returns the path after the base URL, which starts with a slash and may end with a query.
    fn path(model: &str) -> String;

    /// Returns the body of `request` as JSON.
    fn encode(request: &ChatRequest, settings: &Settings<Self::Profile>) -> Vec<u8>;

    /// Returns a decoder for one reply from `endpoint`.
    fn decoder(endpoint: Arc<Endpoint>) -> Self::Decoder;
}

/// Describes the header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeyHeader {
    /// `Authorization`, as `Bearer KEY`.
    #[default]
    Bearer,
    /// A header of this name, as it is.
    Named(&'static str),
}

/// Configures the encoding of requests.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings<P> {
    /// Holds the model's name, as the server knows it.
    pub model: String,
    /// Holds the model's id, `provider/name`. Signatures and reasoning are sent back only to the
    /// model that replies name by it.
    pub id: Arc<str>,
    /// Describes how the server deviates.
    pub profile: P,
    /// Holds the number of tokens that fit into a reply, if known. Formats that require a limit
    /// send it.
    pub max_output: Option<u32>,
    /// Holds further fields of the body, such as `top_p`. They are merged into ours; see
    /// [`ModelBuilder::option`](crate::ModelBuilder::option).
    pub options: Map<String, Value>,
}

impl<P: Default> Settings<P> {
    /// Returns settings for a model of this name, without a provider.
    pub fn new(model: impl Into<String>) -> Self {
        let model = model.into();
        let id = model.as_str().into();
        Settings { id, model, profile: P::default(), max_output: None, options: Map::new() }
    }
}

impl<P> Settings<P> {
    /// Returns a field of the option called `name`, if the option is an object that has it.
    pub(crate) fn option(&self, name: &str, field: &str) -> Option<&Value> {
        self.options.get(name)?.get(field)
    }

    /// Returns whether the option called `name` has fields but no `type`: it is a part, which is
    /// added to our field and means nothing without it.
    pub(crate) fn has_part(&self, name: &str) -> bool {
        let own = self.options.get(name);
        own.is_some_and(|own| own.is_object() && own.get("type").is_none())
    }
}

/// Reads the stream of one reply. A decoder is made for one request and used up by it.
pub trait Decode: Send {
    /// Reads the payload of one event and appends its events to `out`.
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Progress;

    /// Returns the body of the request that resumes a reply which the provider has paused, or
    /// `None` if it is not paused. `sent` is the body that started the reply; the response is
    /// decoded as more of the same reply.
    fn resume(&mut self, _sent: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Ends the stream: appends the last event, unless it was there already.
    fn finish(&mut self, out: &mut VecDeque<ModelEvent>);
}

/// Describes how far a reply has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A keep-alive, which is no progress.
    Waiting,
    /// More must follow; a stream that ends now was cut.
    Open,
    /// The reply is complete; only extras such as usage may follow.
    Complete,
    /// The last event, `Done` or `Error`, has been returned.
    Ended,
}
