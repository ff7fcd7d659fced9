//! [`CassetteModel`]: a model whose replies are recorded or replayed.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use futures_util::stream::{self, BoxStream};
use futures_util::{Stream, StreamExt};

use super::error::CassetteError;
use super::file::AgentKey;
use super::player::Reply;
use super::recorder::Ticket;
use super::tape::{CUT_OFF_TIMEOUT, Shared, Tape};
use crate::error::{ModelError, ModelErrorKind};
use crate::model::{ChatModel, ChatRequest, ModelEvent, ModelInfo};

/// A model of an agent whose replies are recorded or replayed.
pub(super) struct CassetteModel {
    shared: Shared,
    of: AgentKey,
    name: Option<Arc<str>>,
    info: ModelInfo,
    model: Arc<dyn ChatModel>,
}

impl CassetteModel {
    pub(super) fn new(
        shared: Shared,
        of: AgentKey,
        name: Option<&str>,
        model: Arc<dyn ChatModel>,
    ) -> Self {
        let info = match &mut *shared.lock() {
            Tape::Record(recorder) => {
                recorder.model(of.clone(), name, model.info());
                None
            }
            Tape::Replay(player) => player.model(&of, name),
        };
        let info = info.unwrap_or_else(|| model.info().clone());
        CassetteModel { shared, of, name: name.map(Into::into), info, model }
    }
}

impl ChatModel for CassetteModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        // Here rather than on the first poll, because requests are numbered in the order in which
        // they are made.
        let name = self.name.as_deref();
        let mut tape = self.shared.lock();
        let reply = match &mut *tape {
            Tape::Record(recorder) => match recorder.start_request(name, &request) {
                Ok(ticket) => {
                    drop(tape);
                    let events = self.model.stream(request);
                    return RecordedStream { shared: &self.shared, events, ticket }.boxed();
                }
                Err(error) => Err(error),
            },
            Tape::Replay(player) => player.reply(&self.of, name, &request),
        };
        match reply {
            Ok(Reply { events, cut_off: false }) => stream::iter(events).boxed(),
            Ok(Reply { events, cut_off: true }) => {
                stream::iter(events).chain(stream::once(not_dropped())).boxed()
            }
            Err(error) => stream::iter([failed(&error)]).boxed(),
        }
    }
}

/// Waits to be dropped, like the recorded reply.
async fn not_dropped() -> ModelEvent {
    tokio::time::sleep(CUT_OFF_TIMEOUT).await;
    let why = format!(
        "the cassette has only the start of this reply, which was aborted or interrupted; the \
         replay did neither for {CUT_OFF_TIMEOUT:?}"
    );
    ModelEvent::Error(ModelError::new(ModelErrorKind::InvalidRequest, why))
}

/// Returns an event that ends a request with this error, without a retry.
fn failed(error: &CassetteError) -> ModelEvent {
    ModelEvent::Error(ModelError::new(ModelErrorKind::InvalidRequest, error.to_string()))
}

/// A reply that is being recorded.
struct RecordedStream<'a> {
    shared: &'a Shared,
    events: BoxStream<'a, ModelEvent>,
    ticket: Ticket,
}

impl RecordedStream<'_> {
    fn end(&self, cut_off: bool) -> Result<(), CassetteError> {
        match &mut *self.shared.lock() {
            Tape::Record(recorder) => recorder.end(self.ticket, cut_off),
            Tape::Replay(_) => Ok(()),
        }
    }
}

impl Stream for RecordedStream<'_> {
    type Item = ModelEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<ModelEvent>> {
        let event = ready!(self.events.poll_next_unpin(cx));
        let recorded = match (&mut *self.shared.lock(), &event) {
            (Tape::Record(recorder), Some(event)) => recorder.event(self.ticket, event),
            (Tape::Record(recorder), None) => recorder.end(self.ticket, false),
            (Tape::Replay(_), _) => Ok(()),
        };
        // An exchange that could not be recorded must not look as if it were in the cassette.
        Poll::Ready(recorded.map_or_else(|error| Some(failed(&error)), |()| event))
    }
}

impl Drop for RecordedStream<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.end(true) {
            tracing::error!(%error, "a reply was not recorded");
        }
    }
}

/// A stand-in for a model that a replay does not need.
pub(super) struct Unused(ModelInfo);

impl Unused {
    pub(super) fn new() -> Self {
        Unused(ModelInfo::new("cassette/unused"))
    }
}

impl ChatModel for Unused {
    fn info(&self) -> &ModelInfo {
        &self.0
    }

    fn stream<'a>(&'a self, _: ChatRequest) -> BoxStream<'a, ModelEvent> {
        let why = "a replay has no model: wrap the agent with `Cassette::agent`";
        let error = ModelError::new(ModelErrorKind::InvalidRequest, why);
        stream::iter([ModelEvent::Error(error)]).boxed()
    }
}
