//! [`RetryMalformedCalls`]: reports a malformed reply to the model and asks again.

use std::sync::Arc;

use futures::stream::{self, BoxStream, StreamExt};
use loopwright_core::message::{MessageId, UserMessage};
use loopwright_core::model::{ChatRequest, ModelError, ModelErrorKind, ModelEvent, ModelInfo};
use loopwright_core::{ChatModel, Message};

use super::emitted::Emitted;

/// A model that is asked again when the server could not use its reply
/// ([`ModelErrorKind::Malformed`]), for example a call with invalid JSON. The model receives the
/// error.
///
/// ```
/// use loopwright_providers::{Offline, Retry, RetryMalformedCalls};
///
/// let model = Retry::new(RetryMalformedCalls::new(Offline::new()).attempts(3));
/// ```
///
/// The streamed part is [withdrawn](ModelEvent::Withdrawn). The message that asks again is part of
/// that one request only, not of the conversation. After the last attempt the error is returned.
/// Other errors are returned at once. They include [`ModelErrorKind::Protocol`], which the model
/// does not cause. For those, put [`Retry`](crate::Retry) around this wrapper. It does not retry
/// errors that this wrapper has handled.
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
                        tracing::debug!(attempt = attempt.number, %error, "a model receives what \
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
    /// The number of the attempt, from 1.
    number: u32,
    emitted: Emitted,
}

/// Returns the request, plus a message about the error in the reply.
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
