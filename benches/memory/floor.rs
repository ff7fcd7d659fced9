//! Plain SQLite, as one would write it by hand.

use std::path::Path;

use loopwright_core::log::LogEntry;
use rusqlite::Connection;

/// A table of texts.
pub(crate) struct Floor {
    connection: Connection,
    rows: i64,
}

const INSERT: &str = "INSERT INTO item (session, at, json) VALUES (1, ?1, ?2)";

impl Floor {
    pub(crate) fn new(path: &Path, full: bool) -> Self {
        let connection = Connection::open(path).unwrap();
        connection.pragma_update(None, "journal_mode", "WAL").unwrap();
        connection
            .pragma_update(None, "synchronous", if full { "FULL" } else { "NORMAL" })
            .unwrap();
        let table = "CREATE TABLE item (session INTEGER, at INTEGER, json TEXT, PRIMARY KEY (session, at)) WITHOUT ROWID";
        connection.execute_batch(table).unwrap();
        Floor { connection, rows: 0 }
    }

    /// Each in a transaction of its own. Their JSON is made here too.
    pub(crate) fn insert(&mut self, items: &[LogEntry]) {
        let mut insert = self.connection.prepare(INSERT).unwrap();
        for item in items {
            insert.execute((self.rows, serde_json::to_string(item).unwrap())).unwrap();
            self.rows += 1;
        }
    }

    /// All in one.
    pub(crate) fn insert_together(&mut self, items: &[LogEntry]) {
        self.connection.execute_batch("BEGIN").unwrap();
        self.insert(items);
        self.connection.execute_batch("COMMIT").unwrap();
    }

    /// How many there are, their bytes copied.
    pub(crate) fn select(&self) -> usize {
        let mut select =
            self.connection.prepare("SELECT json FROM item WHERE session = 1 ORDER BY at").unwrap();
        let rows: Vec<String> =
            select.query_map((), |row| row.get(0)).unwrap().map(Result::unwrap).collect();
        rows.len()
    }
}
