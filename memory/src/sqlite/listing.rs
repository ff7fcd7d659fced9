//! The list of sessions: brief copies of their rows, in the order of the list. So the cost of a
//! page does not depend on the length of the descriptions.
//!
//! Damage must not make a session disappear from a list. A page therefore reads the whole index,
//! which is small: it must have as many entries as there are rows, in order. A damaged entry that
//! is still between its neighbours can be on the wrong side of the position where a page starts or
//! ends, so the rows on both sides are checked, too.

use std::path::Path;

use loopwright_core::Principal;
use loopwright_core::log::{MemoryError, SessionCursor, SessionInfo, SessionPage, SessionQuery};
use rusqlite::{Connection, OptionalExtension, Statement};

use super::error::{StoreError, damaged, not_understood};
use super::rows::{self, crc};
use crate::codec;
use crate::sql::{integer, is_listed};

/// Update of a session that keeps its position in the list.
const UPDATE: &str = "UPDATE listing SET json = ?1, crc = ?2 \
    WHERE session = ?3 AND owner = ?4 AND position = ?5";
const PUT: &str = "INSERT INTO listing (session, owner, position, json, crc) \
    VALUES (?1, ?2, ?3, ?4, ?5)";
const REMOVE: &str = "DELETE FROM listing WHERE session = ?1";
const FIND: &str = "SELECT session, owner, position, json, crc FROM listing WHERE session = ?1";
const TOTAL: &str = "SELECT sessions, crc FROM listing_total";
/// The sessions of all owners in their order, and the sessions of each owner.
const LIST: &str = "SELECT session, position, '' FROM listing INDEXED BY listing_by_position \
    ORDER BY position, session";
const LIST_OF: &str = "SELECT session, position, owner FROM listing INDEXED BY listing_of_owner \
    ORDER BY owner, position, session";

/// A writer of the list's rows.
pub(super) struct Listing<'c> {
    connection: &'c Connection,
    update: Statement<'c>,
    remove: Statement<'c>,
}

impl<'c> Listing<'c> {
    pub(super) fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        let (update, remove) = (connection.prepare(UPDATE)?, connection.prepare(REMOVE)?);
        Ok(Listing { connection, update, remove })
    }

    /// Writes the row of a session, if it is listed.
    pub(super) fn put(&mut self, info: &SessionInfo, file: &Path) -> Result<(), StoreError> {
        if !is_listed(info) {
            return self.remove(&info.id, file);
        }
        let (owner, position) = (owner_key(info.owner.as_ref()), position(info.changed));
        let json = codec::encode(&info.brief())?;
        let crc = row_crc(&info.id, owner, position, &json);
        if self.update.execute((&*json, crc, &*info.id, owner, position))? == 1 {
            return Ok(());
        }
        let is_new = self.remove.execute([&*info.id])? == 0;
        self.connection.execute(PUT, (&*info.id, owner, position, json, crc))?;
        if is_new {
            set_total(self.connection, total(self.connection, file)? + 1)?;
        }
        Ok(())
    }

    /// Removes the row of a session, if it has one.
    pub(super) fn remove(&mut self, session: &str, file: &Path) -> Result<(), StoreError> {
        if self.remove.execute([session])? > 0 {
            set_total(self.connection, total(self.connection, file)? - 1)?;
        }
        Ok(())
    }
}

/// Stores the number of rows.
pub(super) fn set_total(connection: &Connection, total: i64) -> Result<(), StoreError> {
    connection.execute("DELETE FROM listing_total", ())?;
    let crc = crc([&total.to_le_bytes()]);
    let insert = "INSERT INTO listing_total (sessions, crc) VALUES (?1, ?2)";
    connection.execute(insert, (total, crc))?;
    Ok(())
}

/// Returns a page of the sessions.
pub(super) fn page(
    connection: &Connection,
    file: &Path,
    query: &SessionQuery,
) -> Result<SessionPage, StoreError> {
    let owner = query.owner.as_ref().map(|owner| owner_key(Some(owner)));
    let start = match query.after.as_ref().map(SessionCursor::parts) {
        Some((changed, session)) => (owner.unwrap_or_default(), position(changed), &**session),
        None => (owner.unwrap_or_default(), i64::MIN, ""),
    };
    // One more than the limit shows whether another page follows.
    let entries =
        index_entries(connection, file, owner.is_some(), start, query.limit.saturating_add(1))?;
    let mut find = connection.prepare(FIND)?;
    let mut sessions = Vec::new();
    for entry in entries {
        let row = find.query_row([&*entry.session], |row| Ok(Row::checked(row))).optional()?;
        let row = row.flatten().ok_or_else(|| unlisted(file))?;
        let is_here = entry.position == row.position
            && (owner.is_none() || entry.owner == row.owner)
            && entry.session == row.session;
        if !is_here {
            return Err(unlisted(file));
        }
        let is_selected = entry.key() > start && owner.is_none_or(|owner| entry.owner == owner);
        if is_selected && sessions.len() <= query.limit {
            sessions.push(match query.brief {
                true => row.info(file)?,
                false => rows::get(connection, &row.session, file)?.info,
            });
        }
    }
    Ok(query.page(sessions))
}

