//! Rows of posted inputs, and the watch for inputs posted by other processes.

use std::path::Path;

use loopwright_core::log::{InputReceipt, PostedInput};
use loopwright_core::message::InputId;
use rusqlite::{Connection, OptionalExtension, Row, Statement};

use super::error::{StoreError, damaged, not_understood};
use super::rows::{Session, crc};
use crate::codec;

const FIND: &str = "SELECT number, session, input, json, receipt, crc FROM mailbox \
    WHERE session = ?1 AND input = ?2";
const UNREAD: &str = "SELECT number, session, input, json, receipt, crc FROM mailbox \
    WHERE session = ?1 AND receipt = '' ORDER BY number";
const WITH_CONTENT: &str = "SELECT number, session, input, json, receipt, crc FROM mailbox \
    WHERE json != ''";
const ADD: &str = "INSERT INTO mailbox (number, session, input, json, receipt, crc) \
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";
const SET: &str = "UPDATE mailbox SET json = ?2, receipt = ?3, crc = ?4 WHERE number = ?1";
/// Query of the number of the last row that was ever added.
const LAST_NUMBER: &str =
    "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'mailbox'";
const POSTED_SINCE: &str = "SELECT number, session FROM mailbox WHERE number > ?1";

/// The row of a posted input, whose checksum matches. Rows are in the order of their numbers.
pub(super) struct PostedRow {
    number: i64,
    session: i64,
    input: InputId,
    json: String,
    receipt: String,
}

impl PostedRow {
    fn of(row: &Row<'_>, file: &Path) -> Result<Self, StoreError> {
        let read = || -> Option<Self> {
            let posted = PostedRow {
                number: row.get(0).ok()?,
                session: row.get(1).ok()?,
                input: row.get(2).ok()?,
                json: row.get(3).ok()?,
                receipt: row.get(4).ok()?,
            };
            (row.get::<_, u32>(5).ok()? == posted.crc()).then_some(posted)
        };
        read().ok_or_else(|| damaged(file, "an input in the mailbox of a session").into())
    }

    fn crc(&self) -> u32 {
        let Self { number, session, input, json, receipt } = self;
        let (number, session) = (number.to_le_bytes(), session.to_le_bytes());
        crc([&number, &session, input.as_bytes(), json.as_bytes(), receipt.as_bytes()])
    }

    /// Returns `true` if the input has no receipt.
    pub(super) fn is_unread(&self) -> bool {
        self.receipt.is_empty()
    }

    /// Returns the receipt of the input.
    pub(super) fn receipt(&self, file: &Path) -> Result<Option<InputReceipt>, StoreError> {
        if self.is_unread() {
            return Ok(None);
        }
        let receipt = codec::decode(self.receipt.as_bytes())
            .map_err(|why| not_understood(file, &self.what(), &why))?;
        Ok(Some(receipt))
    }

    fn posted(self, file: &Path) -> Result<PostedInput, StoreError> {
        let decoded = codec::decode(self.json.as_bytes());
        Ok(decoded.map_err(|why| not_understood(file, &self.what(), &why))?)
    }

    fn what(&self) -> String {
        format!("the posted input `{}`", self.input)
    }

    /// Writes the receipt. The content of an accepted input is removed, since it is in the log.
    pub(super) fn acknowledge(
        mut self,
        connection: &Connection,
        receipt: &str,
        is_accepted: bool,
    ) -> Result<(), StoreError> {
        if is_accepted {
            self.json.clear();
        }
        receipt.clone_into(&mut self.receipt);
        let crc = self.crc();
        connection.execute(SET, (self.number, self.json, self.receipt, crc))?;
        Ok(())
    }
}

/// Adds the row of an input.
pub(super) fn add(
    connection: &Connection,
    session: i64,
    input: &str,
    json: &str,
    receipt: &str,
) -> Result<(), StoreError> {
    let last: i64 = connection.query_row(LAST_NUMBER, (), |row| row.get(0))?;
    let row = PostedRow {
        number: last + 1,
        session,
        input: input.into(),
        json: json.into(),
        receipt: receipt.into(),
    };
    connection.execute(ADD, (row.number, session, input, json, receipt, row.crc()))?;
    Ok(())
}

/// Returns the row of the input with this id.
pub(super) fn find(
    connection: &Connection,
    session: i64,
    input: &str,
    file: &Path,
) -> Result<Option<PostedRow>, StoreError> {
    let mut find = connection.prepare(FIND)?;
    find.query_row((session, input), |row| Ok(PostedRow::of(row, file))).optional()?.transpose()
}

/// Returns the inputs of a session without a receipt, in the order of posting. They are counted, to
/// detect inputs that can no longer be reached.
pub(super) fn unread(
    connection: &Connection,
    session: &Session,
    file: &Path,
) -> Result<Vec<PostedInput>, StoreError> {
    let mut statement = connection.prepare(UNREAD)?;
    let mut rows = statement.query([session.number])?;
    let mut unread = Vec::new();
    while let Some(row) = rows.next()? {
        unread.push(PostedRow::of(row, file)?.posted(file)?);
    }
    if (unread.len() as u64) < session.info.unread {
        let name = &session.info.id;
        return Err(damaged(file, &format!("the mailbox of session `{name}`")).into());
    }
    Ok(unread)
}

/// Replaces the content of each input that has one by the result of `change` for its id and
/// content.
pub(super) fn rewrite(
    connection: &Connection,
    file: &Path,
    change: impl Fn(&InputId, &str) -> Result<String, StoreError>,
) -> Result<(), StoreError> {
    let mut statement = connection.prepare(WITH_CONTENT)?;
    let mut rows = statement.query(())?;
    let mut changed = Vec::new();
    while let Some(row) = rows.next()? {
        let mut row = PostedRow::of(row, file)?;
        row.json = change(&row.input, &row.json)?;
        changed.push(row);
    }
    for row in changed {
        let crc = row.crc();
        connection.execute(SET, (row.number, row.json, row.receipt, crc))?;
    }
    Ok(())
}

/// A watch for inputs posted by other processes.
pub(super) struct MailWatch<'c> {
    posted_since: Statement<'c>,
    /// SQLite's version of the file's content, which changes with each commit of another
    /// connection.
    version: i64,
    /// The number of the last input that was seen.
    last: i64,
}

impl<'c> MailWatch<'c> {
    /// Starts with inputs posted from now on.
    pub(super) fn new(connection: &'c Connection) -> rusqlite::Result<Self> {
        Ok(MailWatch {
            posted_since: connection.prepare(POSTED_SINCE)?,
            version: data_version(connection)?,
            last: connection.query_row(LAST_NUMBER, (), |row| row.get(0))?,
        })
    }

    /// Returns the numbers of the sessions for which inputs were posted since the last call.
    pub(super) fn poll(&mut self, connection: &Connection) -> rusqlite::Result<Vec<i64>> {
        let version = data_version(connection)?;
        if version == self.version {
            return Ok(Vec::new());
        }
        let mut sessions = Vec::new();
        let mut rows = self.posted_since.query([self.last])?;
        let mut last = self.last;
        while let Some(row) = rows.next()? {
            last = last.max(row.get(0)?);
            sessions.push(row.get(1)?);
        }
        (self.version, self.last) = (version, last);
        Ok(sessions)
    }
}

fn data_version(connection: &Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "data_version", |row| row.get(0))
}
