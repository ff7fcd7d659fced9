//! `GET /api/sessions/{id}/events`: the events of a session, from any point on.

use axum::Router;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::HeaderMap;
use axum::response::Response;
use axum::response::sse::Event;
use axum::routing::get;
use futures::stream;
use schemars::JsonSchema;
use serde::Deserialize;

use crate::error::{ApiError, ErrorKind};
use crate::feed::Feed;
use crate::routes::sessions::SessionId;
use crate::server::Server;
use crate::sse::{DrainedFrames, event_frame};

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
    let feed = Feed::open(&server, &id, after, query.tree).await?;
    let next = async |mut feed: Feed| {
        let (number, event) = feed.next().await?;
        Some((event_frame(number, &event), feed))
    };
    let notice = Event::default().event("draining").data("{}");
    Ok(DrainedFrames::new(shared, Box::pin(stream::unfold(feed, next)), notice).response())
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
