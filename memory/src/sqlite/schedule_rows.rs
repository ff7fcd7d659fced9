//! Rows of schedules. They are counted, to detect rows that can no longer be reached.

use std::path::Path;

use loopwright_core::log::{Schedule, SchedulePage, ScheduleQuery, check_schedule_room};
use rusqlite::{Connection, OptionalExtension, Params, Row};

use super::error::{StoreError, damaged, not_understood};
use super::listing::owner_key;
use super::rows::{self, crc};
use crate::codec;
use crate::sql::integer;

const ADD: &str = "INSERT INTO schedule (session, id, next, json, crc) VALUES (?1, ?2, ?3, ?4, ?5)";
const REMOVE: &str = "DELETE FROM schedule WHERE session = ?1 AND id = ?2";
const REMOVE_ALL: &str = "DELETE FROM schedule WHERE session = ?1";
const FROM: &str = "SELECT schedule.session, id, next, schedule.json, schedule.crc FROM schedule";
const FIND: &str = "WHERE session = ?1 AND id = ?2";
const OF_SESSION: &str = "WHERE session = ?1 ORDER BY id";
/// The condition of due schedules. A failing one must not hide the others.
const DUE: &str = "WHERE next <= ?1 ORDER BY random() LIMIT ?2";
const NEXT: &str = "SELECT min(next) FROM schedule WHERE next > ?1";
/// The condition and the order of a page.
const PAGE: &str = "(next, schedule.session, id) > (?1, ?2, ?3) \
    ORDER BY next, schedule.session, id LIMIT ?4";
/// The source and the condition of an owner's schedules.
const OF_OWNER: &str =
    "JOIN listing ON listing.session = schedule.session WHERE listing.owner = ?5";
const COUNTS: &str = "SELECT count(*), coalesce(max(id = ?2), 0) FROM schedule WHERE session = ?1";
const COUNT: &str = "SELECT count(*) FROM schedule";
const TOTAL: &str = "SELECT schedules, crc FROM schedule_total";

/// Adds a schedule of a session, or replaces the schedule with its id.
pub(super) fn put(
    connection: &Connection,
    schedule: &Schedule,
    file: &Path,
) -> Result<(), StoreError> {
    let session = &schedule.session;
    let (of_session, is_known): (i64, bool) =
        connection
            .query_row(COUNTS, (&**session, &*schedule.id), |row| Ok((row.get(0)?, row.get(1)?)))?;
    if !is_known {
        check_schedule_room(session, of_session as usize, total(connection, file)? as usize)?;
    }
    replace(connection, &schedule.session, &schedule.id, Some(schedule), file)
}

/// Replaces a schedule by the next one, or removes it, if it is still the same. Returns whether it
/// was.
pub(super) fn advance(
    connection: &Connection,
    schedule: &Schedule,
    next: Option<&Schedule>,
    file: &Path,
) -> Result<bool, StoreError> {
    let found = find(connection, &schedule.session, &schedule.id, file)?;
    let is_same = found.is_some_and(|found| found.is_same(schedule));
    if is_same {
        replace(connection, &schedule.session, &schedule.id, next, file)?;
    }
    Ok(is_same)
}

/// Removes a schedule, which may be damaged. Returns whether there was one.
pub(super) fn remove(
    connection: &Connection,
    session: &str,
    id: &str,
    file: &Path,
) -> Result<bool, StoreError> {
    let removed = connection.execute(REMOVE, (session, id))?;
    if removed > 0 {
        set_total(connection, total(connection, file)? - removed as i64)?;
    }
    Ok(removed > 0)
}

/// Removes the schedules of a session.
pub(super) fn remove_all(
    connection: &Connection,
    session: &str,
    file: &Path,
) -> Result<(), StoreError> {
    match connection.execute(REMOVE_ALL, [session])? {
        0 => Ok(()),
        removed => set_total(connection, total(connection, file)? - removed as i64),
    }
}

/// Returns the schedules of a session, sorted by id.
pub(super) fn of_session(
    connection: &Connection,
    session: &str,
    file: &Path,
) -> Result<Vec<Schedule>, StoreError> {
    select(connection, file, OF_SESSION, [session])
}

/// Returns at most `limit` schedules that are due at this time. Damaged ones are left out.
pub(super) fn due(
    connection: &Connection,
    time: i64,
    limit: i64,
    file: &Path,
) -> Result<Vec<Schedule>, StoreError> {
    let mut statement = connection.prepare(&format!("{FROM} {DUE}"))?;
    let mut rows = statement.query((time, limit))?;
    let mut due = Vec::new();
    while let Some(row) = rows.next()? {
        match read(row, file).map_err(|error| error.into_memory_error(file)) {
            Ok(schedule) => due.push(schedule),
            Err(error) => tracing::warn!(%error, "a schedule is left out"),
        }
    }
    Ok(due)
}

