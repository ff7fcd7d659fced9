//! [`ScriptedModel`]: a model that plays scripts and refuses malformed requests.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};

use super::check::check_request;
use super::recording::Recording;
use super::script::Script;
use crate::error::{ModelError, ModelErrorKind};
use crate::excerpt;
use crate::model::{ChatModel, ChatRequest, ModelEvent, ModelInfo};

/// The length of the end of a request in an error.
const MAX_EXCERPT_CHARS: usize = 100;

/// A model that plays one [`Script`] per request, in order, and records the requests.
///
/// A request that [`check_request`](super::check_request) rejects (an orphan call or result, a
/// wrong order, an unknown tool) uses no script. Its stream is one error of the kind
/// [`ModelErrorKind::InvalidRequest`], like the stream of a request after the last script. Clones
/// share the scripts and the recorded requests.
///
/// ```
/// use futures::StreamExt;
/// use loopwright_core::Message;
/// use loopwright_core::message::{MessageId, UserMessage};
/// use loopwright_core::model::{ChatModel, ChatRequest, ModelEvent};
/// use loopwright_core::testing::{Script, ScriptedModel};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let model = ScriptedModel::new([Script::text("Hello.")]);
/// let message = Message::new(MessageId(1), UserMessage::from("Hi"));
/// let mut request = ChatRequest::default();
/// request.messages = vec![message.into()].into();
/// let events: Vec<_> = model.stream(request.clone()).collect().await;
/// assert!(matches!(events.last(), Some(ModelEvent::Done { .. })));
/// assert_eq!(model.requests().len(), 1);
///
/// let events: Vec<_> = model.stream(request).collect().await;
/// assert!(matches!(&events[..], [ModelEvent::Error(_)])); // no script is left
/// # }
/// ```
#[derive(Clone)]
pub struct ScriptedModel {
    info: ModelInfo,
    shared: Arc<Mutex<Shared>>,
}

/// A function that replies to requests after the last script.
pub(super) type ReplyFn = Arc<dyn Fn(&ChatRequest) -> Script + Send + Sync>;

#[derive(Default)]
struct Shared {
    scripts: VecDeque<Script>,
    requests: Vec<ChatRequest>,
    /// The number of requests, with those that were discarded.
    taken: usize,
    /// The scripts played for `requests`.
    played: Vec<Script>,
    /// A recording that replies in place of the scripts.
    recording: Option<Recording>,
    refused: Vec<String>,
    discards_requests: bool,
    default_reply: Option<ReplyFn>,
    ran_out: bool,
}

impl ScriptedModel {
    /// Creates a model with these replies, under the id `test/scripted`.
    pub fn new(replies: impl IntoIterator<Item = Script>) -> Self {
        let shared = Shared { scripts: replies.into_iter().collect(), ..Shared::default() };
        ScriptedModel {
            info: ModelInfo::new("test/scripted"),
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    /// Creates a model that replies to each request as in `recording`.
    pub(super) fn replaying(recording: Recording) -> Self {
        let model = Self::new([]);
        model.shared().recording = Some(recording);
        model
    }

    /// Sets the model's id, prices and context window, as returned by [`ChatModel::info`].
    pub fn info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }

    /// Discards requests instead of recording them, so that long sessions use little memory.
    pub fn discard_requests(self) -> Self {
        self.shared().discards_requests = true;
        self
    }

    /// Plays `script` for each request after the last scripted reply, instead of an error.
    pub fn default_reply(self, script: Script) -> Self {
        self.reply_with(move |_| script.clone())
    }

    /// Plays the script that `reply` returns for each request after the last scripted reply,
    /// instead of an error.
    pub fn reply_with(
        self,
        reply: impl Fn(&ChatRequest) -> Script + Send + Sync + 'static,
    ) -> Self {
        self.shared().default_reply = Some(Arc::new(reply));
        self
    }

    /// Appends a reply.
    pub fn push(&self, script: Script) {
        self.shared().scripts.push_back(script);
    }

    /// Replaces the remaining replies.
    pub fn set_replies(&self, replies: impl IntoIterator<Item = Script>) {
        self.shared().scripts = replies.into_iter().collect();
    }

    /// Returns the requests so far, without the refused ones.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.shared().requests.clone()
    }

    /// Returns the scripts played for the [`requests`](Self::requests), in the same order.
    pub fn played(&self) -> Vec<Script> {
        self.shared().played.clone()
    }

    /// Returns the reason for each refused request.
    pub fn refused(&self) -> Vec<String> {
        self.shared().refused.clone()
    }

    /// Returns whether a request came after the last script.
    pub(super) fn ran_out(&self) -> bool {
        self.shared().ran_out
    }

    /// Returns the requests so far with their replies.
    pub(super) fn recording(&self) -> Recording {
        let shared = self.shared();
        let requests = shared.requests.iter().cloned();
        Recording::new(requests.zip(shared.played.iter().cloned()))
    }

    /// Returns the requests that the recording lacks, one line each, with their numbers from zero.
    pub(super) fn unrecorded(&self) -> Vec<(usize, String)> {
        let shared = self.shared();
        shared.recording.as_ref().map(|recording| recording.missing().to_vec()).unwrap_or_default()
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, request: ChatRequest) -> Result<Script, String> {
        let mut shared = self.shared();
        if let Err(why) = check_request(&request) {
            shared.refused.push(why.clone());
            return Err(format!("the scripted model refuses the request: {why}"));
        }
        shared.taken += 1;
        let script = match &mut shared.recording {
            Some(recording) => recording.reply(&request),
            None => shared
                .scripts
                .pop_front()
                .or_else(|| shared.default_reply.as_ref().map(|reply| reply(&request))),
        };
        let script = script.ok_or_else(|| {
            let last = request.messages.last().map(|message| message.text()).unwrap_or_default();
            let last = excerpt::chars(&last, MAX_EXCERPT_CHARS);
            let number = shared.taken;
            format!("the script has no reply left for request {number}, which ends with: {last}")
        });
        shared.ran_out |= script.is_err();
        if !shared.discards_requests {
            shared.requests.push(request);
            shared.played.push(script.clone().unwrap_or_default());
        }
        script
    }
}

impl ChatModel for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        match self.next(request) {
            Ok(script) => script.play(),
            Err(why) => {
                let error = ModelError::new(ModelErrorKind::InvalidRequest, why);
                stream::iter([ModelEvent::Error(error)]).boxed()
            }
        }
    }
}
