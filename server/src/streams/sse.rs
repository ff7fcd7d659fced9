//! [`sse`]: a session's events as an event stream.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::response::sse::{Event, KeepAlive, Sse};
use futures::{Stream, StreamExt};
use loopwright_core::event::Envelope;

/// The time without frames after which a comment is sent.
pub(crate) const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(15);

/// Returns a response that streams events to a client. Each event is a frame with its type, its
/// JSON in one line, and its sequence number as `id` if it has one.
///
/// `events` is a session's [`EventStream`](loopwright_core::EventStream), or its
/// [`public`](crate::ToPublic::public) form. A comment is sent after 15 seconds without events.
/// When the client disconnects, the response and the stream are dropped, and the run continues.
///
/// ```
/// use axum::Router;
/// use axum::extract::State;
/// use axum::response::{IntoResponse, Response};
/// use axum::routing::get;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::GenericAgent;
/// use loopwright_patterns::PiPattern;
/// use loopwright_server::{ToPublic, sse};
///
/// async fn events(State(agent): State<GenericAgent>) -> Response {
///     let Ok(handle) = agent.session().await else {
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
    let frames = events.map(move |envelope| Ok(numbering.frame(&envelope)));
    Sse::new(frames).keep_alive(KeepAlive::new().interval(HEARTBEAT_INTERVAL))
}

/// The number of the last event. Only events with a new number get an `id`, so a browser that
/// reconnects names the last numbered event. Sub-agents number their own events, which get no `id`.
#[derive(Default)]
pub(crate) struct Numbering(pub(crate) u64);

impl Numbering {
    /// Returns the frame of the next event.
    fn frame(&mut self, envelope: &Envelope) -> Event {
        event_frame(self.number(envelope), envelope)
    }

    /// Returns the number of the next event, or `None` if it has no number of its own.
    pub(crate) fn number(&mut self, envelope: &Envelope) -> Option<u64> {
        let is_of_sub_agent = envelope.parent.as_ref().is_some_and(|parent| parent.root.is_some());
        if is_of_sub_agent || envelope.seq <= self.0 {
            return None;
        }
        self.0 = envelope.seq;
        Some(envelope.seq)
    }
}

/// Returns the frame of an event with this number.
fn event_frame(number: Option<u64>, envelope: &Envelope) -> Event {
    let name = envelope.event.name();
    let frame = match serde_json::to_string(envelope) {
        Ok(json) => Event::default().event(name).data(json),
        Err(error) => {
            tracing::error!(name, %error, "an event cannot be serialised");
            Event::default().comment("an event that cannot be serialised is left out")
        }
    };
    match number {
        Some(number) => frame.id(number.to_string()),
        None => frame,
    }
}
