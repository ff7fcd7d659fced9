//! The rows: each with a checksum, so that what is not as it was written is found.
//!
//! A row that cannot be reached any more has no checksum. So items are counted and numbered, and
//! sessions are counted: what is missing is found too.

use std::path::Path;

use loopwright_core::log::{LogEntry, MemoryError, SessionInfo};
use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Statement};

use super::trouble::{Trouble, damaged, not_understood};
use crate::codec;

/// Finds a session by its name.
pub(super) const FIND: &str = "SELECT name, number, info, owner, crc FROM session WHERE name = ?1";
const ALL: &str = "SELECT name, number, info, owner, crc FROM session ORDER BY name";
/// Writes a session, new or changed.
pub(super) const PUT: &str =
    "REPLACE INTO session (name, number, info, owner, crc) VALUES (?1, ?2, ?3, ?4, ?5)";
const ITEMS: &str =
    "SELECT at, json, crc FROM item WHERE session = ?1 AND at >= ?2 AND at < ?3 ORDER BY at";
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
        let crc = crc([
            self.info.id.as_bytes(),
            &self.number.to_le_bytes(),
            info.as_bytes(),
            self.owner.as_bytes(),
        ]);
        put.execute((&*self.info.id, self.number, info, &*self.owner, crc))?;
        Ok(())
    }

    /// The number of the first item of its own.
    fn first(&self) -> u64 {
        self.info.parent.as_ref().map_or(0, |(_, shared)| *shared)
    }
}

/// The row of a session as it was written: its checksum fits.
struct Row<'r> {
    name: &'r str,
    number: i64,
    info: &'r str,
    owner: &'r str,
}

impl<'r> Row<'r> {
    fn of(row: &'r rusqlite::Row<'_>, file: &Path) -> Result<Self, Trouble> {
        let checked = || {
            let text = |n| row.get_ref(n).ok()?.as_str().ok();
            let (name, number, info, owner) =
                (text(0)?, row.get::<_, i64>(1).ok()?, text(2)?, text(3)?);
            let written = row.get::<_, u32>(4).ok()?;
            let found =
                crc([name.as_bytes(), &number.to_le_bytes(), info.as_bytes(), owner.as_bytes()]);
            (written == found).then_some(Row { name, number, info, owner })
        };
        checked().ok_or_else(|| {
            let name = row.get::<_, Value>(0);
            let name = if let Ok(Value::Text(name)) = name { name } else { "?".into() };
            damaged(file, &format!("what is known of session `{name}`, or its name,")).into()
        })
    }

