//! `GET /api/sessions`: pages of the list of sessions.

use std::sync::Arc;

use axum::Json;
use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use loopwright_core::Principal;
use loopwright_core::log::{Due, SessionInfo, SessionQuery};
use loopwright_core::message::{RunId, Usage};
use loopwright_host::SessionSettings;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::bodies::{Setup, Wakes};
use crate::access::{Caller, may_read};
use crate::error::{ApiError, ErrorKind};
use crate::routes::page_query::{cursor, limit};
use crate::server::Server;

/// A query for a page of sessions.
#[derive(Deserialize, JsonSchema)]
pub(crate) struct ListQuery {
    /// The `next` of the page before.
    #[serde(default)]
    after: Option<String>,
    /// The maximum number of sessions.
    #[serde(default)]
    limit: Option<u32>,
}

/// A page of the sessions, the last changed first.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionList {
    pub(crate) sessions: Vec<SessionSummary>,
    /// The `after` of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) next: Option<String>,
}

/// A session in a list. It lacks long or secret data, which `GET /api/sessions/{id}` and `GET
/// /api/actions` return.
#[derive(Serialize, JsonSchema)]
pub(crate) struct SessionSummary {
    id: Arc<str>,
    /// The name, if the session has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    /// The first line of the first request; empty before the first request.
    title: String,
    /// The number of entries in the session's log.
    entries: u64,
    /// The start of the first run, in milliseconds since 1970; zero if there was none.
    started: u64,
    /// The last time in the log, in milliseconds since 1970.
    changed: u64,
    /// The session that it was forked from, and the number of shared entries.
    #[serde(skip_serializing_if = "Option::is_none")]
    parent: Option<(Arc<str>, u64)>,
    /// The run in progress, or the run that was interrupted.
    #[serde(skip_serializing_if = "Option::is_none")]
    run: Option<RunId>,
    /// `true` if the run was interrupted: no process executes it.
    interrupted: bool,
    /// The reason that the session does not continue by itself: processes ended while they worked
    /// on it. A person has to continue it, abort it, or send another request.
    #[serde(skip_serializing_if = "Option::is_none")]
    held: Option<String>,
    /// The session's next work when it is opened.
    #[serde(skip_serializing_if = "Option::is_none")]
    due: Option<Due>,
    #[serde(flatten)]
    wakes: Wakes,
    /// The number of pending actions.
    pending_actions: usize,
    usage: Usage,
    /// The cost of the session's requests in US dollars, as far as prices are known.
    cost: f64,
    /// The principal that owns the session; missing for the operator's.
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<Principal>,
    #[serde(flatten)]
    setup: Setup,
}

pub(super) async fn list(
    State(server): State<Server>,
    caller: Caller,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<SessionList>, ApiError> {
    let Query(query) =
        query.map_err(|why| ApiError::new(ErrorKind::BadRequest, why.body_text()))?;
    let shared = server.shared();
    let mut query = query.read()?;
    query.owner = caller.named().and_then(|_| shared.policy.only_owner(&caller));
    let page = shared.store.sessions_page(&query).await?;
    let mut sessions = Vec::with_capacity(page.sessions.len());
    for session in page.sessions {
        if !may_read(&server, &caller, &session).await {
            continue;
        }
        let interrupted = session.run.is_some() && !shared.live.is_running(&session.id).await?;
        sessions.push(SessionSummary::of(&server, session, interrupted));
    }
    Ok(Json(SessionList { sessions, next: page.next.map(|cursor| cursor.to_string()) }))
}

impl ListQuery {
    fn read(self) -> Result<SessionQuery, ApiError> {
        let mut query = SessionQuery::new(limit(self.limit)?);
        query.after = cursor(self.after)?;
        Ok(query.brief())
    }
}

impl SessionSummary {
    fn of(server: &Server, session: SessionInfo, interrupted: bool) -> Self {
        // The name may have been stored before its length was bounded.
        let name = SessionSettings::from_stored(session.settings.as_deref()).name;
        SessionSummary {
            setup: Setup::of(&server.shared().agents, &session),
            name: name.map(|name| name.chars().take(SessionSettings::MAX_NAME_CHARS).collect()),
            wakes: Wakes::of(&session),
            owner: session.owner,
            id: session.id,
            title: session.title,
            entries: session.entries,
            started: session.started,
            changed: session.changed,
            parent: session.parent,
            run: session.run,
            interrupted,
            held: session.held.map(|held| held.to_string()),
            due: session.due,
            pending_actions: session.pending.len(),
            usage: session.usage,
            cost: session.cost,
        }
    }
}
