//! `GET /api/sessions/{id}/events`: what happens in a session, from any point on.
//!
//! What was told before comes from the session's log, what is told from here on from the session
//! itself; the session says where the one ends and the other begins, so nothing is missing and
//! nothing comes twice.

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
use loopwright_core::log::SessionLog;
use schemars::JsonSchema;
use serde::Deserialize;
use tokio_util::sync::WaitForCancellationFutureOwned;

use crate::config::Server;
use crate::error::{ApiError, Kind};
use crate::live::User;
use crate::metrics::OpenStream;
use crate::sessions::path::Id;
use crate::sse::{Numbering, alive};

/// Where a reader wants to go on.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct From {
    /// The number of the last event that the reader has; all are sent if it is missing. The header
    /// `Last-Event-ID`, which browsers send when they connect again, comes first.
    #[serde(default)]
    after: Option<u64>,
}

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/sessions/{id}/events", get(events))
}

async fn events(
    State(server): State<Server>,
    Id(id): Id,
    from: Result<Query<From>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let Query(from) = from.map_err(|_| {
        ApiError::new(Kind::BadRequest, "`after` is not the number of an event of this session.")
    })?;
    let after = last_event_id(&headers)?.or(from.after).unwrap_or(0);
    let used = shared.live.open(&server, &id).await?;
    let (length, live) = used.handle.join().await?;
    let mut items = shared.store.read(&id, 0).await?;
    items.truncate(usize::try_from(length).unwrap_or(usize::MAX));
    let told = SessionLog::events_after(id.as_str(), &items, after);
    if told.last().is_none_or(|event| event.seq <= after) {
        let last = SessionLog::events(id.as_str(), &items).len() as u64;
        if after > last {
            let why = format!(
                "The session has {last} events, and there is no number {after}: read it from the start, without \
                 `after` and `Last-Event-ID`."
            );
            return Err(ApiError::new(Kind::AfterTheEnd, why));
        }
    }
    let feed = Feed {
        told: told.into_iter(),
        live,
        numbering: Numbering(after),
        draining: Some(Box::pin(shared.drain.begun())),
        over: Box::pin(shared.drain.over()),
        _user: used.user,
        _open: shared.metrics.open_stream(),
    };
    Ok(alive(stream::unfold(feed, async |mut feed| feed.next().await.map(|frame| (frame, feed)))))
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let number = id.to_str().ok().and_then(|id| id.parse().ok());
    let wrong = || {
        ApiError::new(
            Kind::BadRequest,
            "`Last-Event-ID` is not the number of an event of this session.",
        )
    };
    number.map(Some).ok_or_else(wrong)
}

/// What one reader is sent.
struct Feed {
    told: std::vec::IntoIter<Envelope>,
    live: EventStream,
    numbering: Numbering,
    /// Until the reader has been told that the server is about to end.
    draining: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    over: Pin<Box<WaitForCancellationFutureOwned>>,
    _user: User,
    _open: OpenStream,
}

impl Feed {
    async fn next(&mut self) -> Option<Event> {
        if let Some(event) = self.told.next() {
            return Some(self.numbering.frame(&event));
        }
        let draining = async {
            match &mut self.draining {
                Some(begun) => begun.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! { biased;
            event = self.live.next() => event.map(|event: Arc<Envelope>| self.numbering.frame(&event)),
            () = draining => {
                self.draining = None;
                Some(Event::default().event("draining").data("{}"))
            },
            () = &mut self.over => None,
        }
    }
}