    fn session(&self, file: &Path) -> Result<Session, Trouble> {
        let what = || format!("what is known of session `{}`", self.name);
        let info: SessionInfo = codec::decode(self.info.as_bytes())
            .map_err(|why| not_understood(file, &what(), &why))?;
        if *info.id != *self.name {
            return Err(damaged(file, &what()).into());
        }
        Ok(Session { number: self.number, owner: self.owner.into(), info })
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
pub(super) fn add(
    add: &mut Statement<'_>,
    session: i64,
    at: u64,
    json: &str,
) -> Result<(), Trouble> {
    let at = at as i64;
    add.execute((
        session,
        at,
        json,
        crc([&session.to_le_bytes(), &at.to_le_bytes(), json.as_bytes()]),
    ))?;
    Ok(())
}

/// Counts the sessions, and says which number comes next.
pub(super) fn tally(connection: &Connection, sessions: i64, next: i64) -> Result<(), Trouble> {
    connection.execute("DELETE FROM tally", ())?;
    let crc = crc([&sessions.to_le_bytes(), &next.to_le_bytes()]);
    connection.execute(
        "INSERT INTO tally (sessions, next, crc) VALUES (?1, ?2, ?3)",
        (sessions, next, crc),
    )?;
    Ok(())
}

/// The session of this name, of a statement [`FIND`]. That there is none is the truth only if
/// [`count`] says so too.
pub(super) fn find(
    find: &mut Statement<'_>,
    name: &str,
    file: &Path,
) -> Result<Option<Session>, Trouble> {
    let found = find
        .query_row([name], |row| Ok(Row::of(row, file).and_then(|row| row.session(file))))
        .optional()?;
    match found.transpose()? {
        Some(other) if *other.info.id != *name => {
            Err(damaged(file, &format!("what is known of session `{name}`")).into())
        }
        found => Ok(found),
    }
}

/// The session of this name, for whoever needs it: where it is not found, none of the others may be
/// it, damaged.
pub(super) fn wanted(connection: &Connection, name: &str, file: &Path) -> Result<Session, Trouble> {
    if let Some(found) = find(&mut connection.prepare(FIND)?, name, file)? {
        return Ok(found);
    }
    count(connection, file)?;
    Err(MemoryError::NoSession(name.into()).into())
}

/// How many sessions there are, each as it was written, and the number of the next one. What is
/// known of them is not parsed: whoever begins a session does not wait for that.
pub(super) fn count(connection: &Connection, file: &Path) -> Result<(i64, i64), Trouble> {
    each(connection, file, |_| Ok(()))
}

/// All sessions, by their names, each as it was written; and the number of the next one.
pub(super) fn all(connection: &Connection, file: &Path) -> Result<(Vec<Session>, i64), Trouble> {
    let mut sessions = Vec::new();
    let (_, next) = each(connection, file, |row| {
        sessions.push(row.session(file)?);
        Ok(())
    })?;
    Ok((sessions, next))
}

/// Shows the rows of all sessions, and gives their count and the number of the next one.
fn each(
    connection: &Connection,
    file: &Path,
    mut show: impl FnMut(&Row<'_>) -> Result<(), Trouble>,
) -> Result<(i64, i64), Trouble> {
    let tally = connection.query_row("SELECT sessions, next, crc FROM tally", (), |row| {
        Ok((row.get::<_, i64>(0), row.get::<_, i64>(1), row.get::<_, u32>(2)))
    });
    let (count, next) = match tally.optional()? {
        Some((Ok(count), Ok(next), Ok(written)))
            if written == crc([&count.to_le_bytes(), &next.to_le_bytes()]) =>
        {
            (count, next)
        }
        _ => return Err(damaged(file, "the number of sessions").into()),
    };
    let unlisted = || damaged(file, "the list of sessions");
    let (mut found, mut last) = (0, None::<String>);
    let mut statement = connection.prepare(ALL)?;
    let mut rows = statement.query(())?;
    while let Some(row) = rows.next()? {
        let row = Row::of(row, file)?;
        if last.is_some_and(|last| *last >= *row.name) {
            return Err(unlisted().into());
        }
        last = Some(row.name.to_owned());
        show(&row)?;
        found += 1;
    }
    if found == count { Ok((count, next)) } else { Err(unlisted().into()) }
}

/// The items of a session from number `from` on, those that it shares with others among them.
pub(super) fn items(
    connection: &Connection,
    of: Session,
    from: u64,
    file: &Path,
) -> Result<Vec<LogEntry>, Trouble> {
    let mut parts = Vec::new();
    let (mut session, mut end) = (of, None); // all of its own items, and as many of its parents' as it shares
    loop {
        let first = session.first();
        let last = end.unwrap_or(session.info.items);
        if from < last && first < last {
            parts.push((
                session.number,
                session.info.id.clone(),
                first.max(from),
                last,
                end.is_none(),
            ));
        }
        let Some((parent, shared)) = session.info.parent.clone().filter(|_| from < first.min(last))
        else {
            break;
        };
        let above = find(&mut connection.prepare(FIND)?, &parent, file)?;
        let above =
            above.filter(|above| above.number < session.number && above.info.items >= shared);
        let lost =
            || damaged(file, &format!("what session `{}` shares with `{parent}`", session.info.id));
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
            let json =
                json.ok_or_else(|| damaged(file, &format!("item {at} of session `{name}`")))?;
            let what = || format!("item {at} of session `{name}`");
            items.push(
                codec::decode(json.as_bytes())
                    .map_err(|why| not_understood(file, &what(), &why))?,
            );
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
