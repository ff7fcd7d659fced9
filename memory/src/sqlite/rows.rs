//! The rows: each with a checksum, so that what is not as it was written is found.
//!
//! A row that cannot be reached any more has no checksum. So items are counted and numbered, and sessions are counted:
//! what is missing is found too.

use std::path::Path;

use loopwright::{Item, MemoryError, SessionInfo};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Statement};

use super::trouble::{Trouble, damaged};
use crate::codec;

/// Finds a session by its name.
pub(super) const FIND: &str = "SELECT name, number, info, owner, crc FROM session WHERE name = ?1";
const ALL: &str = "SELECT name, number, info, owner, crc FROM session ORDER BY name";
/// Writes a session, new or changed.
pub(super) const PUT: &str = "REPLACE INTO session (name, number, info, owner, crc) VALUES (?1, ?2, ?3, ?4, ?5)";
const ITEMS: &str = "SELECT at, json, crc FROM item WHERE session = ?1 AND at >= ?2 AND at < ?3 ORDER BY at";
/// Writes a new item.
pub(super) const ADD: &str = "INSERT INTO item (session, at, json, crc) VALUES (?1, ?2, ?3, ?4)";

/// A session.
pub(super) struct Session {
    /// What its items go by; of two sessions the later one has the higher.
    pub(super) number: i64,
    /// Whose it is; empty if nobody's.
    pub(super) owner: String,
    /// What is known of it, its name among that.
    pub(super) info: SessionInfo,
}

impl Session {
    /// Writes it, new or changed.
    pub(super) fn put(&self, put: &mut Statement<'_>) -> Result<(), Trouble> {
        let info = codec::encode(&self.info)?;
        let crc = crc([self.info.id.as_bytes(), &self.number.to_le_bytes(), info.as_bytes(), self.owner.as_bytes()]);
        put.execute((&*self.info.id, self.number, info, &*self.owner, crc))?;
        Ok(())
    }

    /// The number of the first item of its own.
    fn first(&self) -> u64 {
        self.info.parent.as_ref().map_or(0, |(_, shared)| *shared)
    }

    /// Nothing, if the row is not as it was written.
    fn of(row: &rusqlite::Row<'_>) -> Option<Self> {
        let text = |n| row.get_ref(n).ok()?.as_str().ok();
        let (name, number, info, owner) = (text(0)?, row.get::<_, i64>(1).ok()?, text(2)?, text(3)?);
        let written = row.get::<_, u32>(4).ok()?;
        let found = crc([name.as_bytes(), &number.to_le_bytes(), info.as_bytes(), owner.as_bytes()]);
        let session = Session { number, owner: owner.into(), info: codec::decode(info.as_bytes()).ok()? };
        (written == found && *session.info.id == *name).then_some(session)
    }
}

/// Over the fields and where they end.
fn crc<const N: usize>(fields: [&[u8]; N]) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    for field in fields {
        crc.update(&(field.len() as u64).to_le_bytes());
        crc.update(field);
    }
    crc.finalize()
}

/// Writes an item.
pub(super) fn add(add: &mut Statement<'_>, session: i64, at: u64, json: &str) -> Result<(), Trouble> {
    let at = at as i64;
    add.execute((session, at, json, crc([&session.to_le_bytes(), &at.to_le_bytes(), json.as_bytes()])))?;
    Ok(())
}

/// Counts the sessions, and says which number comes next.
pub(super) fn tally(connection: &Connection, sessions: i64, next: i64) -> Result<(), Trouble> {
    connection.execute("DELETE FROM tally", ())?;
    let crc = crc([&sessions.to_le_bytes(), &next.to_le_bytes()]);
    connection.execute("INSERT INTO tally (sessions, next, crc) VALUES (?1, ?2, ?3)", (sessions, next, crc))?;
    Ok(())
}

/// The session of this name, of a statement [`FIND`]. That there is none is the truth only if [`all`] says so too.
pub(super) fn find(find: &mut Statement<'_>, name: &str, file: &Path) -> Result<Option<Session>, Trouble> {
    let found =
        find.query_row([name], |row| Ok(Session::of(row).filter(|found| *found.info.id == *name))).optional()?;
    match found {
        Some(None) => Err(damaged(file, &format!("what is known of session `{name}`")).into()),
        found => Ok(found.flatten()),
    }
}

