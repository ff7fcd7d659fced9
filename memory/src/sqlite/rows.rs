//! Rows of the tables. Each has a checksum, so that damage is detected.
//!
//! The checksum of a row does not help if the row can no longer be reached. So entries are counted
//! and numbered, and sessions are counted: missing rows are detected too.

use std::path::Path;

use loopwright_core::log::{MemoryError, SessionInfo};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Statement};

use super::error::{StoreError, damaged, not_understood};
use crate::codec;

/// Query of a session by its name.
pub(super) const FIND_SESSION: &str =
    "SELECT name, number, info, owner, crc FROM session WHERE name = ?1";
const ALL_SESSIONS: &str = "SELECT name, number, info, owner, crc FROM session ORDER BY name";
/// Insertion or replacement of a session.
pub(super) const PUT_SESSION: &str =
    "REPLACE INTO session (name, number, info, owner, crc) VALUES (?1, ?2, ?3, ?4, ?5)";
/// Insertion of a log entry.
pub(super) const ADD_ENTRY: &str =
    "INSERT INTO entry (session, position, json, crc) VALUES (?1, ?2, ?3, ?4)";

/// The row of a session.
pub(super) struct Session {
    /// The key of its entries. Numbers grow: later sessions have higher ones.
    pub(super) number: i64,
    /// The owner, or an empty string if the session is free.
    pub(super) owner: String,
    /// The information about the session, which includes its name.
    pub(super) info: SessionInfo,
}

impl Session {
    /// Inserts or replaces the row with a [`PUT_SESSION`] statement.
    pub(super) fn put(&self, put: &mut Statement<'_>) -> Result<(), StoreError> {
        let info = codec::encode(&self.info)?;
        let crc = crc([
            self.info.id.as_bytes(),
            &self.number.to_le_bytes(),
            info.as_bytes(),
            self.owner.as_bytes(),
        ]);
        put.execute((&*self.info.id, self.number, info, &*self.owner, crc))?;
        Ok(())
    }

    /// Returns the position of the first entry that is not shared with its parent.
    pub(super) fn first_own(&self) -> u64 {
        self.info.parent.as_ref().map_or(0, |(_, shared)| *shared)
    }
}

/// The row of a session whose checksum matches.
struct CheckedRow<'r> {
    name: &'r str,
    number: i64,
    info: &'r str,
    owner: &'r str,
}

impl<'r> CheckedRow<'r> {
    fn of(row: &'r rusqlite::Row<'_>, file: &Path) -> Result<Self, StoreError> {
        Self::checked(row).ok_or_else(|| {
            let name = match row.get::<_, Value>(0) {
                Ok(Value::Text(name)) => name,
                _ => "?".into(),
            };
            damaged(file, &format!("the row of session `{name}`, or its name,")).into()
        })
    }

    fn checked(row: &'r rusqlite::Row<'_>) -> Option<Self> {
        let text = |n| row.get_ref(n).ok()?.as_str().ok();
        let name = text(0)?;
        let number = row.get::<_, i64>(1).ok()?;
        let info = text(2)?;
        let owner = text(3)?;
        let stored = row.get::<_, u32>(4).ok()?;
        let actual =
            crc([name.as_bytes(), &number.to_le_bytes(), info.as_bytes(), owner.as_bytes()]);
        (stored == actual).then_some(CheckedRow { name, number, info, owner })
    }

    fn what(&self) -> String {
        format!("the row of session `{}`", self.name)
    }

    fn session(&self, file: &Path) -> Result<Session, StoreError> {
        let decoded = codec::decode(self.info.as_bytes());
        let info: SessionInfo = decoded.map_err(|why| not_understood(file, &self.what(), &why))?;
        if *info.id != *self.name {
            return Err(damaged(file, &self.what()).into());
        }
        Ok(Session { number: self.number, owner: self.owner.into(), info })
    }
}

/// Returns the checksum over the fields and their lengths.
pub(super) fn crc<const N: usize>(fields: [&[u8]; N]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for field in fields {
        crc.update(&(field.len() as u64).to_le_bytes());
        crc.update(field);
    }
    crc.finalize()
}

