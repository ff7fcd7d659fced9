//! `RetryMalformedCalls`: tells a model that what it wrote cannot be used, and asks again.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use loopwright_core::message::{MessageId, UserMessage};
use loopwright_core::model::{ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo};
use loopwright_core::{ChatModel, Message};

use crate::emitted::Emitted;

/// Wraps a model and asks it again when the server could not use its reply
/// ([`ModelErrorKind::Malformed`]), for example a call with invalid JSON. The model receives the
/// error.
///
/// ```
/// use loopwright_providers::{Offline, Retry, RetryMalformedCalls};
///
/// let model = Retry::new(RetryMalformedCalls::new(Offline::new()).attempts(3));
/// ```
///
/// What was streamed is [withdrawn](ModelEvent::Withdrawn). The words that ask again are in no
/// conversation but that one request. After the last attempt the error is given out. Other errors
/// are given out at once, that of an answer which cannot be understood
/// ([`ModelErrorKind::Protocol`]) among them, as the model did not write it:
/// [`Retry`](crate::Retry) is for those, and belongs around this. It takes no error that this has
/// handled.
#[derive(Debug, Clone)]
pub struct RetryMalformedCalls<M> {
    model: M,
    attempts: u32,
}

impl<M: ChatModel> RetryMalformedCalls<M> {
    /// Wraps `model` with two attempts.
    pub fn new(model: M) -> Self {
        RetryMalformedCalls { model, attempts: 2 }
    }

    /// Sets the maximum number of attempts, including the first.
    pub fn attempts(mut self, attempts: u32) -> Self {
        self.attempts = attempts;
        self
    }
}

impl<M: ChatModel> ChatModel for RetryMalformedCalls<M> {
    fn info(&self) -> &ModelInfo {
        self.model.info()
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let first = self.model.stream(request.clone());
        let attempt = Attempt { stream: first, request, number: 1, emitted: Emitted::default() };
        let events = stream::unfold(Some(attempt), move |attempt| async move {
            let mut attempt = attempt?;
            loop {
                match attempt.stream.next().await? {
                    ModelEvent::Error(error)
                        if error.kind == ModelErrorKind::Malformed
                            && attempt.number < self.attempts =>
                    {
                        tracing::debug!(attempt = attempt.number, %error, "a model is told what \
                            was wrong with its reply");
                        let request = with_correction(&attempt.request, &error);
                        attempt.stream = self.model.stream(request);
                        attempt.number += 1;
                        if let Some(withdrawn) = attempt.emitted.withdraw() {
                            return Some((withdrawn, Some(attempt)));
                        }
                    }
                    event @ (ModelEvent::Error(_) | ModelEvent::Done { .. }) => {
                        return Some((event, None));
                    }
                    event => {
                        attempt.emitted.note(&event);
                        return Some((event, Some(attempt)));
                    }
                }
            }
        });
        events.boxed()
    }
}

struct Attempt<'a> {
    stream: BoxStream<'a, ModelEvent>,
    request: ChatRequest,
    /// The number of the present attempt, from 1.
    number: u32,
    emitted: Emitted,
}

/// The request, and what was wrong with the reply to it.
fn with_correction(request: &ChatRequest, error: &ModelError) -> ChatRequest {
    let correction = format!(
        "Your last reply could not be used and was thrown away. {error} Write it again: call \
         tools only by their names, \
         with arguments that are valid JSON and fit their schemas."
    );
    let mut request = request.clone();
    let message = Message::new(MessageId::default(), UserMessage::from(correction));
    Arc::make_mut(&mut request.messages).push(Arc::new(message));
    request
}
