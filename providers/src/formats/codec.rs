//! The interface of wire formats: they encode requests into bytes and decode payloads into model
//! events, without I/O.

use std::collections::VecDeque;
use std::fmt::Debug;
use std::sync::Arc;

use loopwright_core::model::{ChatRequest, ModelEvent};
use serde_json::{Map, Value};

use crate::http::endpoint::Endpoint;

/// A wire format: the address, headers and encoding of requests, and the decoding of replies.
///
/// Implementations are unit types, such as
/// [`ChatCompletions`](crate::openai_chat::ChatCompletions), with pure functions only.
/// [`Model`](crate::Model) turns a format into a [`ChatModel`](loopwright_core::ChatModel).
pub trait WireFormat: Clone + Send + Sync + 'static {
    /// Deviations of servers that speak this format, as plain data.
    type Profile: Clone + Debug + Default + Send + Sync;
    /// Decoder of one reply.
    type Decoder: Decode + Unpin + 'static;

    /// Provider that owns the format.
    const PROVIDER: &'static str;
    /// Base URL of that provider.
    const BASE_URL: &'static str;
    /// `true` if requests of this format can contain texts before which the model stops. Otherwise
    /// a request with such texts fails.
    const STOPS: bool = true;
    /// Headers of each request, besides the key and the content type.
    const HEADERS: &'static [(&'static str, &'static str)] = &[];

    /// Returns the profile of `model` on the server at `host`.
    fn profile(host: &str, model: &str) -> Self::Profile;

    /// Returns the profile of `model`, served by this provider at `host`. Only the provider's name
    /// identifies a local server.
    fn profile_of(_provider: &str, host: &str, model: &str) -> Self::Profile {
        Self::profile(host, model)
    }

    /// Returns whether the signatures in the reply to `request` may be sent back with the
    /// conversation. They may not if they cover text that the encoder added and that later requests
    /// lack.
    fn signs(_request: &ChatRequest, _settings: &Settings<Self::Profile>) -> bool {
        true
    }

    /// Returns the header that carries the key.
    fn key_header(profile: &Self::Profile) -> KeyHeader;

    /// Returns the path after the base URL. It starts with a slash and may end with a query.
    fn path(model: &str) -> String;

    /// Returns the body of `request` as JSON.
    fn encode(request: &ChatRequest, settings: &Settings<Self::Profile>) -> Vec<u8>;

    /// Returns a decoder for one reply from `endpoint`.
    fn decoder(endpoint: Arc<Endpoint>) -> Self::Decoder;
}

/// The header that carries a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum KeyHeader {
    /// `Authorization`, as `Bearer KEY`.
    #[default]
    Bearer,
    /// A header of this name that contains only the key.
    Named(&'static str),
}

/// Settings for the encoding of requests.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Settings<P> {
    /// Model's name, as the server knows it.
    pub model: String,
    /// Model's id, `provider/name`. Replies name their model by this id. Signatures and reasoning
    /// are sent back only to the model that wrote them.
    pub id: Arc<str>,
    /// Deviations of the server.
    pub profile: P,
    /// Number of tokens that fit into a reply, if known. Formats that require a limit send it.
    pub max_output: Option<u32>,
    /// Further fields of the body, such as `top_p`. They are merged into the format's own; see
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
    /// Returns the field `field` of the option `name`, if that option is an object with this field.
    pub(crate) fn option(&self, name: &str, field: &str) -> Option<&Value> {
        self.options.get(name)?.get(field)
    }

    /// Returns whether the option `name` has fields but no `type`. It is then merged into our field
    /// and means nothing alone.
    pub(crate) fn has_part(&self, name: &str) -> bool {
        let own = self.options.get(name);
        own.is_some_and(|own| own.is_object() && own.get("type").is_none())
    }
}

/// A decoder of the stream of one reply. Each request gets a new one.
pub trait Decode: Send {
    /// Decodes the payload of one event and appends its events to `out`.
    fn decode(&mut self, data: &str, out: &mut VecDeque<ModelEvent>) -> Progress;

    /// Returns the body of the request that resumes a paused reply, or `None` if the provider has
    /// not paused it. `sent` is the body that started the reply. The response is decoded as more of
    /// the same reply.
    fn resume(&mut self, _sent: &[u8]) -> Option<Vec<u8>> {
        None
    }

    /// Ends the stream. Appends the last event, unless it was appended before.
    fn finish(&mut self, out: &mut VecDeque<ModelEvent>);
}

/// The progress of a reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Progress {
    /// A keep-alive, which does not count as progress.
    Waiting,
    /// More must follow. A stream that ends now was cut off.
    Open,
    /// The reply is complete. Only extras such as usage may follow.
    Complete,
    /// The last event, `Done` or `Error`, has been returned.
    Ended,
}