/// Returns the earliest time of a schedule after this one.
pub(super) fn next_after(connection: &Connection, time: i64) -> Result<Option<i64>, StoreError> {
    Ok(connection.query_row(NEXT, [time], |row| row.get(0))?)
}

/// Stores the number of rows.
pub(super) fn set_total(connection: &Connection, total: i64) -> Result<(), StoreError> {
    connection.execute("DELETE FROM schedule_total", ())?;
    let crc = crc([&total.to_le_bytes()]);
    let insert = "INSERT INTO schedule_total (schedules, crc) VALUES (?1, ?2)";
    connection.execute(insert, (total, crc))?;
    Ok(())
}

fn replace(
    connection: &Connection,
    session: &str,
    id: &str,
    schedule: Option<&Schedule>,
    file: &Path,
) -> Result<(), StoreError> {
    let mut total = total(connection, file)?;
    total -= connection.execute(REMOVE, (session, id))? as i64;
    if let Some(schedule) = schedule {
        let (next, json) = (integer(schedule.due_at()), codec::encode(schedule)?);
        let crc = row_crc(session, id, next, &json);
        total += connection.execute(ADD, (session, id, next, json, crc))? as i64;
    }
    set_total(connection, total)
}

fn find(
    connection: &Connection,
    session: &str,
    id: &str,
    file: &Path,
) -> Result<Option<Schedule>, StoreError> {
    let mut find = connection.prepare(&format!("{FROM} {FIND}"))?;
    find.query_row((session, id), |row| Ok(read(row, file))).optional()?.transpose()
}

/// Returns a page of the schedules of all sessions.
pub(super) fn page(
    connection: &Connection,
    file: &Path,
    query: &ScheduleQuery,
) -> Result<SchedulePage, StoreError> {
    if query.after.is_none() {
        check_total(connection, file)?; // only on the first page of a list
    }
    let (time, session, id) = match &query.after {
        Some(after) => (integer(after.time), &*after.session, &*after.id),
        None => (-1, "", ""),
    };
    // One more than the limit shows whether another page follows.
    let limit = integer(query.limit as u64).saturating_add(1);
    let Some(owner) = &query.owner else {
        let condition = format!("WHERE {PAGE}");
        let schedules = select(connection, file, &condition, (time, session, id, limit))?;
        return Ok(query.page(schedules));
    };
    let condition = format!("{OF_OWNER} AND {PAGE}");
    let params = (time, session, id, limit, owner_key(Some(owner)));
    let schedules = select(connection, file, &condition, params)?;
    for schedule in &schedules {
        if rows::get(connection, &schedule.session, file)?.info.owner != query.owner {
            return Err(damaged(file, "the list of sessions").into());
        }
    }
    Ok(query.page(schedules))
}

fn select(
    connection: &Connection,
    file: &Path,
    condition: &str,
    params: impl Params,
) -> Result<Vec<Schedule>, StoreError> {
    let mut statement = connection.prepare(&format!("{FROM} {condition}"))?;
    let mut rows = statement.query(params)?;
    let mut schedules = Vec::new();
    while let Some(row) = rows.next()? {
        schedules.push(read(row, file)?);
    }
    Ok(schedules)
}

fn read(row: &Row<'_>, file: &Path) -> Result<Schedule, StoreError> {
    let checked = || -> Option<&str> {
        let text = |n| row.get_ref(n).ok()?.as_str().ok();
        let json = text(3)?;
        let crc = row_crc(text(0)?, text(1)?, row.get(2).ok()?, json);
        (row.get::<_, u32>(4).ok()? == crc).then_some(json)
    };
    let what = || {
        let text = |n| row.get::<_, String>(n).unwrap_or_default();
        format!("schedule `{}` of session `{}`, which can be removed,", text(1), text(0))
    };
    let json = checked().ok_or_else(|| damaged(file, &what()))?;
    let decoded = codec::decode(json.as_bytes());
    Ok(decoded.map_err(|why| not_understood(file, &what(), &why))?)
}

fn check_total(connection: &Connection, file: &Path) -> Result<(), StoreError> {
    let count: i64 = connection.query_row(COUNT, (), |row| row.get(0))?;
    match count == total(connection, file)? {
        true => Ok(()),
        false => Err(damaged(file, "the list of schedules").into()),
    }
}

fn total(connection: &Connection, file: &Path) -> Result<i64, StoreError> {
    let read =
        connection.query_row(TOTAL, (), |row| Ok((row.get::<_, i64>(0), row.get::<_, u32>(1))));
    match read {
        Ok((Ok(total), Ok(stored))) if stored == crc([&total.to_le_bytes()]) => Ok(total),
        _ => Err(damaged(file, "the number of schedules").into()),
    }
}

fn row_crc(session: &str, id: &str, next: i64, json: &str) -> u32 {
    crc([session.as_bytes(), id.as_bytes(), &next.to_le_bytes(), json.as_bytes()])
}