/// Returns the entries of the index from the one before `start` on: `count` and another one.
fn index_entries(
    connection: &Connection,
    file: &Path,
    by_owner: bool,
    start: (&str, i64, &str),
    count: usize,
) -> Result<Vec<IndexEntry>, StoreError> {
    let total = total(connection, file)?;
    let mut statement = connection.prepare(if by_owner { LIST_OF } else { LIST })?;
    let mut rows = statement.query(())?;
    let (mut visited, mut entries) = (0, Vec::new());
    let mut last = IndexEntry::default();
    while let Some(row) = rows.next()? {
        let read = || Some((row.get_ref(2).ok()?.as_str().ok()?, row.get::<_, i64>(1).ok()?));
        let session = row.get_ref(0)?.as_str().ok();
        let (Some((owner, position)), Some(session)) = (read(), session) else {
            return Err(unlisted(file));
        };
        let key = (owner, position, session);
        if visited > 0 && last.key() >= key {
            return Err(unlisted(file));
        }
        if key > start && visited > 0 && entries.is_empty() {
            entries.push(last.clone());
        }
        last.set(key);
        if key > start && entries.len() < count.saturating_add(2) {
            entries.push(last.clone());
        }
        visited += 1;
    }
    if entries.is_empty() && visited > 0 {
        entries.push(last); // all are before the start
    }
    if visited == total { Ok(entries) } else { Err(unlisted(file)) }
}

/// A position of a session in the list.
#[derive(Clone, Default)]
struct IndexEntry {
    /// Empty in the list of all sessions.
    owner: String,
    position: i64,
    session: String,
}

impl IndexEntry {
    fn key(&self) -> (&str, i64, &str) {
        (&self.owner, self.position, &self.session)
    }

    fn set(&mut self, (owner, position, session): (&str, i64, &str)) {
        self.owner.clear();
        self.owner.push_str(owner);
        self.position = position;
        self.session.clear();
        self.session.push_str(session);
    }
}

/// A row whose checksum matches.
struct Row {
    session: String,
    owner: String,
    position: i64,
    json: String,
}

impl Row {
    fn checked(row: &rusqlite::Row<'_>) -> Option<Self> {
        let text = |n| row.get::<_, String>(n).ok();
        let (session, owner, position) = (text(0)?, text(1)?, row.get(2).ok()?);
        let json = text(3)?;
        let crc = row_crc(&session, &owner, position, &json);
        let row_crc: u32 = row.get(4).ok()?;
        (row_crc == crc).then_some(Row { session, owner, position, json })
    }

    fn info(&self, file: &Path) -> Result<SessionInfo, StoreError> {
        let what = || format!("the row of session `{}` in the list", self.session);
        let info = codec::decode(self.json.as_bytes());
        Ok(info.map_err(|why| not_understood(file, &what(), &why))?)
    }
}

fn total(connection: &Connection, file: &Path) -> Result<i64, StoreError> {
    let read =
        connection.query_row(TOTAL, (), |row| Ok((row.get::<_, i64>(0), row.get::<_, u32>(1))));
    match read {
        Ok((Ok(total), Ok(stored))) if stored == crc([&total.to_le_bytes()]) => Ok(total),
        _ => Err(unlisted(file)),
    }
}

fn unlisted(file: &Path) -> StoreError {
    let error: MemoryError = damaged(file, "the list of sessions");
    error.into()
}

/// Returns an owner as stored in rows. The operator's sessions have the empty owner.
pub(super) fn owner_key(owner: Option<&Principal>) -> &str {
    owner.map_or("", Principal::as_str)
}

/// Returns the list position of a session that changed at this time. Later changes come first.
fn position(changed: u64) -> i64 {
    -integer(changed)
}

fn row_crc(session: &str, owner: &str, position: i64, json: &str) -> u32 {
    crc([session.as_bytes(), owner.as_bytes(), &position.to_le_bytes(), json.as_bytes()])
}
