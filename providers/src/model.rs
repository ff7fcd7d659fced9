//! A model behind an address: one adapter for every wire format. Below it are its builder, and the
//! stream of one reply.

pub(crate) mod builder;
mod left_out_images;
mod prompt_truncation;
pub(crate) mod reply_body;
mod reply_stream;

use std::fmt;
use std::marker::PhantomData;

use futures::stream::{self, BoxStream, StreamExt};
use loopwright_core::ChatModel;
use loopwright_core::model::{ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo};

use self::left_out_images::{NOT_TAKEN, REFUSED, RefusedImages, has_images, without_images};
use self::reply_stream::ReplyStream;
use crate::formats::anthropic::Messages;
use crate::formats::codec::{Settings, WireFormat};
use crate::formats::encoding::wrapped_answer::{Unwrap, may_be_wrapped};
use crate::formats::gemini::GenerateContent;
use crate::formats::openai_chat::ChatCompletions;
use crate::formats::openai_responses::Responses;
use crate::http::{Http, Target};

/// A model behind a Chat Completions endpoint, of OpenAI or another server.
///
/// ```
/// use loopwright_providers::OpenAiChat;
///
/// let local = OpenAiChat::builder("qwen3:8b")
///     .base_url("http://127.0.0.1:11434/v1")
///     .provider("ollama")
///     .build()?;
/// assert_eq!(&*loopwright_core::ChatModel::info(&local).id, "ollama/qwen3:8b");
/// # Ok::<(), loopwright_core::model::ModelError>(())
/// ```
pub type OpenAiChat = Model<ChatCompletions>;

/// A model behind an OpenAI Responses endpoint, which stores nothing of the conversation.
///
/// ```
/// use loopwright_providers::OpenAiResponses;
///
/// let model = OpenAiResponses::builder("gpt-5.1").api_key("of your own").build()?;
/// assert_eq!(&*loopwright_core::ChatModel::info(&model).id, "openai/gpt-5.1");
/// # Ok::<(), loopwright_core::model::ModelError>(())
/// ```
pub type OpenAiResponses = Model<Responses>;

/// A model behind an Anthropic Messages endpoint.
///
/// ```
/// use loopwright_providers::Anthropic;
///
/// let model = Anthropic::builder("claude-sonnet-4-5").api_key("of your own").build()?;
/// assert_eq!(&*loopwright_core::ChatModel::info(&model).id, "anthropic/claude-sonnet-4-5");
/// # Ok::<(), loopwright_core::model::ModelError>(())
/// ```
pub type Anthropic = Model<Messages>;

/// A model behind a Gemini endpoint.
///
/// ```
/// use loopwright_providers::Gemini;
///
/// let model = Gemini::builder("gemini-2.5-flash").api_key("of your own").build()?;
/// assert_eq!(&*loopwright_core::ChatModel::info(&model).id, "google/gemini-2.5-flash");
/// # Ok::<(), loopwright_core::model::ModelError>(())
/// ```
pub type Gemini = Model<GenerateContent>;

/// A [`ChatModel`] on a server that speaks the wire format `F`.
///
/// Dropping a reply's stream closes the connection, unless the reply is complete.
#[derive(Clone)]
pub struct Model<F: WireFormat> {
    pub(crate) info: ModelInfo,
    pub(crate) http: Http,
    pub(crate) target: Target,
    pub(crate) settings: Settings<F::Profile>,
    pub(crate) refused_images: RefusedImages,
    pub(crate) format: PhantomData<F>,
}

impl<F: WireFormat> ChatModel for Model<F> {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        if !F::STOPS && !request.stop.is_empty() {
            let why = "the API of this model cannot stop at given texts: leave out `stop`";
            let error = ModelError::new(ModelErrorKind::InvalidRequest, why);
            return stream::iter([ModelEvent::Error(error)]).boxed();
        }
        let request = match has_images(&request) {
            true if self.info.images == Some(false) => without_images(&request, NOT_TAKEN),
            true if self.refused_images.contains(&request.session) => {
                without_images(&request, REFUSED)
            }
            _ => request,
        };
        let body = F::encode(&request, &self.settings);
        let decoder = F::decoder(self.target.endpoint.clone());
        let signs = F::signs(&request, &self.settings);
        let unwrap = may_be_wrapped(&request).then(Unwrap::default);
        let trace = request.trace.clone();
        let mut reply = ReplyStream::post(&self.http, &self.target, trace, body, decoder);
        if has_images(&request) {
            reply.or_without_images(move || {
                self.refused_images.add(request.session.clone());
                F::encode(&without_images(&request, REFUSED), &self.settings)
            });
        }
        match unwrap {
            None if signs => reply.boxed(),
            None => reply.map(unsigned).boxed(),
            Some(mut unwrap) => {
                let reply = reply.flat_map(move |event| stream::iter(unwrap.take(event)));
                if signs { reply.boxed() } else { reply.map(unsigned).boxed() }
            }
        }
    }
}

fn unsigned(event: ModelEvent) -> ModelEvent {
    match event {
        ModelEvent::BlockEnd { block, .. } => ModelEvent::BlockEnd { block, signature: None },
        event => event,
    }
}

impl<F: WireFormat> fmt::Debug for Model<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_struct("Model");
        debug
            .field("info", &self.info)
            .field("target", &self.target)
            .field("settings", &self.settings);
        debug.finish_non_exhaustive()
    }
}
