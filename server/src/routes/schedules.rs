//! `/api/schedules` and `/api/sessions/{id}/schedules`: messages that are sent at certain times.

use std::collections::HashMap;
use std::sync::Arc;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use loopwright_core::event::{InputEvent, Prompt};
use loopwright_core::log::{InvalidSchedule, MemoryError, Schedule, ScheduleQuery, Schedules};
use loopwright_protocols::{MAX_WHOLE, NOT_BLANK, large_whole_number};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::access::path::SchedulePath;
use crate::access::{Caller, Change, Read, SessionFor, may_read};
use crate::error::{ApiError, ErrorKind};
use crate::json::JsonBody;
use crate::routes::page_query::{cursor, limit};
use crate::server::Server;

/// Maximum number of schedules in the sessions of an owner, so that a user leaves room for others.
const MAX_OWNER_SCHEDULES: usize = 200;

/// Returns the route that reads the schedules of all sessions.
pub(crate) fn list_routes() -> Router<Server> {
    Router::new().route("/api/schedules", get(list))
}

/// Returns the routes of a session's schedules.
pub(crate) fn routes() -> Router<Server> {
    Router::new()
        .route("/api/sessions/{id}/schedules", get(of_session))
        .route("/api/sessions/{id}/schedules/{schedule}", get(read).put(put).delete(remove))
}

/// A query for a page of schedules.
#[derive(Deserialize)]
struct ListQuery {
    after: Option<String>,
    limit: Option<u32>,
}

/// A page of schedules.
#[derive(Serialize, JsonSchema)]
pub(crate) struct ScheduleList {
    schedules: Vec<Schedule>,
    /// The `after` of the next page. Missing on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

/// A message for certain times: either `time` or `cron` says when.
#[derive(Deserialize, JsonSchema)]
#[schemars(extend("oneOf" = [
    {
        "required": ["time"],
        "properties": {
            "time": { "type": "integer" },
            "cron": { "type": "null" },
            "time_zone": { "type": "null" }
        }
    },
    {
        "required": ["cron"],
        "properties": { "cron": { "type": "string" }, "time": { "type": "null" } }
    }
]))]
pub(crate) struct ScheduleBody {
    /// The message, which starts a run like a prompt.
    #[schemars(regex(pattern = NOT_BLANK))]
    message: String,
    /// The time of a single message, in milliseconds since 1970.
    #[serde(default, deserialize_with = "large_whole_number")]
    #[schemars(range(max = MAX_WHOLE))]
    time: Option<u64>,
    /// The times as a cron expression of five fields, such as `0 9 * * MON-FRI`.
    #[serde(default)]
    #[schemars(length(min = 1, max = 200))]
    cron: Option<String>,
    /// The time zone of the cron expression, such as `Europe/Berlin`. Defaults to UTC.
    #[serde(default)]
    #[schemars(length(min = 1, max = 100))]
    time_zone: Option<String>,
}

async fn list(
    State(server): State<Server>,
    caller: Caller,
    query: Result<Query<ListQuery>, QueryRejection>,
) -> Result<Json<ScheduleList>, ApiError> {
    let Query(query) =
        query.map_err(|why| ApiError::new(ErrorKind::BadRequest, why.body_text()))?;
    let mut selected = ScheduleQuery::new(limit(query.limit)?);
    selected.after = cursor(query.after)?;
    selected.owner = caller.named().and_then(|_| server.shared().policy.only_owner(&caller));
    let page = schedules(&server)?.page(&selected).await?;
    let mut may_see = HashMap::new();
    let mut listed = Vec::with_capacity(page.schedules.len());
    for schedule in page.schedules {
        let is_seen = match may_see.get(&schedule.session) {
            Some(is_seen) => *is_seen,
            None => {
                let is_seen = may_read_session(&server, &caller, &schedule.session).await;
                may_see.insert(schedule.session.clone(), is_seen);
                is_seen
            }
        };
        if is_seen {
            listed.push(schedule);
        }
    }
    Ok(Json(ScheduleList { schedules: listed, next: page.next.map(|next| next.to_string()) }))
}