/// The session of this name, for whoever needs it: where it is not found, none of the others may be it, damaged.
pub(super) fn wanted(connection: &Connection, name: &str, file: &Path) -> Result<Session, Trouble> {
    if let Some(found) = find(&mut connection.prepare(FIND)?, name, file)? {
        return Ok(found);
    }
    all(connection, file)?;
    Err(MemoryError::NoSession(name.into()).into())
}

/// All sessions, by their names, each as it was written; and the number of the next one.
pub(super) fn all(connection: &Connection, file: &Path) -> Result<(Vec<Session>, i64), Trouble> {
    let tally = connection.query_row("SELECT sessions, next, crc FROM tally", (), |row| {
        Ok((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, u32>(2)))
    });
    let (count, next) = match tally.optional()? {
        Some((Ok(count), Ok(next), Ok(written))) if written == crc([&count.to_le_bytes(), &next.to_le_bytes()]) => {
            (count, next)
        }
        _ => return Err(damaged(file, "the number of sessions").into()),
    };
    let mut statement = connection.prepare(ALL)?;
    let mut rows = statement.query(())?;
    let mut sessions: Vec<Session> = Vec::new();
    while let Some(row) = rows.next()? {
        let Some(session) = Session::of(row) else {
            let name = row.get::<_, Value>(0);
            let name = if let Ok(Value::Text(name)) = name { name } else { "?".into() };
            return Err(damaged(file, &format!("what is known of session `{name}`, or its name,")).into());
        };
        if sessions.last().is_some_and(|last| last.info.id >= session.info.id) {
            return Err(damaged(file, "the list of sessions").into());
        }
        sessions.push(session);
    }
    if sessions.len() as i64 != count {
        return Err(damaged(file, "the list of sessions").into());
    }
    Ok((sessions, next))
}

/// The items of a session from number `from` on, those that it shares with others among them.
pub(super) fn items(connection: &Connection, of: Session, from: u64, file: &Path) -> Result<Vec<Item>, Trouble> {
    let mut parts = Vec::new();
    let (mut session, mut end) = (of, None); // all of its own items, and as many of its parents' as it shares
    loop {
        let first = session.first();
        let last = end.unwrap_or(session.info.items);
        if from < last && first < last {
            parts.push((session.number, session.info.id.clone(), first.max(from), last, end.is_none()));
        }
        let Some((parent, shared)) = session.info.parent.clone().filter(|_| from < first.min(last)) else { break };
        let above = find(&mut connection.prepare(FIND)?, &parent, file)?;
        let above = above.filter(|above| above.number < session.number && above.info.items >= shared);
        let lost = || damaged(file, &format!("what session `{}` shares with `{parent}`", session.info.id));
        (session, end) = (above.ok_or_else(lost)?, Some(shared.min(last)));
    }
    let mut items = Vec::new();
    let mut statement = connection.prepare(ITEMS)?;
    for (number, name, first, last, open) in parts.into_iter().rev() {
        let mut at = first;
        let bound = if open { i64::MAX } else { last as i64 };
        let mut rows = statement.query((number, first as i64, bound))?;
        while let Some(row) = rows.next()? {
            let json = checked(row, number, at).filter(|_| at < last);
            let json = json.ok_or_else(|| damaged(file, &format!("item {at} of session `{name}`")))?;
            items.push(codec::decode(json.as_bytes()).map_err(|why| {
                let file = file.display();
                MemoryError::Damaged(format!(
                    "item {at} of session `{name}` in {file} is not understood ({why}): update loopwright, a newer \
                     version may have written it"
                ))
            })?);
            at += 1;
        }
        if at != last {
            return Err(damaged(file, &format!("item {at} of session `{name}`")).into());
        }
    }
    Ok(items)
}

/// An item's text, if it is the one of this number and as it was written.
fn checked<'r>(row: &'r rusqlite::Row<'_>, session: i64, at: u64) -> Option<&'r str> {
    let (number, json) = (row.get::<_, i64>(0).ok()?, row.get_ref(1).ok()?.as_str().ok()?);
    let written = row.get::<_, u32>(2).ok()?;
    let found = crc([&session.to_le_bytes(), &number.to_le_bytes(), json.as_bytes()]);
    (number == at as i64 && written == found).then_some(json)
}
