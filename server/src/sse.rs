//! [`sse`]: a session's events as an event stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{HeaderName, HeaderValue};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures::{Stream, StreamExt};
use loopwright_core::event::Envelope;

/// How long a stream is silent before a comment is sent.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Returns a response that streams events to a client. Each event is a frame with its type, its
/// JSON in one line, and its sequence number as `id` if it has one.
///
/// `events` is a session's [`EventStream`](loopwright_core::EventStream), or its
/// [`public`](crate::ToPublic::public) form. A comment is sent every 15 seconds without events.
/// When the client disconnects, the response and with it the stream is dropped; the run continues.
///
/// ```
/// use axum::Router;
/// use axum::extract::State;
/// use axum::response::{IntoResponse, Response};
/// use axum::routing::get;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::PiPattern;
/// use loopwright_server::{ToPublic, sse};
///
/// async fn events(State(agent): State<GenericAgent>) -> Response {
///     let Ok((handle, _)) = agent.run(RunContext::new()).await else {
///         return "The agent could not be started.".into_response();
///     };
///     match handle.prompt_stream("How many sheep are there?").await {
///         Ok(events) => sse(events.public()).into_response(),
///         Err(error) => error.to_string().into_response(),
///     }
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([Script::text("Nine.")]);
/// let agent = GenericAgent::builder(model, PiPattern).build()?;
/// let app: Router = Router::new().route("/events", get(events)).with_state(agent);
/// # Ok(()) }
/// ```
pub fn sse<S>(events: S) -> Sse<impl Stream<Item = Result<Event, Infallible>> + Send + 'static>
where
    S: Stream<Item = Arc<Envelope>> + Send + 'static,
{
    let mut numbering = Numbering::default();
    with_heartbeat(events.map(move |envelope| numbering.frame(&envelope)))
}

/// Returns a response with these frames, which proxies do not buffer.
pub(crate) fn response(frames: impl Stream<Item = Event> + Send + 'static) -> Response {
    let unbuffered = (HeaderName::from_static("x-accel-buffering"), HeaderValue::from_static("no"));
    ([unbuffered], with_heartbeat(frames)).into_response()
}

fn with_heartbeat(
    frames: impl Stream<Item = Event> + Send + 'static,
) -> Sse<impl Stream<Item = Result<Event, Infallible>> + Send + 'static> {
    Sse::new(frames.map(Ok)).keep_alive(KeepAlive::new().interval(HEARTBEAT_INTERVAL))
}

/// Holds the number of the last event. Only events with a new number get an `id`, so a browser that
/// reconnects names the last numbered event. Sub-agents number their own events, which get none.
#[derive(Default)]
pub(crate) struct Numbering(pub(crate) u64);

impl Numbering {
    /// Returns the frame of the next event.
    pub(crate) fn frame(&mut self, envelope: &Envelope) -> Event {
        let frame = match serde_json::to_string(envelope) {
            Ok(json) => Event::default().event(envelope.event.name()).data(json),
            Err(error) => {
                let (session, seq) = (&envelope.session_id, envelope.seq);
                tracing::error!(%session, seq, %error, "an event cannot be serialised");
                Event::default().comment("an event that cannot be serialised is left out")
            }
        };
        let is_of_sub_agent = envelope.parent.as_ref().is_some_and(|parent| parent.root.is_some());
        if is_of_sub_agent || envelope.seq <= self.0 {
            return frame;
        }
        self.0 = envelope.seq;
        frame.id(envelope.seq.to_string())
    }
}