async fn of_session(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Read>,
) -> Result<Json<ScheduleList>, ApiError> {
    let schedules = schedules(&server)?.of_session(&id).await?;
    server.shared().store.session(&id).await?;
    Ok(Json(ScheduleList { schedules, next: None }))
}

async fn read(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Read>,
    SchedulePath(schedule): SchedulePath,
) -> Result<Json<Schedule>, ApiError> {
    let all = schedules(&server)?.of_session(&id).await?;
    all.into_iter().find(|it| *it.id == *schedule).map(Json).ok_or_else(not_found)
}

async fn put(
    State(server): State<Server>,
    SessionFor { id, caller, .. }: SessionFor<Change>,
    SchedulePath(schedule): SchedulePath,
    JsonBody(body): JsonBody<ScheduleBody>,
) -> Result<Json<Schedule>, ApiError> {
    let shared = server.shared();
    shared.drain.check()?;
    let schedules = schedules(&server)?;
    let schedule = body.schedule(&id, &schedule, schedules.now().await?, &caller)?;
    if let Some(owner) = shared.store.session(&id).await?.owner {
        let query = ScheduleQuery::new(MAX_OWNER_SCHEDULES).owner(owner);
        let all = schedules.page(&query).await?.schedules;
        let is_known = |it: &Schedule| it.session == schedule.session && it.id == schedule.id;
        if all.len() >= MAX_OWNER_SCHEDULES && !all.iter().any(is_known) {
            let why = format!(
                "The sessions of its owner have {MAX_OWNER_SCHEDULES} schedules, and no more are \
                 allowed: remove one first."
            );
            return Err(ApiError::new(ErrorKind::Conflict, why));
        }
    }
    schedules.put(&schedule).await?;
    shared.live.wake_at(&id, schedule.next).await;
    Ok(Json(schedule))
}

async fn remove(
    State(server): State<Server>,
    SessionFor { id, .. }: SessionFor<Change>,
    SchedulePath(schedule): SchedulePath,
) -> Result<StatusCode, ApiError> {
    match schedules(&server)?.remove(&id, &schedule).await? {
        true => Ok(StatusCode::NO_CONTENT),
        false => Err(not_found()),
    }
}

impl ScheduleBody {
    /// Returns the schedule, whose time must be later than `now`.
    fn schedule(
        self,
        session: &str,
        id: &str,
        now: u64,
        caller: &Caller,
    ) -> Result<Schedule, ApiError> {
        if self.message.trim().is_empty() {
            return Err(ApiError::at(
                "/message",
                "The message is empty: write what is to be done.",
            ));
        }
        if self.cron.as_ref().is_some_and(|cron| cron.split_whitespace().count() > 5) {
            let why = "The cron expression has more than five fields: minute, hour, day of the \
                       month, month and day of the week. Over HTTP a message is sent at most once \
                       a minute.";
            return Err(ApiError::at("/cron", why));
        }
        let event = InputEvent::UserRequest(caller.sends(Prompt::from(self.message)));
        let zone = self.time_zone.as_deref();
        let schedule = match (self.time, &self.cron) {
            (None, Some(cron)) => Schedule::repeat(session, id, cron, zone, now, event)?,
            (Some(time), None) if time > now => {
                let mut schedule = Schedule::once(session, id, time, event);
                schedule.time_zone = zone.map(Into::into);
                schedule
            }
            (Some(_), None) => return Err(InvalidSchedule::Past.into()),
            _ => {
                let why = "A schedule has either a `time`, in milliseconds since 1970, or a \
                           `cron` expression.";
                return Err(ApiError::at("/time", why));
            }
        };
        schedule.check()?;
        Ok(schedule)
    }
}

fn schedules(server: &Server) -> Result<&dyn Schedules, ApiError> {
    Ok(server.shared().store.schedules().ok_or(MemoryError::NoSchedules)?)
}

async fn may_read_session(server: &Server, caller: &Caller, session: &Arc<str>) -> bool {
    caller.named().is_none() || {
        // The session may have been deleted.
        let session = server.shared().store.session(session).await;
        match session {
            Ok(session) => may_read(server, caller, &session).await,
            Err(_) => false,
        }
    }
}

fn not_found() -> ApiError {
    ApiError::new(ErrorKind::NotFound, "The session has no schedule with this id.")
}
