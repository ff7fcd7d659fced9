//! `GET /api/sessions/{id}/events`: the events of a session, from any point on.
//!
//! Earlier events are derived from the session's log, later ones come from the session itself. The
//! session returns the length of its log together with its stream, so no event is lost or doubled
//! between them. A reader gets the next event when it has read the one before, so what it does not
//! read takes no memory.
//!
//! The log alone gives the events of a session that another process has open, without deltas. When
//! the session is opened here, or taken over by another process, the reader goes on without a gap.

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
use crate::log_reader::LogReader;
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
    let feed = Feed {
        source: Source::open(&server, &id, query.tree, after).await?,
        numbering: Numbering(after),
        draining: Some(Box::pin(shared.drain.started())),
        end: Box::pin(shared.drain.finished()),
        _open: shared.metrics.open_stream(),
        session: id.as_str().into(),
        tree: query.tree,
        server: server.clone(),
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
    server: Server,
    session: Arc<str>,
    tree: bool,
    source: Source,
    numbering: Numbering,
    /// `None` when the reader has been sent `draining`.
    draining: Option<Pin<Box<WaitForCancellationFutureOwned>>>,
    end: Pin<Box<WaitForCancellationFutureOwned>>,
    _open: OpenStream,
}

/// Where the events of a session come from.
enum Source {
    /// The session, which is open here.
    Live { missed: Missed, live: EventStream, _lease: LeaseGuard },
    /// Its log, as another process has it open.
    Log(Box<LogReader>),
}

/// What a source has next.
enum Next {
    Event(Arc<Envelope>),
    /// Events may come from another source now.
    Reopen,
    /// Nothing yet.
    Wait,
    End,
}

impl Source {
    async fn open(server: &Server, id: &str, tree: bool, after: u64) -> Result<Self, ApiError> {
        let shared = server.shared();
        let Some(lease) = shared.live.lease(id).await? else {
            let reader = LogReader::after(shared.store.clone(), id.into(), after).await?;
            return Ok(Source::Log(Box::new(reader)));
        };
        let (length, live) = match tree {
            true => lease.handle.join_tree().await?,
            false => lease.handle.join().await?,
        };
        let missed = lease.backlog.missed(&*shared.store, id, length, after).await?;
        Ok(Source::Live { missed, live, _lease: lease.guard })
    }

    async fn next(&mut self, server: &Server, session: &str) -> Next {
        match self {
            Source::Live { missed, live, .. } => {
                if let Some(event) = missed.next().await {
                    return Next::Event(event);
                }
                match live.next().await {
                    Some(event) => Next::Event(event),
                    None if live.moved() => Next::Reopen,
                    None => Next::End,
                }
            }
            Source::Log(log) => match log.next().await {
                Ok(Some(event)) => Next::Event(event),
                Ok(None) if server.shared().live.peek(session).await.is_some() => Next::Reopen,
                Ok(None) => Next::Wait,
                Err(_) => Next::End, // it was deleted, or the reader learns of it when it reconnects
            },
        }
    }
}

impl Feed {
    async fn next(&mut self) -> Option<Event> {
        loop {
            let draining = async {
                match &mut self.draining {
                    Some(started) => started.await,
                    None => std::future::pending().await,
                }
            };
            let next = tokio::select! { biased;
                next = self.source.next(&self.server, &self.session) => next,
                () = draining => {
                    self.draining = None;
                    return Some(Event::default().event("draining").data("{}"));
                },
                () = &mut self.end => return None,
            };
            match next {
                Next::Event(event) => return Some(self.numbering.frame(&event)),
                Next::Reopen => {
                    let (server, after) = (&self.server, self.numbering.0);
                    let source = Source::open(server, &self.session, self.tree, after).await;
                    self.source = source.ok()?;
                }
                Next::Wait => {}
                Next::End => return None,
            }
        }
    }
}
