//! [`ProtocolStream`]: the response of a protocol, which shows runs of a session. The runs continue
//! when the client stops reading.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use axum::response::Response;
use futures::stream;
use loopwright_core::event::{Envelope, Input, InputEvent};
use loopwright_core::message::CallId;
use loopwright_protocols::{Awaited, Encode, Progress};
use tokio_util::sync::WaitForCancellationFutureOwned;

use super::backlog::{RunStart, Start};
use super::conversation::Conversation;
use super::feed::Feed;
use super::sse_frames::{SseFrame, response};
use crate::error::ApiError;
use crate::telemetry::metrics::OpenStream;

/// A stream of protocol events for runs of a session.
pub(crate) struct ProtocolStream<E: Encode> {
    conversation: Conversation,
    feed: Feed,
    encoder: E,
    ready: VecDeque<E::Event>,
    is_complete: bool,
    /// The frame after the last event.
    last: Option<SseFrame>,
    /// A future that resolves when the grace period of a shutdown is over.
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: OpenStream,
}

impl<E> ProtocolStream<E>
where
    E: Encode<Event: Send> + Send + 'static,
{
    /// Creates a stream that starts with the `ready` events and continues with this feed.
    pub(crate) fn new(
        conversation: Conversation,
        feed: Feed,
        encoder: E,
        ready: VecDeque<E::Event>,
    ) -> Self {
        let shared = conversation.server().shared();
        let end = Box::pin(shared.drain.finished());
        let _open = shared.metrics.open_stream();
        ProtocolStream {
            conversation,
            feed,
            encoder,
            ready,
            is_complete: false,
            last: None,
            end,
            _open,
        }
    }

    /// Adds a frame after the last event.
    pub(crate) fn last(mut self, frame: SseFrame) -> Self {
        self.last = Some(frame);
        self
    }

    /// Returns the response.
    pub(crate) fn response(self) -> Response {
        let next = async |mut stream: Self| stream.next().await.map(|frame| (frame, stream));
        response(Box::pin(stream::unfold(self, next)))
    }

    async fn next(&mut self) -> Option<SseFrame> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(SseFrame::new(None, &event));
            }
            if self.is_complete {
                return self.last.take();
            }
            let event = tokio::select! { biased;
                event = self.feed.next_event() => event,
                () = &mut self.end => {
                    self.cut_off("draining", "The server shuts down: send the request again soon.");
                    continue;
                }
            };
            match event {
                Some((_, event)) => self.take(event).await,
                None => self.cut_off(
                    "disconnected",
                    "The session was closed, or its events were read too slowly: send the request \
                     again to follow the run.",
                ),
            }
        }
    }

    async fn take(&mut self, event: Arc<Envelope>) {
        let taken = match self.encoder.encode(&event, &mut self.ready) {
            Progress::Continue => Ok(()),
            Progress::Restate => self.conversation.history().await.map(|events| {
                self.encoder.restate(&events, &mut self.ready);
            }),
            Progress::Finish => self.finish().await,
        };
        if let Err(error) = taken {
            self.cut_off("internal", error.message());
        }
    }

    async fn finish(&mut self) -> Result<(), ApiError> {
        let pending = self.conversation.pending().await?;
        self.encoder.finish(&pending, &mut self.ready);
        self.is_complete = true;
        Ok(())
    }

    fn cut_off(&mut self, kind: &str, why: &str) {
        self.encoder.cut_off(kind, why, &mut self.ready);
        self.is_complete = true;
    }
}

/// Returns a response that has only these events.
pub(crate) fn complete<T: serde::Serialize>(events: VecDeque<T>) -> Response {
    let frames: Vec<SseFrame> = events.iter().map(|event| SseFrame::new(None, event)).collect();
    response(stream::iter(frames))
}

/// Sends the inputs of a request. Returns the events of the session that follow, and the part of
/// `awaited` that the response waits for. A decision is not awaited if its action is still pending
/// because others must approve it too. With `tree`, the events of sub-agents are included.
pub(crate) async fn send_all(
    conversation: &Conversation,
    inputs: Vec<Input>,
    mut awaited: Vec<Awaited>,
    tree: bool,
) -> Result<(Feed, Vec<Awaited>), ApiError> {
    let decided: Vec<(CallId, Arc<str>)> = inputs
        .iter()
        .filter_map(|input| match &input.event {
            InputEvent::ExternalActionResult(result) => {
                Some((result.call.clone(), result.digest.clone()))
            }
            _ => None,
        })
        .collect();
    let undecided = async || {
        let pending = match decided.is_empty() {
            true => Vec::new(),
            false => conversation.pending().await?,
        };
        let is_pending = |(call, digest): &&(CallId, Arc<str>)| {
            pending.iter().any(|action| action.call == *call && action.digest == *digest)
        };
        Ok::<_, ApiError>(decided.iter().filter(is_pending).cloned().collect::<Vec<_>>())
    };
    // Opened before sending, so that no event of a sub-agent is missed: they cannot be read later.
    let run = match awaited.first() {
        Some(Awaited::Request(id)) => RunStart::OfRequest(id.clone()),
        // The same call may have been decided before.
        Some(Awaited::Decision(call)) if undecided().await?.is_empty() => {
            RunStart::OfDecision(call.clone())
        }
        _ => RunStart::Next,
    };
    let feed = conversation.events(Start::Run(run), tree).await?;
    for input in inputs {
        conversation.send(input).await?;
    }
    let undecided = undecided().await?;
    awaited.retain(|awaited| match awaited {
        Awaited::Decision(call) => !undecided.iter().any(|(pending, _)| pending == call),
        _ => true,
    });
    Ok((feed, awaited))
}
