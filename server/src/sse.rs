//! A session's events as an event stream, for routes of one's own.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt};
use loopwright::{AgentEvent, Envelope, EventStream, RunOutcome};

/// How long a stream is silent before it says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Sends events to a client, each in a frame with its type, its JSON in one line, and its number if it has one of its own.
///
/// It takes a session's [`EventStream`], or its [`public`](ToPublic::public) form.
pub fn sse<S>(events: S) -> Sse<impl Stream<Item = Result<Event, Infallible>> + Send + 'static>
where
    S: Stream<Item = Arc<Envelope>> + Send + 'static,
{
    let mut last = 0;
    let frames = events.map(move |envelope| {
        let numbered = envelope.seq > last;
        last = envelope.seq.max(last);
        Ok(frame(&envelope, numbered))
    });
    Sse::new(frames).keep_alive(KeepAlive::new().interval(HEARTBEAT))
}

/// One event. Only those with a number of their own have an id: so a browser that reconnects names the last of them.
pub(crate) fn frame(envelope: &Envelope, numbered: bool) -> Event {
    let json = serde_json::to_value(envelope).unwrap_or_default();
    let frame = Event::default().event(json["type"].as_str().unwrap_or("error")).data(json.to_string());
    if numbered { frame.id(envelope.seq.to_string()) } else { frame }
}

/// Gives events a form that anybody may see.
pub trait ToPublic {
    /// Without what only the operator should see: arguments of calls, what they are needed for, costs, and the texts of
    /// errors.
    fn public(self) -> PublicEvents;
}

impl ToPublic for EventStream {
    fn public(self) -> PublicEvents {
        PublicEvents(self)
    }
}

/// Events that anybody may see: see [`ToPublic`].
pub struct PublicEvents(EventStream);

impl Stream for PublicEvents {
    type Item = Arc<Envelope>;
    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let event = ready!(self.0.poll_next_unpin(cx));
        Poll::Ready(event.map(|envelope| Arc::new(without_secrets(&envelope))))
    }
}

fn without_secrets(envelope: &Envelope) -> Envelope {
    let mut public = envelope.clone();
    if let AgentEvent::AgentEnd(outcome) = &envelope.event {
        let outcome = RunOutcome::clone(outcome);
        public.event = AgentEvent::AgentEnd(Arc::new(outcome));
    }
    public
}
