//! `/api/memory`: the facts about the caller, to read and to delete.

use axum::extract::rejection::{PathRejection, QueryRejection};
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::routing::{delete, get};
use axum::{Json, Router};
use loopwright_memory::long_term::{Fact, LongTerm, LongTermError, Scope};
use loopwright_protocols::MAX_WHOLE;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::Caller;
use crate::error::{ApiError, ErrorKind};
use crate::server::Server;

/// The default number of facts per page.
const PAGE_FACTS: u32 = 100;
const MAX_PAGE_FACTS: u32 = 1_000;

pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/api/memory", get(list).delete(forget_all))
        .route("/api/memory/{id}", delete(forget))
}

/// The query of a request for facts.
#[derive(Deserialize)]
struct FactQuery {
    query: Option<String>,
    #[serde(default)]
    after: u64,
    limit: Option<u32>,
}

/// A page of facts.
#[derive(Serialize, JsonSchema)]
pub(crate) struct FactList {
    facts: Vec<FactEntry>,
    /// The `after` of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    after: Option<u64>,
}

/// A fact that agents use in later sessions.
#[derive(Serialize, JsonSchema)]
struct FactEntry {
    id: u64,
    text: String,
    /// The time at which it was first stored, in milliseconds since 1970.
    created: u64,
    /// The time at which it was last stored, in milliseconds since 1970.
    refreshed: u64,
    /// The session that first stored it, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    session: Option<String>,
}

/// The result of deleting all facts.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Forgotten {
    /// The number of deleted facts.
    facts: u64,
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    query: Result<Query<FactQuery>, QueryRejection>,
) -> Result<Json<FactList>, ApiError> {
    let (memory, scope) = memory_of(&server, &caller)?;
    let Query(query) =
        query.map_err(|why| ApiError::new(ErrorKind::BadRequest, why.body_text()))?;
    let limit = query.limit.unwrap_or(PAGE_FACTS);
    if !(1..=MAX_PAGE_FACTS).contains(&limit) {
        let why = format!("`limit` must be a number from 1 to {MAX_PAGE_FACTS}.");
        return Err(ApiError::new(ErrorKind::BadRequest, why));
    }
    if query.after > MAX_WHOLE {
        let why = format!("`after` must be a number from 0 to {MAX_WHOLE}.");
        return Err(ApiError::new(ErrorKind::BadRequest, why));
    }
    let limit = limit as usize;
    if let Some(words) = query.query {
        let facts = memory.recall(&[scope], &words, limit).await?;
        return Ok(Json(FactList {
            facts: facts.into_iter().map(FactEntry::of).collect(),
            after: None,
        }));
    }
    let mut facts = memory.facts(&[scope], query.after, limit + 1).await?;
    let has_more = facts.len() > limit;
    facts.truncate(limit);
    let after = facts.last().map(|fact| fact.id).filter(|_| has_more);
    Ok(Json(FactList { facts: facts.into_iter().map(FactEntry::of).collect(), after }))
}

async fn forget(
    State(server): State<Server>,
    caller: Caller,
    id: Result<Path<u64>, PathRejection>,
) -> Result<StatusCode, ApiError> {
    let (memory, scope) = memory_of(&server, &caller)?;
    let none = || ApiError::new(ErrorKind::NotFound, "There is no fact with this id.");
    let Path(id) = id.map_err(|_| none())?;
    match memory.forget(&scope, id).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(none()),
    }
}

async fn forget_all(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Forgotten>, ApiError> {
    let (memory, scope) = memory_of(&server, &caller)?;
    Ok(Json(Forgotten { facts: memory.forget_all(&scope).await? }))
}

/// Returns the memory, and the scope of the facts about the caller.
fn memory_of<'a>(server: &'a Server, caller: &Caller) -> Result<(&'a LongTerm, Scope), ApiError> {
    match (&server.shared().long_term, caller.principal()) {
        (Some(memory), Some(principal)) => Ok((memory, Scope::from(principal))),
        (Some(_), None) => {
            let why = "It is not known who you are, so there are no facts about you.";
            Err(ApiError::new(ErrorKind::Forbidden, why))
        }
        (None, _) => {
            let why = "This server remembers no facts: `loopwright serve --memory` starts one \
                       that does.";
            Err(ApiError::new(ErrorKind::NotFound, why))
        }
    }
}

impl FactEntry {
    fn of(fact: Fact) -> Self {
        let Fact { id, text, created, refreshed, session, .. } = fact;
        FactEntry { id, text, created, refreshed, session }
    }
}

impl From<LongTermError> for ApiError {
    fn from(error: LongTermError) -> Self {
        match error {
            LongTermError::Store(error) => error.into(),
            other => ApiError::new(ErrorKind::Internal, other.to_string()),
        }
    }
}
