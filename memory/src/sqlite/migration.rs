//! Formats of the file, and the migration of older ones to the newest.

use std::path::Path;

use loopwright_core::event::InputEvent;
use loopwright_core::log::{LogEntry, MemoryError, PostedInput};
use rusqlite::{Connection, Transaction, TransactionBehavior};

use super::error::{StoreError, not_understood};
use super::listing::{self, Listing};
use super::{decisions, entries, mailbox, pending, rows, schedule_rows};
use crate::codec;
use crate::sql::listed_actions;

/// The format that is written, and the newest that can be read.
pub(super) const FORMAT: i64 = 6;

/// The tables of each format, in addition to the tables of earlier formats.
///
/// In format 1, `json` and `info` hold a [`LogEntry`] and a
/// [`SessionInfo`](loopwright_core::log::SessionInfo). `crc` covers all other columns of its row. A
/// branch stores only the entries after the shared ones.
///
/// Format 2 adds posted inputs. `json` holds a [`PostedInput`] (in format 2, only its
/// [`InputEvent`]), and is empty once the input was accepted. `receipt` holds an
/// [`InputReceipt`](loopwright_core::log::InputReceipt), and is empty before that.
///
/// Format 3 adds the pending actions and the decisions of all listed sessions, which are copies
/// from the other tables. Since format 4 the decisions of deleted sessions remain, and the pending
/// actions of a session have an index.
///
/// Format 4 also adds the list of sessions, which is a copy, too.
///
/// Format 5 adds snapshots: the state of a session after so many entries, in the format of the
/// core. A damaged one is ignored, since the entries have everything.
///
/// Format 6 adds schedules. `json` holds a [`Schedule`](loopwright_core::log::Schedule).
const SCHEMAS: [&str; FORMAT as usize] = [
    "\
CREATE TABLE session (name TEXT PRIMARY KEY, number INTEGER NOT NULL, info TEXT NOT NULL, \
owner TEXT NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE entry (session INTEGER NOT NULL, position INTEGER NOT NULL, json TEXT NOT NULL, \
crc INTEGER NOT NULL, PRIMARY KEY (session, position)) STRICT, WITHOUT ROWID;
CREATE TABLE totals (sessions INTEGER NOT NULL, next_number INTEGER NOT NULL, \
crc INTEGER NOT NULL) STRICT",
    "\
CREATE TABLE mailbox (number INTEGER PRIMARY KEY AUTOINCREMENT, session INTEGER NOT NULL, \
input TEXT NOT NULL, json TEXT NOT NULL, receipt TEXT NOT NULL, crc INTEGER NOT NULL, \
UNIQUE (session, input)) STRICT",
    "\
CREATE TABLE pending (since INTEGER NOT NULL, session TEXT NOT NULL, call TEXT NOT NULL, \
tool TEXT NOT NULL, json TEXT NOT NULL, crc INTEGER NOT NULL, \
PRIMARY KEY (since, session, call)) STRICT, WITHOUT ROWID;
CREATE TABLE pending_total (pending INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE TABLE decision (time INTEGER NOT NULL, session TEXT NOT NULL, position INTEGER NOT NULL, \
principal TEXT NOT NULL, json TEXT NOT NULL, crc INTEGER NOT NULL, \
PRIMARY KEY (time, session, position)) STRICT, WITHOUT ROWID;
CREATE INDEX decision_of_session ON decision (session, time);
CREATE INDEX decision_of_principal ON decision (principal, time)",
    "\
CREATE INDEX pending_of_session ON pending (session, since, call);
CREATE TABLE listing (session TEXT PRIMARY KEY, owner TEXT NOT NULL, position INTEGER NOT NULL, \
json TEXT NOT NULL, crc INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE listing_total (sessions INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE INDEX listing_by_position ON listing (position, session);
CREATE INDEX listing_of_owner ON listing (owner, position, session)",
    "\
CREATE TABLE snapshot (session INTEGER PRIMARY KEY, entries INTEGER NOT NULL, data BLOB NOT NULL, \
crc INTEGER NOT NULL) STRICT",
    "\
CREATE TABLE schedule (session TEXT NOT NULL, id TEXT NOT NULL, next INTEGER NOT NULL, \
json TEXT NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY (session, id)) STRICT, WITHOUT ROWID;
CREATE TABLE schedule_total (schedules INTEGER NOT NULL, crc INTEGER NOT NULL) STRICT;
CREATE INDEX schedule_by_next ON schedule (next, session, id)",
];

/// Returns the definitions of a format's tables, as in the file, and then of its indices: `VACUUM`
/// reorders them like this.
pub(super) fn schema(format: i64) -> Option<String> {
    let formats = usize::try_from(format).ok().filter(|format| *format >= 1)?;
    let all = SCHEMAS.get(..formats)?.iter().flat_map(|schema| schema.split(";\n"));
    let (indices, tables): (Vec<_>, Vec<_>) = all.partition(|sql| sql.starts_with("CREATE INDEX"));
    Some([tables, indices].concat().join(";\n"))
}

/// Creates the tables of an empty file.
pub(super) fn create(tx: &Connection) -> Result<(), StoreError> {
    SCHEMAS.iter().try_for_each(|schema| tx.execute_batch(schema))?;
    rows::set_totals(tx, 0, 1)?;
    pending::set_total(tx, 0)?;
    listing::set_total(tx, 0)?;
    schedule_rows::set_total(tx, 0)?;
    tx.pragma_update(None, "user_version", FORMAT)?;
    Ok(())
}

/// Adds the tables and rows that an older format lacks.
pub(super) fn migrate(connection: &Connection, path: &Path) -> Result<(), MemoryError> {
    let migrate = || -> Result<(), StoreError> {
        if number(connection, "user_version")? == FORMAT {
            return Ok(());
        }
        let tx = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
        let format = number(&tx, "user_version")?;
        if format >= FORMAT {
            return Ok(()); // another process was faster
        }
        match format {
            ..2 => tx.execute_batch(SCHEMAS[1])?,
            2 => add_times(&tx, path)?,
            _ => {}
        }
        if format < 3 {
            tx.execute_batch(SCHEMAS[2])?;
            fill(&tx, path)?;
        }
        if format < 4 {
            tx.execute_batch(SCHEMAS[3])?;
            list(&tx, path)?;
        }
        if format < 5 {
            tx.execute_batch(SCHEMAS[4])?;
        }
        tx.execute_batch(SCHEMAS[5])?;
        schedule_rows::set_total(&tx, 0)?;
        tx.pragma_update(None, "user_version", FORMAT)?;
        Ok(tx.commit()?)
    };
    migrate().map_err(|error| error.into_memory_error(path))
}

/// Converts the events in the mailboxes to [`PostedInput`]s. Their time of posting is unknown.
fn add_times(tx: &Connection, path: &Path) -> Result<(), StoreError> {
    mailbox::rewrite(tx, path, |id, json| {
        let event: InputEvent = codec::decode(json.as_bytes())
            .map_err(|why| not_understood(path, "a posted input", &why))?;
        let input = PostedInput::new(id.clone(), event);
        let input =
            input.map_err(|why| not_understood(path, "a posted input", &why.to_string()))?;
        Ok(codec::encode(&input)?)
    })
}

/// Copies the pending actions and the decisions of all sessions.
fn fill(tx: &Connection, path: &Path) -> Result<(), StoreError> {
    pending::set_total(tx, 0)?;
    for session in rows::all(tx, path)?.0 {
        let (info, first) = (session.info.clone(), session.first_own());
        pending::replace(tx, &[], listed_actions(&info), path)?;
        let own: Vec<LogEntry> = entries::read(tx, session, first, path)?;
        decisions::add(tx, &info, first, &own)?;
    }
    Ok(())
}

/// Copies the list of sessions.
fn list(tx: &Connection, path: &Path) -> Result<(), StoreError> {
    listing::set_total(tx, 0)?;
    let mut listing = Listing::new(tx)?;
    let (sessions, _) = rows::all(tx, path)?;
    sessions.iter().try_for_each(|session| listing.put(&session.info, path))
}

/// Returns a number from the header of the file.
pub(super) fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}
