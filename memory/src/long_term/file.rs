//! The SQLite file of facts: creating and opening it, and running work on it off the async threads.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use rusqlite::{Connection, OpenFlags, OptionalExtension, Transaction, TransactionBehavior};

use super::error::{FileError, LongTermError};
use crate::lock_holder::LOCK_TIMEOUT;
use crate::private;
use crate::sqlite::connection::locate;
use crate::sqlite::error::{damaged, from_sqlite};
use crate::sqlite::wal::{Checkpoint, checkpoint};

/// The application id in the file's header: `lpwf`.
const APPLICATION_ID: i64 = 0x6c70_7766;
/// The format that is written, and the newest that can be read.
const FORMAT: i64 = 1;

/// The tables.
///
/// - `scope` has the names, how many facts a scope has, and how many of its vectors were removed.
/// - `fact` has the texts; `digest` is the digest of the normalised text.
/// - `vector` has at most one vector for each fact, of length 1, with the id of its embedder.
/// - `word` is the index of words, each with the number of its scope in front.
/// - `applied` has the keys of changes that must be made once, and their results.
/// - `recalled` has the facts that were recalled for the last request of a session, for each set of
///   scopes that a hook uses.
const SCHEMA: &str = r#"
CREATE TABLE scope (id INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, name TEXT NOT NULL,
    facts INTEGER NOT NULL DEFAULT 0, removals INTEGER NOT NULL DEFAULT 0,
    UNIQUE (kind, name)) STRICT;
CREATE TABLE fact (id INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL,
    text TEXT NOT NULL, digest BLOB NOT NULL, created INTEGER NOT NULL,
    refreshed INTEGER NOT NULL, session TEXT, message INTEGER, UNIQUE (scope, digest)) STRICT;
CREATE INDEX fact_of_scope ON fact (scope, id);
CREATE TABLE vector (number INTEGER PRIMARY KEY AUTOINCREMENT, scope INTEGER NOT NULL,
    fact INTEGER NOT NULL UNIQUE, embedder TEXT NOT NULL, data BLOB NOT NULL) STRICT;
CREATE INDEX vector_of_scope ON vector (scope, embedder, number);
CREATE VIRTUAL TABLE word USING fts5(text, content='', columnsize=0,
    tokenize='porter unicode61 remove_diacritics 2');
INSERT INTO word (word, rank) VALUES ('secure-delete', 1);
CREATE TABLE applied (key TEXT PRIMARY KEY, time INTEGER NOT NULL, facts TEXT NOT NULL)
    STRICT, WITHOUT ROWID;
CREATE INDEX applied_by_time ON applied (time);
CREATE TABLE recalled (session TEXT NOT NULL, scopes BLOB NOT NULL, request BLOB NOT NULL,
    time INTEGER NOT NULL, facts TEXT NOT NULL, PRIMARY KEY (session, scopes))
    STRICT, WITHOUT ROWID;
CREATE INDEX recalled_by_time ON recalled (time);
"#;

/// The columns of each table, which must be as in [`SCHEMA`].
const READ_COLUMNS: &str = "SELECT group_concat(name || '(' || (SELECT group_concat(name) \
    FROM pragma_table_info(s.name)) || ')' ORDER BY name) FROM sqlite_schema AS s \
    WHERE type = 'table' AND name IN ('scope', 'fact', 'vector', 'word', 'applied', 'recalled')";
const COLUMNS: &str = "applied(key,time,facts),\
    fact(id,scope,text,digest,created,refreshed,session,message),\
    recalled(session,scopes,request,time,facts),scope(id,kind,name,facts,removals),\
    vector(number,scope,fact,embedder,data),word(text)";

/// Maximum number of idle connections for readers.
const MAX_IDLE_CONNECTIONS: usize = 4;

/// An open file. Clones share it.
#[derive(Clone)]
pub(super) struct File(Arc<Shared>);

struct Shared {
    path: PathBuf,
    writer: Mutex<Writer>,
    idle: Mutex<Vec<Connection>>,
}

struct Writer {
    connection: Connection,
    /// The write-ahead log may have data that was deleted.
    keeps_deleted: bool,
}

impl File {
    /// Opens the file, creating it if it is missing, and runs `clean` on it.
    pub(super) fn open(
        path: &Path,
        clean: impl FnOnce(&Connection) -> rusqlite::Result<()>,
    ) -> Result<Self, MemoryError> {
        let path = locate(path)?;
        create_empty(&path)?;
        let writer = connect(&path)?;
        prepare(&writer, &path)?;
        clean(&writer).map_err(|error| from_sqlite(error, &path))?;
        let mut writer = Writer { connection: writer, keeps_deleted: false };
        // The process that last deleted something may have failed to empty the log.
        writer.empty_log_now().map_err(|error| from_sqlite(error, &path))?;
        let shared = Shared { path, writer: Mutex::new(writer), idle: Mutex::default() };
        Ok(File(Arc::new(shared)))
    }

    /// Runs `write` in a transaction, on a blocking thread. It takes place even if this future is
    /// dropped. Also retries to empty the log if that failed after a deletion.
    pub(super) async fn write<T: Send + 'static>(
        &self,
        write: impl FnOnce(&Connection) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, LongTermError> {
        self.run(move |shared| {
            let mut writer = lock(&shared.writer);
            let done = transact(&writer.connection, write)?;
            if writer.keeps_deleted {
                writer.empty_log_now()?;
            }
            Ok(done)
        })
        .await
    }

