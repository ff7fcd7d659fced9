//! The floor of the comparison: plain SQLite, without a store.

use std::path::Path;

use loopwright_core::log::LogEntry;
use rusqlite::Connection;

/// A table of texts.
pub(crate) struct Floor {
    connection: Connection,
    rows: i64,
}

const TABLE: &str = "CREATE TABLE entry (session INTEGER, position INTEGER, json TEXT, \
    PRIMARY KEY (session, position)) WITHOUT ROWID";
const SELECT: &str = "SELECT json FROM entry WHERE session = 1 ORDER BY position";
const INSERT: &str = "INSERT INTO entry (session, position, json) VALUES (1, ?1, ?2)";

impl Floor {
    pub(crate) fn new(path: &Path, full: bool) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection
            .pragma_update(None, "synchronous", if full { "FULL" } else { "NORMAL" })
            .unwrap();
        connection.execute_batch(TABLE).unwrap();
        Floor { connection, rows: 0 }
    }

    /// Encodes and inserts entries, each in a separate transaction.
    pub(crate) fn insert(&mut self, entries: &[LogEntry]) {
        let mut insert = self.connection.prepare(INSERT).unwrap();
        for entry in entries {
            insert.execute((self.rows, serde_json::to_string(entry).unwrap())).unwrap();
            self.rows += 1;
        }
    }

    /// Inserts entries in one transaction.
    pub(crate) fn insert_together(&mut self, entries: &[LogEntry]) {
        self.connection.execute_batch("BEGIN").unwrap();
        self.insert(entries);
        self.connection.execute_batch("COMMIT").unwrap();
    }

    /// Copies all rows, and returns their number.
    pub(crate) fn select(&self) -> usize {
        let mut select = self.connection.prepare(SELECT).unwrap();
        let rows: Vec<String> =
            select.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        rows.len()
    }
}
