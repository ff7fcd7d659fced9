//! `/api/audit`: the decisions on actions, with author, time and origin.

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use loopwright_core::log::{AuditQuery, DecisionRecord};
use loopwright_protocols::MAX_WHOLE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::{Caller, may_audit};
use crate::error::{ApiError, ErrorKind};
use crate::routes::page_query::{cursor, limit};
use crate::server::Server;

pub(crate) fn routes() -> Router<Server> {
    Router::new().route("/api/audit", get(audit))
}

/// The query of a request for decisions.
#[derive(Deserialize)]
struct DecisionsQuery {
    after: Option<String>,
    limit: Option<u32>,
    session: Option<String>,
    by: Option<String>,
    since: Option<u64>,
    until: Option<u64>,
}

/// A page of decisions, the latest first: the caller's own, and those in sessions that the caller
/// may read. Decisions in deleted sessions are visible to their authors, the role `admin` and the
/// operator. A page can have fewer entries than the limit although more pages follow.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Decisions {
    decisions: Vec<DecisionRecord>,
    /// The `after` of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

async fn audit(
    State(server): State<Server>,
    caller: Caller,
    query: Result<Query<DecisionsQuery>, QueryRejection>,
) -> Result<Json<Decisions>, ApiError> {
    let Query(given) =
        query.map_err(|why| ApiError::new(ErrorKind::BadRequest, why.body_text()))?;
    if given.since.max(given.until).is_some_and(|time| time > MAX_WHOLE) {
        let why = format!("`since` and `until` must be numbers from 0 to {MAX_WHOLE}.");
        return Err(ApiError::new(ErrorKind::BadRequest, why));
    }
    let mut query = AuditQuery::new(limit(given.limit)?);
    query.after = cursor(given.after)?;
    query.session = given.session.map(Into::into);
    query.by = given.by.map(Into::into);
    (query.since, query.until) = (given.since, given.until);
    let store = &server.shared().store;
    let page = store.decisions(&query).await?;
    let next = page.next.map(|cursor| cursor.to_string());
    let mut decisions = page.decisions;
    if caller.named().is_some() {
        let mut seen = Vec::new();
        for record in decisions {
            if may_audit(&server, &caller, &record).await {
                seen.push(record);
            }
        }
        decisions = seen;
    }
    Ok(Json(Decisions { decisions, next }))
}