    /// Runs `delete` like [`File::write`], and then removes the deleted data from the write-ahead
    /// log too. Both take place even if this future is dropped.
    pub(super) async fn delete<T: Send + 'static>(
        &self,
        delete: impl FnOnce(&Connection) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, LongTermError> {
        self.run(move |shared| {
            let mut writer = lock(&shared.writer);
            let deleted = transact(&writer.connection, delete)?;
            writer.empty_log();
            if writer.keeps_deleted {
                let file = shared.path.display();
                tracing::warn!(
                    "deleted facts may be in the write-ahead log of {file} until the next write"
                );
            }
            Ok(deleted)
        })
        .await
    }

    /// Runs `read` on a snapshot of the file, on a blocking thread.
    pub(super) async fn read<T: Send + 'static>(
        &self,
        read: impl FnOnce(&Connection) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, LongTermError> {
        self.run(move |shared| {
            let idle = lock(&shared.idle).pop();
            let connection = idle.map_or_else(|| connect(&shared.path), Ok);
            let connection = connection.map_err(LongTermError::from)?;
            let transaction = connection.unchecked_transaction()?;
            let result = read(&transaction);
            drop(transaction);
            let mut idle = lock(&shared.idle);
            if idle.len() < MAX_IDLE_CONNECTIONS {
                idle.push(connection);
            }
            result
        })
        .await
    }

    async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Shared) -> Result<T, FileError> + Send + 'static,
    ) -> Result<T, LongTermError> {
        let shared = self.0.clone();
        let work = move || work(&shared).map_err(|error| error.into_error(&shared.path));
        tokio::task::spawn_blocking(work).await.unwrap_or_else(|error| {
            let why = format!("{} cannot be used: {error}", self.0.path.display());
            Err(MemoryError::Failed(Failure::new(why).with_source(error)).into())
        })
    }
}

impl Writer {
    /// Empties the write-ahead log if no reader needs it.
    fn empty_log_now(&mut self) -> rusqlite::Result<()> {
        self.connection.busy_timeout(Duration::ZERO)?;
        self.empty_log();
        self.connection.busy_timeout(LOCK_TIMEOUT)
    }

    /// Empties the write-ahead log, after waiting for readers for up to [`LOCK_TIMEOUT`].
    fn empty_log(&mut self) {
        self.keeps_deleted =
            !matches!(checkpoint(&self.connection, Checkpoint::Truncate), Ok(true));
    }
}

/// Runs `write` in a transaction.
fn transact<T>(
    writer: &Connection,
    write: impl FnOnce(&Connection) -> Result<T, FileError>,
) -> Result<T, FileError> {
    let tx = Transaction::new_unchecked(writer, TransactionBehavior::Immediate)?;
    let done = write(&tx)?;
    tx.commit()?;
    Ok(done)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Creates an empty file that only the user may access, unless the file exists.
fn create_empty(path: &Path) -> Result<(), MemoryError> {
    let mut options = private::file();
    let created = options.create(true).append(true).open(path);
    created.map(drop).map_err(|error| {
        let why = format!("{} cannot be opened: {error}", path.display());
        MemoryError::Failed(Failure::new(why).with_source(error))
    })
}

/// Connects to the file without changing it.
fn connect(path: &Path) -> Result<Connection, MemoryError> {
    let failed = |error| from_sqlite(error, path);
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    let set_up = || {
        connection.busy_timeout(LOCK_TIMEOUT)?;
        connection.pragma_update(None, "secure_delete", true)?; // overwrites deleted data
        connection.pragma_update(None, "synchronous", "FULL")?;
        connection.pragma_update(None, "fullfsync", true)?; // where fsync alone does not suffice
        connection.pragma_update(None, "trusted_schema", false)
    };
    set_up().map_err(failed)?;
    Ok(connection)
}

/// Creates the tables in an empty file, or checks that the file has facts. Other files are left
/// untouched.
fn prepare(connection: &Connection, path: &Path) -> Result<(), MemoryError> {
    let failed = |error| from_sqlite(error, path);
    let has_tables = "SELECT 1 FROM sqlite_schema LIMIT 1";
    let is_empty = |connection: &Connection| {
        let first = connection.query_row(has_tables, (), |row| row.get::<_, i64>(0)).optional()?;
        Ok(first.is_none() && number(connection, "application_id")? == 0)
    };
    if is_empty(connection).map_err(failed)? {
        let create = || {
            connection.pragma_update(None, "journal_mode", "WAL")?;
            let tx = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)?;
            if is_empty(&tx)? {
                tx.pragma_update(None, "application_id", APPLICATION_ID)?;
                tx.pragma_update(None, "user_version", FORMAT)?;
                tx.execute_batch(SCHEMA)?;
            }
            tx.commit()
        };
        create().map_err(failed)?;
    }
    check(connection, path)
}

fn number(connection: &Connection, pragma: &str) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, pragma, |row| row.get(0))
}

/// Checks that the file has facts, in a known format.
fn check(connection: &Connection, path: &Path) -> Result<(), MemoryError> {
    let failed = |error| from_sqlite(error, path);
    if number(connection, "application_id").map_err(failed)? != APPLICATION_ID {
        return Err(MemoryError::Failed(
            format!(
                "{} is no long-term memory of loopwright, and was left untouched: give another \
                 path for the facts",
                path.display()
            )
            .into(),
        ));
    }
    let format = number(connection, "user_version").map_err(failed)?;
    if format > FORMAT {
        return Err(MemoryError::Newer {
            source_name: path.display().to_string(),
            found: format as u64,
            known: FORMAT as u64,
        });
    }
    let columns: Option<String> =
        connection.query_row(READ_COLUMNS, (), |row| row.get(0)).map_err(failed)?;
    if format < FORMAT || columns.as_deref() != Some(COLUMNS) {
        return Err(damaged(path, "the list of tables"));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
