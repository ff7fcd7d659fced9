//! Rows of decisions by time: copies from the logs, and the decisions of deleted sessions.

use std::path::Path;

use loopwright_core::log::{AuditPage, AuditQuery, DecisionRecord, LogEntry, SessionInfo};
use rusqlite::{Connection, Row};

use super::error::{StoreError, damaged, not_understood};
use super::rows::crc;
use crate::codec;
use crate::sql::{integer, last_before};

/// Insertion of a decision. A session that is deleted and stored again can have the same decisions.
const ADD: &str = "INSERT OR REPLACE INTO decision (time, session, position, principal, json, crc) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
/// The columns and the source of a page.
const FROM: &str = "SELECT time, session, position, principal, json, crc FROM decision";
/// The condition and the order of a page.
const PAGE: &str = "(time, session, position) < (?1, ?2, ?3) AND time >= ?4 AND time <= ?5 \
    ORDER BY time DESC, session DESC, position DESC";

/// Adds the decisions among the entries appended to a session's log at this position. A sub-agent
/// has none of its own: its root has decided.
pub(super) fn add(
    connection: &Connection,
    info: &SessionInfo,
    at: u64,
    entries: &[LogEntry],
) -> Result<(), StoreError> {
    if info.sub_agent_of.is_some() {
        return Ok(());
    }
    for (position, entry) in (at..).zip(entries) {
        let Some(record) = DecisionRecord::of(&info.id, position, entry) else { continue };
        let (time, position) = (integer(record.time), integer(position));
        let by = record.by.as_deref().unwrap_or_default();
        let json = codec::encode(&record)?;
        let crc = row_crc(time, &record.session, position, by, &json);
        let mut add = connection.prepare(ADD)?;
        add.execute((time, &*record.session, position, by, json, crc))?;
    }
    Ok(())
}

/// Returns a page of the decisions.
pub(super) fn page(
    connection: &Connection,
    file: &Path,
    query: &AuditQuery,
) -> Result<AuditPage, StoreError> {
    let after = query.after.as_ref().map(|cursor| cursor.parts());
    let (time, session, position) = match after {
        Some((time, session, position)) => (integer(time), &**session, integer(position)),
        None => (i64::MAX, "\u{10ffff}", i64::MAX),
    };
    let until = last_before(query.until);
    let since = query.since.map_or(0, integer);
    // Each selection has the index that it needs; the other conditions are checked below.
    let condition = match (&query.session, &query.by) {
        (Some(_), _) => "INDEXED BY decision_of_session WHERE session = ?6 AND",
        (None, Some(_)) => "INDEXED BY decision_of_principal WHERE principal = ?6 AND",
        (None, None) => "WHERE ?6 IS NULL AND",
    };
    let value = query.session.as_deref().or(query.by.as_deref());
    let mut statement = connection.prepare(&format!("{FROM} {condition} {PAGE}"))?;
    let mut rows = statement.query((time, session, position, since, until, value))?;
    let mut decisions = Vec::new();
    while let Some(row) = rows.next()? {
        let record = read(row, file)?;
        if query.selects(&record) {
            decisions.push(record);
        }
        // One more than the limit shows whether another page follows.
        if decisions.len() > query.limit {
            break;
        }
    }
    Ok(query.page(decisions))
}

fn read(row: &Row<'_>, file: &Path) -> Result<DecisionRecord, StoreError> {
    let checked = || -> Option<&str> {
        let text = |n| row.get_ref(n).ok()?.as_str().ok();
        let (time, position) = (row.get(0).ok()?, row.get(2).ok()?);
        let json = text(4)?;
        let crc = row_crc(time, text(1)?, position, text(3)?, json);
        (row.get::<_, u32>(5).ok()? == crc).then_some(json)
    };
    let json = checked().ok_or_else(|| damaged(file, "a decision"))?;
    let decoded = codec::decode(json.as_bytes());
    Ok(decoded.map_err(|why| not_understood(file, "a decision", &why))?)
}

fn row_crc(time: i64, session: &str, position: i64, by: &str, json: &str) -> u32 {
    let (time, position) = (time.to_le_bytes(), position.to_le_bytes());
    crc([&time, session.as_bytes(), &position, by.as_bytes(), json.as_bytes()])
}
