//! `GET /api/sessions/{id}/events`: the events of a session, from any point on.
//!
//! Earlier events are derived from the session's log, later ones come from the session itself. The
//! session returns the length of its log together with its stream, so no event is lost or doubled
//! between them. A reader gets the next event when it has read the one before, so what it does not
//! read takes no memory.

use std::pin::Pin;
use std::sync::Arc;

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use axum::routing::get;
use futures::stream;
use loopwright_core::EventStream;
use loopwright_core::event::Envelope;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::backlog::Missed;
use crate::error::{ApiError, ErrorKind};
use crate::live::LeaseGuard;
use crate::metrics::OpenStream;
use crate::routes::sessions::SessionId;
use crate::server::Server;
use crate::sse::{Numbering, response};

/// Where a reader wants to continue.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct After {
    /// The number of the last event that the reader has; all events are sent if it is missing. The
    /// header `Last-Event-ID`, which browsers send when they reconnect, takes precedence.
    #[serde(default)]
    after: Option<u64>,
    /// Whether the events of sub-agents are sent, too, from here on. They have no `id`.
    #[serde(default)]
    tree: bool,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/sessions/{id}/events", get(events))
}

async fn events(
    State(server): State<Server>,
    SessionId(id): SessionId,
    query: Result<Query<After>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let Query(query) = query.map_err(|_| {
        let why = "`after` is not the number of an event, or `tree` is neither `true` nor `false`.";
        ApiError::new(ErrorKind::BadRequest, why)
    })?;
    let after = last_event_id(&headers)?.or(query.after).unwrap_or(0);
    let lease = shared.live.lease(&id).await?;
    let (length, live) = match query.tree {
        true => lease.handle.join_tree().await?,
        false => lease.handle.join().await?,
    };
    let missed = lease.backlog.missed(&*shared.store, &id, length, after).await?;
    let feed = Feed {
        missed,
        live,
        numbering: Numbering(after),
        draining: Some(Box::pin(shared.drain.started())),
        end: Box::pin(shared.drain.finished()),
        _lease: lease.guard,
        _open: shared.metrics.open_stream(),
    };
    let frames = async |mut feed: Feed| feed.next().await.map(|frame| (frame, feed));
    Ok(response(stream::unfold(feed, frames)))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let number = id.to_str().ok().and_then(|id| id.parse().ok());
    number.map(Some).ok_or_else(|| not_a_number("Last-Event-ID"))
}

fn not_a_number(name: &str) -> ApiError {
    ApiError::new(
        ErrorKind::BadRequest,
        format!("`{name}` is not the number of an event of this session."),
    )
}

/// The frames of one reader.
struct Feed {
    missed: Missed,
    live: EventStream,
    numbering: Numbering,
    /// `None` when the reader has been sent `draining`.
    draining: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    _lease: LeaseGuard,
    _open: OpenStream,
}

impl Feed {
    async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.missed.next().await {
            return Some(self.numbering.frame(&event));
        }
        let draining = async {
            match &mut self.draining {
                Some(started) => started.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { biased;
            event = self.live.next() => {
                event.map(|event: Arc<Envelope>| self.numbering.frame(&event))
            },
            () = draining => {
                self.draining = None;
                Some(Event::default().event("draining").data("{}"))
            },
            () = &mut self.end => None,
        }
    }
}
