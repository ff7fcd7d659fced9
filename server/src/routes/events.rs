//! `GET /api/sessions/{id}/events`: the events of a session, from any point on.

use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::routing::get;
use axum::{Json, Router};
use futures::stream;
use loopwright_core::event::Envelope;
use loopwright_protocols::MAX_WHOLE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::access::{Read, SessionFor};
use crate::error::{ApiError, ErrorKind};
use crate::server::Server;
use crate::streams::backlog::Start;
use crate::streams::feed::Feed;
use crate::streams::sse_frames::{DrainedFrames, SseFrame};

/// The start of a reader's stream.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct After {
    /// The number of the last event that the reader has; without it, all events are sent. The
    /// header `Last-Event-ID`, which browsers send when they reconnect, takes precedence.
    #[serde(default)]
    after: Option<u64>,
    /// Without a number to continue after: about how many of the last events are sent.
    #[serde(default)]
    last: Option<u64>,
    /// `true` if new events of sub-agents are sent too. They have no `id`.
    #[serde(default)]
    tree: bool,
}

/// A query for earlier events.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct HistoryQuery {
    /// Only events before this number.
    before: u64,
    /// The approximate number of events.
    #[serde(default)]
    limit: Option<u64>,
}

/// Earlier events of a session.
#[derive(Serialize, JsonSchema)]
pub(crate) struct History {
    /// The events that have numbers, in order: whole turns.
    pub(crate) events: Vec<Arc<Envelope>>,
    /// The `before` of the page with earlier events. Missing on the first page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) before: Option<u64>,
}

/// The default number of events on a page of the history.
pub(crate) const PAGE_EVENTS: u64 = 200;
pub(crate) const MAX_PAGE_EVENTS: u64 = 1_000;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/api/sessions/{id}/events", get(events))
        .route("/api/sessions/{id}/history", get(history))
}

async fn history(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Read>,
    query: Result<Query<HistoryQuery>, QueryRejection>,
) -> Result<Json<History>, ApiError> {
    let bad_request = |why: String| ApiError::new(ErrorKind::BadRequest, why);
    let Query(query) = query.map_err(|why| bad_request(why.body_text()))?;
    let limit = query.limit.unwrap_or(PAGE_EVENTS);
    if !(1..=MAX_PAGE_EVENTS).contains(&limit) {
        let why = format!("`limit` must be a number from 1 to {MAX_PAGE_EVENTS}.");
        return Err(bad_request(why));
    }
    if query.before > MAX_WHOLE {
        let why = format!("`before` must be a number from 0 to {MAX_WHOLE}.");
        return Err(bad_request(why));
    }
    let shared = server.shared();
    let page = shared.histories.page(&*shared.store, &id, query.before, limit);
    let (events, after) = page.await?;
    Ok(Json(History { events, before: (after > 0).then_some(after + 1) }))
}

async fn events(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Read>,
    query: Result<Query<After>, QueryRejection>,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let Query(query) = query.map_err(|_| {
        let why = "`after` or `last` is no number, or `tree` is neither `true` nor `false`.";
        ApiError::new(ErrorKind::BadRequest, why)
    })?;
    for (name, given) in [("after", query.after), ("last", query.last)] {
        if given.is_some_and(|number| number > MAX_WHOLE) {
            let why = format!("`{name}` must be a number from 0 to {MAX_WHOLE}.");
            return Err(ApiError::new(ErrorKind::BadRequest, why));
        }
    }
    let start = Start::new(last_event_id(&headers)?.or(query.after), query.last);
    let feed = Feed::open(&server, &id, start, query.tree).await?;
    let next = async |mut feed: Feed| {
        let (number, encoded) = feed.next().await?;
        let name = encoded.event.event.name();
        Some((SseFrame::around(name, encoded.json, ("", ""), number), feed))
    };
    let notice = SseFrame::new(Some("draining"), &json!({}));
    Ok(DrainedFrames::new(shared, Box::pin(stream::unfold(feed, next)), notice).response())
}

fn last_event_id(headers: &HeaderMap) -> Result<Option<u64>, ApiError> {
    let Some(id) = headers.get("last-event-id").filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let number = id.to_str().ok().and_then(|id| id.parse().ok());
    let number = number.filter(|number| *number <= MAX_WHOLE);
    number.map(Some).ok_or_else(|| not_a_number("Last-Event-ID"))
}

fn not_a_number(name: &str) -> ApiError {
    ApiError::new(
        ErrorKind::BadRequest,
        format!("`{name}` is not the number of an event of this session."),
    )
}
