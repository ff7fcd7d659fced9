//! Rows of pending actions: copies from the rows of sessions, in the order of the list. They are
//! counted, to detect rows that can no longer be reached.

use std::path::Path;

use loopwright_core::log::{PendingAction, PendingPage, PendingQuery};
use rusqlite::{Connection, Row};

use super::error::{StoreError, damaged, not_understood};
use super::rows::crc;
use crate::codec;
use crate::sql::{integer, last_before};

const ADD: &str = "INSERT INTO pending (since, session, call, tool, json, crc) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const REMOVE: &str = "DELETE FROM pending WHERE since = ?1 AND session = ?2 AND call = ?3";
const COUNT: &str = "SELECT count(*) FROM pending";
const TOTAL: &str = "SELECT pending, crc FROM pending_total";
/// The columns and the source of a page.
const FROM: &str = "SELECT since, session, call, tool, json, crc FROM pending";
/// The condition and the order of a page.
const PAGE: &str = "(since, session, call) > (?1, ?2, ?3) AND since <= ?4 \
    AND (?5 IS NULL OR tool = ?5) ORDER BY since, session, call";

/// Replaces the rows of a session's actions.
pub(super) fn replace(
    connection: &Connection,
    before: &[PendingAction],
    after: &[PendingAction],
    file: &Path,
) -> Result<(), StoreError> {
    if before == after {
        return Ok(());
    }
    let mut total = total(connection, file)?;
    let mut remove = connection.prepare(REMOVE)?;
    for PendingAction { since, session, action, .. } in before {
        total -= remove.execute((integer(*since), &**session, &*action.call))? as i64;
    }
    let mut add = connection.prepare(ADD)?;
    for pending in after {
        let PendingAction { since, session, action, .. } = pending;
        let (since, json) = (integer(*since), codec::encode(pending)?);
        let crc = row_crc(since, session, &action.call, &action.name, &json);
        add.execute((since, &**session, &*action.call, &*action.name, json, crc))?;
        total += 1;
    }
    set_total(connection, total)
}

/// Stores the number of rows.
pub(super) fn set_total(connection: &Connection, total: i64) -> Result<(), StoreError> {
    connection.execute("DELETE FROM pending_total", ())?;
    let crc = crc([&total.to_le_bytes()]);
    connection.execute("INSERT INTO pending_total (pending, crc) VALUES (?1, ?2)", (total, crc))?;
    Ok(())
}

/// Returns a page of the actions.
pub(super) fn page(
    connection: &Connection,
    file: &Path,
    query: &PendingQuery,
) -> Result<PendingPage, StoreError> {
    if query.after.is_none() && query.session.is_none() {
        // Only on the first page of a list.
        let count: i64 = connection.query_row(COUNT, (), |row| row.get(0))?;
        if count != total(connection, file)? {
            return Err(damaged(file, "the list of pending actions").into());
        }
    }
    let (since, session, call) = match &query.after {
        Some(after) => (integer(after.since), &*after.session, &*after.call),
        None => (-1, "", ""),
    };
    let last = last_before(query.before);
    let condition = match &query.session {
        Some(_) => "INDEXED BY pending_of_session WHERE session = ?6 AND",
        None => "WHERE ?6 IS NULL AND",
    };
    let mut statement = connection.prepare(&format!("{FROM} {condition} {PAGE}"))?;
    let (of_session, tool) = (query.session.as_deref(), query.tool.as_deref());
    let mut rows = statement.query((since, session, call, last, tool, of_session))?;
    let mut actions = Vec::new();
    while let Some(row) = rows.next()? {
        let pending = read(row, file)?;
        if query.selects(&pending) {
            actions.push(pending);
        }
        // One more than the limit shows whether another page follows.
        if actions.len() > query.limit {
            break;
        }
    }
    Ok(query.page(actions))
}

fn read(row: &Row<'_>, file: &Path) -> Result<PendingAction, StoreError> {
    let checked = || -> Option<&str> {
        let text = |n| row.get_ref(n).ok()?.as_str().ok();
        let since: i64 = row.get(0).ok()?;
        let json = text(4)?;
        let crc = row_crc(since, text(1)?, text(2)?, text(3)?, json);
        (row.get::<_, u32>(5).ok()? == crc).then_some(json)
    };
    let json = checked().ok_or_else(|| damaged(file, "a pending action"))?;
    let decoded = codec::decode(json.as_bytes());
    Ok(decoded.map_err(|why| not_understood(file, "a pending action", &why))?)
}

fn total(connection: &Connection, file: &Path) -> Result<i64, StoreError> {
    let read =
        connection.query_row(TOTAL, (), |row| Ok((row.get::<_, i64>(0), row.get::<_, u32>(1))));
    match read {
        Ok((Ok(total), Ok(stored))) if stored == crc([&total.to_le_bytes()]) => Ok(total),
        _ => Err(damaged(file, "the number of pending actions").into()),
    }
}

fn row_crc(since: i64, session: &str, call: &str, tool: &str, json: &str) -> u32 {
    crc([
        &since.to_le_bytes(),
        session.as_bytes(),
        call.as_bytes(),
        tool.as_bytes(),
        json.as_bytes(),
    ])
}
