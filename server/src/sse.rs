//! A session's events as an event stream, for routes of one's own.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use loopwright_core::event::Envelope;

/// How long a stream is silent before it says that it is there.
const HEARTBEAT: Duration = Duration::from_secs(15);

/// Sends events to a client, each in a frame with its type, its JSON in one line, and its number if
/// it has one of its own.
///
/// It takes a session's [`EventStream`](loopwright_core::EventStream), or its
/// [`public`](crate::ToPublic::public) form.
pub fn sse<S>(events: S) -> Sse<impl Stream<Item = Result<Event, Infallible>> + Send + 'static>
where
    S: Stream<Item = Arc<Envelope>> + Send + 'static,
{
    let mut numbering = Numbering::default();
    let frames = events.map(move |envelope| Ok(numbering.frame(&envelope)));
    Sse::new(frames).keep_alive(KeepAlive::new().interval(HEARTBEAT))
}

/// The response with these frames, which says now and then that it is there.
pub(crate) fn alive(frames: impl Stream<Item = Event> + Send + 'static) -> Response {
    let frames =
        Sse::new(frames.map(Ok::<_, Infallible>)).keep_alive(KeepAlive::new().interval(HEARTBEAT));
    // A proxy that keeps text back would make one piece of what streams.
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    ([unbuffered], frames).into_response()
}

/// Knows the number of the last event. Only those with a number of their own have an id: so a
/// browser that reconnects names the last of them.
#[derive(Default)]
pub(crate) struct Numbering(pub(crate) u64);

impl Numbering {
    /// The next event.
    pub(crate) fn frame(&mut self, envelope: &Envelope) -> Event {
        let frame = match serde_json::to_string(envelope) {
            Ok(json) => Event::default().event(envelope.event.name()).data(json),
            Err(why) => {
                tracing::error!(session = %envelope.session_id, seq = envelope.seq, "an event cannot be written: {why}");
                Event::default().comment("an event that cannot be written is left out")
            }
        };
        if envelope.seq <= self.0 {
            return frame;
        }
        self.0 = envelope.seq;
        frame.id(envelope.seq.to_string())
    }
}
