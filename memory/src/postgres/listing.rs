//! Lists, in pages: sessions, pending actions, decisions.

use loopwright_core::Principal;
use loopwright_core::log::{
    AuditPage, AuditQuery, DecisionRecord, PendingAction, PendingPage, PendingQuery, SessionCursor,
    SessionInfo, SessionPage, SessionQuery,
};
use tokio_postgres::Row;

use super::error::{StoreError, not_understood};
use super::reading::{INFO, decode_info};
use super::store::{Params, Store};
use super::text::to_text;
use crate::codec;
use crate::sql::{integer, last_before};

/// Minimum number of pending actions that are read at once.
const MIN_CHUNK: usize = 100;

const PENDING: &str = "\
SELECT p.since, s.name, p.call, p.json FROM pending p JOIN session s ON s.number = p.session
WHERE p.since >= $1 AND (p.since, s.name, p.call) > ($1, $2, $3) AND p.since <= $4
    AND ($5::text IS NULL OR p.tool = $5) AND {session}
ORDER BY p.since, s.name, p.call LIMIT $7";
const DECISIONS: &str = "\
SELECT json FROM decision WHERE (time, session, position) < ($1, $2, $3)
    AND time >= $4 AND time <= $5 AND {session} AND {principal}
ORDER BY time DESC, session DESC, position DESC LIMIT $8";

impl Store {
    /// Returns the descriptions of all listed sessions.
    pub(super) async fn sessions(&self) -> Result<Vec<SessionInfo>, StoreError> {
        let sql =
            format!("SELECT {INFO} FROM session s WHERE s.listed ORDER BY changed DESC, name");
        let rows = self.query(&sql, &[]).await?;
        rows.iter().map(decode_info).collect()
    }

    /// Returns a page of the descriptions of listed sessions.
    pub(super) async fn sessions_page(
        &self,
        query: &SessionQuery,
    ) -> Result<SessionPage, StoreError> {
        let of_owner = "md5(s.principal) = md5($3) AND s.principal = $3";
        let of_owner = selected(of_owner, query.owner.is_some());
        let sql = format!(
            "SELECT {INFO} FROM session s WHERE s.listed AND {of_owner} AND s.changed <= $1 \
             AND (s.changed < $1 OR s.name > $2) ORDER BY s.changed DESC, s.name LIMIT $4"
        );
        let (changed, name) = match query.after.as_ref().map(SessionCursor::parts) {
            Some((changed, name)) => (integer(changed), to_text(name)),
            None => (i64::MAX, "".into()),
        };
        let owner = query.owner.as_ref().map(|owner| to_text(Principal::as_str(owner)));
        // One more than the limit shows whether another page follows.
        let limit = more(query.limit);
        let rows = self.query(&sql, &[&changed, &name, &owner, &limit]).await?;
        Ok(query.page(rows.iter().map(decode_info).collect::<Result<_, _>>()?))
    }

    /// Returns a page of the pending actions.
    pub(super) async fn pending(&self, query: &PendingQuery) -> Result<PendingPage, StoreError> {
        let (mut since, mut name, mut call) = match &query.after {
            Some(after) => {
                let (name, call) = (to_text(&after.session), to_text(&after.call));
                (integer(after.since), name.into_owned(), call.into_owned())
            }
            None => (-1, String::new(), String::new()),
        };
        let last = last_before(query.before);
        let (tool, session) =
            (query.tool.as_deref().map(to_text), query.session.as_deref().map(to_text));
        let chunk = more(query.limit.max(MIN_CHUNK));
        let sql = PENDING.replace("{session}", &selected("s.name = $6", session.is_some()));
        let mut actions = Vec::new();
        loop {
            let params: Params<'_> = &[&since, &name, &call, &last, &tool, &session, &chunk];
            let rows = self.query(&sql, params).await?;
            for row in &rows {
                let json = codec::decode(row.get::<_, &str>(3).as_bytes());
                let pending: PendingAction =
                    json.map_err(|why| not_understood("a pending action", &why))?;
                // The roles that may decide are not in a column.
                if query.selects(&pending) && actions.len() <= query.limit {
                    actions.push(pending);
                }
            }
            match rows.last() {
                Some(row) if rows.len() as i64 == chunk && actions.len() <= query.limit => {
                    (since, name, call) = (row.get(0), row.get(1), row.get(2));
                }
                _ => return Ok(query.page(actions)),
            }
        }
    }

    /// Returns a page of the decisions.
    pub(super) async fn decisions(&self, query: &AuditQuery) -> Result<AuditPage, StoreError> {
        let (time, name, position) = match query.after.as_ref().map(|cursor| cursor.parts()) {
            Some((time, session, position)) => (integer(time), to_text(session), integer(position)),
            None => (i64::MAX, "\u{10ffff}".into(), i64::MAX),
        };
        let until = last_before(query.until);
        let since = query.since.map_or(0, integer);
        let (session, by) =
            (query.session.as_deref().map(to_text), query.by.as_deref().map(to_text));
        let limit = more(query.limit);
        let of_principal = "md5(principal) = md5($7) AND principal = $7";
        let sql = DECISIONS
            .replace("{session}", &selected("session = $6", session.is_some()))
            .replace("{principal}", &selected(of_principal, by.is_some()));
        let params: Params<'_> = &[&time, &name, &position, &since, &until, &session, &by, &limit];
        let rows = self.query(&sql, params).await?;
        let decode = |row: &Row| {
            let json = codec::decode(row.get::<_, &str>(0).as_bytes());
            json.map_err(|why| not_understood("a decision", &why))
        };
        let records: Vec<DecisionRecord> = rows.iter().map(decode).collect::<Result<_, _>>()?;
        Ok(query.page(records))
    }
}

/// Returns the condition, which ends with a text parameter, or else a condition that the parameter
/// is null. A condition that also accepts null could not use an index.
pub(super) fn selected(condition: &str, is_given: bool) -> String {
    let parameter = condition.rsplit(' ').next().unwrap_or_default();
    if is_given { condition.to_owned() } else { format!("{parameter}::text IS NULL") }
}

/// Returns one more than a limit.
pub(super) fn more(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1)
}
