//! [`Fallback`]: asks the next model when one fails.

use std::collections::VecDeque;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures::stream::{BoxStream, Stream, StreamExt};
use loopwright_core::ChatModel;
use loopwright_core::model::{ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo};

use super::emitted::Emitted;
use crate::http::endpoint::cut_short;

/// Kinds of error that may not affect another model: of the server, the connection, the key or the
/// account.
const KINDS: [ModelErrorKind; 10] = [
    ModelErrorKind::Auth,
    ModelErrorKind::RateLimited,
    ModelErrorKind::QuotaExhausted,
    ModelErrorKind::PaymentRequired,
    ModelErrorKind::Overloaded,
    ModelErrorKind::Unreachable,
    ModelErrorKind::Network,
    ModelErrorKind::Timeout,
    ModelErrorKind::Protocol,
    ModelErrorKind::Malformed,
];

/// A model that asks several models in order, until one succeeds.
///
/// Each request starts with the first model. The next one is asked after an error of a kind set
/// with [`Fallback::on`]. A reply that has started to stream is then
/// [withdrawn](ModelEvent::Withdrawn). The reply names the model that wrote it, which determines
/// the cost and the recipient of its signatures. After the last model, the error contains the
/// errors of all models.
///
/// ```
/// use loopwright_providers::{Fallback, Offline, Retry};
///
/// let model = Fallback::new(Retry::new(Offline::new())).or(Offline::new());
/// ```
///
/// Wrap each model in [`Retry`](crate::Retry) to retry it before the next one is asked. Wrap the
/// whole to ask all models before any is retried.
pub struct Fallback {
    choices: Vec<Choice>,
    kinds: Vec<ModelErrorKind>,
    info: ModelInfo,
}

struct Choice {
    model: Box<dyn ChatModel>,
    info: Arc<ModelInfo>,
}

impl Fallback {
    /// Returns a fallback that asks `first` first; [`Fallback::or`] adds others.
    ///
    /// By default the next model is asked after errors of the key, the account, a limit, the
    /// server, the connection or the format of the response. A request that is too large, invalid
    /// or filtered is not sent to another model, unless [`Fallback::on`] says so.
    pub fn new(first: impl ChatModel + 'static) -> Self {
        let info = first.info().clone();
        let choice = Choice { info: Arc::new(info.clone()), model: Box::new(first) };
        Fallback { choices: vec![choice], kinds: KINDS.to_vec(), info }
    }

    /// Adds a model that is asked when all models before it have failed. Under a cost limit, each
    /// model needs prices.
    pub fn or(mut self, next: impl ChatModel + 'static) -> Self {
        let info = Arc::new(next.info().clone());
        // Only values that hold for all models: a cost limit needs each model's prices, and a
        // request must suit each model.
        self.info.prices = self.info.prices.filter(|_| info.prices.is_some());
        let windows = [self.info.context_window, info.context_window];
        self.info.context_window = windows.into_iter().flatten().min();
        self.info.max_output = [self.info.max_output, info.max_output].into_iter().flatten().min();
        self.info.thinking = both(self.info.thinking, info.thinking);
        self.info.images = both(self.info.images, info.images);
        self.choices.push(Choice { info, model: Box::new(next) });
        self
    }

    /// Sets the kinds of error after which the next model is asked. Replaces the defaults.
    pub fn on(mut self, kinds: impl IntoIterator<Item = ModelErrorKind>) -> Self {
        self.kinds = kinds.into_iter().collect();
        self
    }
}

/// Combines an ability of two models: `Some(true)` if both have it, `Some(false)` if one lacks it.
fn both(one: Option<bool>, other: Option<bool>) -> Option<bool> {
    match (one, other) {
        (Some(false), _) | (_, Some(false)) => Some(false),
        (Some(true), Some(true)) => Some(true),
        _ => None,
    }
}

impl ChatModel for Fallback {
    /// Returns the first model's name, its prices if all are known, the smallest known sizes, and
    /// the abilities common to all.
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let mut attempts = Attempts {
            fallback: self,
            request,
            stream: None,
            ready: VecDeque::new(),
            emitted: Emitted::default(),
            errors: Vec::new(),
        };
        attempts.start_attempt();
        attempts.boxed()
    }
}

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let models: Vec<_> = self.choices.iter().map(|choice| &choice.info.id).collect();
        f.debug_struct("Fallback").field("models", &models).field("kinds", &self.kinds).finish()
    }
}

/// One request, and the models that have failed it so far.
struct Attempts<'a> {
    fallback: &'a Fallback,
    request: ChatRequest,
    /// The stream of the current model; `None` once the last event was returned or is in `ready`.
    stream: Option<BoxStream<'a, ModelEvent>>,
    /// The events to return before the stream's.
    ready: VecDeque<ModelEvent>,
    emitted: Emitted,
    errors: Vec<ModelError>,
}

impl Attempts<'_> {
    /// Sends the request to the next model.
    fn start_attempt(&mut self) {
        if let Some(choice) = self.fallback.choices.get(self.errors.len()) {
            self.ready.push_back(ModelEvent::AnsweredBy(choice.info.clone()));
            self.stream = Some(choice.model.stream(self.request.clone()));
        }
    }

    /// Handles a failure of the current model.
    fn failed(&mut self, error: ModelError) {
        self.stream = None;
        let continues = self.fallback.kinds.contains(&error.kind);
        self.errors.push(error);
        if !continues || self.errors.len() == self.fallback.choices.len() {
            let error = self.error(continues);
            self.ready.push_back(ModelEvent::Error(error));
            return;
        }
        self.ready.extend(self.emitted.withdraw());
        tracing::debug!(failed = self.errors.len(), "the next model is asked");
        self.start_attempt();
    }

    /// Combines all errors into one: if `all`, the retryable error with the shortest wait, else the
    /// last error. `all` means that the last error would have led to another model.
    fn error(&self, all: bool) -> ModelError {
        let soonest = |error: &&ModelError| error.retry_after.unwrap_or_default();
        let passing =
            self.errors.iter().filter(|error| all && error.is_retryable()).min_by_key(soonest);
        let Some(mut error) = passing.or(self.errors.last()).cloned() else {
            return cut_short(&self.fallback.info.id);
        };
        if self.errors.len() > 1 {
            error.message = format!("None of {} models could answer.", self.errors.len());
            for (choice, failure) in self.fallback.choices.iter().zip(&self.errors) {
                error.message.push_str(&format!(" `{}`: {}", choice.info.id, failure.message));
            }
        }
        error
    }
}

impl Stream for Attempts<'_> {
    type Item = ModelEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ModelEvent>> {
        let this = &mut *self;
        loop {
            if let Some(event) = this.ready.pop_front() {
                return Poll::Ready(Some(event));
            }
            let Some(stream) = &mut this.stream else {
                return Poll::Ready(None);
            };
            match ready!(stream.poll_next_unpin(cx)) {
                Some(ModelEvent::Error(error)) => this.failed(error),
                None => {
                    let id = this
                        .fallback
                        .choices
                        .get(this.errors.len())
                        .map_or("", |choice| &choice.info.id);
                    this.failed(cut_short(id));
                }
                Some(event) => {
                    this.emitted.note(&event);
                    if let ModelEvent::Done { .. } = event {
                        this.stream = None;
                    }
                    return Poll::Ready(Some(event));
                }
            }
        }
    }
}