/// Inserts a log entry with an [`ADD_ENTRY`] statement.
pub(super) fn add_entry(
    add: &mut Statement<'_>,
    session: i64,
    position: u64,
    json: &str,
) -> Result<(), StoreError> {
    let position = position as i64;
    let crc = crc([&session.to_le_bytes(), &position.to_le_bytes(), json.as_bytes()]);
    add.execute((session, position, json, crc))?;
    Ok(())
}

/// Stores the number of sessions and the number of the next session.
pub(super) fn set_totals(
    connection: &Connection,
    sessions: i64,
    next_number: i64,
) -> Result<(), StoreError> {
    connection.execute("DELETE FROM totals", ())?;
    let crc = crc([&sessions.to_le_bytes(), &next_number.to_le_bytes()]);
    connection.execute(
        "INSERT INTO totals (sessions, next_number, crc) VALUES (?1, ?2, ?3)",
        (sessions, next_number, crc),
    )?;
    Ok(())
}

/// Returns the session with this name, with a [`FIND_SESSION`] statement.
///
/// `None` proves that the session does not exist only if [`totals`] succeeds too.
pub(super) fn find(
    find: &mut Statement<'_>,
    name: &str,
    file: &Path,
) -> Result<Option<Session>, StoreError> {
    let row = find
        .query_row([name], |row| Ok(CheckedRow::of(row, file).and_then(|row| row.session(file))))
        .optional()?;
    match row.transpose()? {
        Some(other) if *other.info.id != *name => {
            Err(damaged(file, &format!("the row of session `{name}`")).into())
        }
        session => Ok(session),
    }
}

/// Returns the session with this name, or an error if it does not exist.
///
/// If the name is not found, all rows are checked, since one of them could be this session with a
/// damaged name.
pub(super) fn get(connection: &Connection, name: &str, file: &Path) -> Result<Session, StoreError> {
    if let Some(session) = find(&mut connection.prepare(FIND_SESSION)?, name, file)? {
        return Ok(session);
    }
    totals(connection, file)?;
    Err(MemoryError::NoSession(name.into()).into())
}

/// Returns the number of sessions and the number of the next one, after checking every row.
///
/// The information in the rows is not parsed, so creating a session costs no parsing.
pub(super) fn totals(connection: &Connection, file: &Path) -> Result<(i64, i64), StoreError> {
    for_each_row(connection, file, |_| Ok(()))
}

/// Returns all sessions, sorted by name, and the number of the next one.
pub(super) fn all(connection: &Connection, file: &Path) -> Result<(Vec<Session>, i64), StoreError> {
    let mut sessions = Vec::new();
    let (_, next_number) = for_each_row(connection, file, |row| {
        sessions.push(row.session(file)?);
        Ok(())
    })?;
    Ok((sessions, next_number))
}

/// Calls `visit` with the row of each session. Returns the number of sessions and the number of the
/// next one.
fn for_each_row(
    connection: &Connection,
    file: &Path,
    mut visit: impl FnMut(&CheckedRow<'_>) -> Result<(), StoreError>,
) -> Result<(i64, i64), StoreError> {
    let totals = connection.query_row("SELECT sessions, next_number, crc FROM totals", (), |row| {
        Ok((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, u32>(2)))
    });
    let (count, next_number) = match totals.optional()? {
        Some((Ok(count), Ok(next), Ok(stored)))
            if stored == crc([&count.to_le_bytes(), &next.to_le_bytes()]) =>
        {
            (count, next)
        }
        _ => return Err(damaged(file, "the number of sessions").into()),
    };
    let unlisted = || damaged(file, "the list of sessions");
    let mut visited = 0;
    let mut last = None::<String>;
    let mut statement = connection.prepare(ALL_SESSIONS)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let row = CheckedRow::of(row, file)?;
        if last.is_some_and(|last| *last >= *row.name) {
            return Err(unlisted().into());
        }
        last = Some(row.name.to_owned());
        visit(&row)?;
        visited += 1;
    }
    if visited == count { Ok((count, next_number)) } else { Err(unlisted().into()) }
}
