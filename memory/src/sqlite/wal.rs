//! SQLite's write-ahead log, the `-wal` file: committed data that is not yet in the store's file.

use std::fs::File;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use loopwright_core::error::Failure;
use rusqlite::{Connection, ErrorCode, Statement, Transaction, TransactionBehavior, ffi};

use crate::{private, rewrite};

/// The number of pages in the log from which on they are moved to the store's file.
const MAX_PAGES: i64 = 1000;

/// The number of pages from which on a commit waits for readers, so that the log starts again.
/// Otherwise, readers that always overlap would let it grow without bound.
const TOO_MANY_PAGES: i64 = 4 * MAX_PAGES;

/// Timeout of that wait. Readers of a store take a few milliseconds.
pub(super) const RESTART_TIMEOUT: Duration = Duration::from_millis(50);

/// The timeout of one attempt. SQLite keeps waiting for a reader's slot even after another reader
/// that does not block it has taken the slot; a new attempt notices that.
const RESTART_ATTEMPT: Duration = Duration::from_millis(10);

/// Query of the number of pages in the log, which is in the second column.
pub(super) const COUNT_PAGES: &str = "PRAGMA wal_checkpoint(NOOP)";

/// The pages to move from the log to the store's file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Checkpoint {
    /// Pages that no reader needs.
    Passive,
    /// All pages; then the log starts again. Waits for readers up to this timeout, and nothing can
    /// be written meanwhile. Only for the writer's connection, which waits for nothing else.
    Restart(Duration),
    /// All pages; then the log is emptied.
    Truncate,
}

/// Moves pages from the log to the store's file. Returns `false` if some must stay, since another
/// connection uses them.
pub(crate) fn checkpoint(connection: &Connection, mode: Checkpoint) -> rusqlite::Result<bool> {
    let sql = match mode {
        Checkpoint::Passive => "PRAGMA wal_checkpoint(PASSIVE)",
        Checkpoint::Truncate => "PRAGMA wal_checkpoint(TRUNCATE)",
        Checkpoint::Restart(timeout) => {
            let started = Instant::now();
            connection.busy_timeout(RESTART_ATTEMPT.min(timeout))?;
            let restarted = loop {
                let restarted = run_checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)");
                if restarted != Ok(false) || started.elapsed() >= timeout {
                    break restarted;
                }
            };
            connection.busy_timeout(Duration::ZERO)?;
            return restarted;
        }
    };
    run_checkpoint(connection, sql)
}

fn run_checkpoint(connection: &Connection, sql: &str) -> rusqlite::Result<bool> {
    match connection.query_row(sql, (), |row| row.get::<_, i64>(0)) {
        Ok(busy) => Ok(busy == 0),
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => Ok(false),
        Err(error) => Err(error),
    }
}

/// Returns the checkpoint to run, if the log has many pages, with a [`COUNT_PAGES`] statement. A
/// restart waits for readers until the timeout.
pub(super) fn due(
    count_pages: &mut Statement<'_>,
    restart_timeout: Duration,
) -> rusqlite::Result<Option<Checkpoint>> {
    Ok(match count_pages.query_row((), |row| row.get::<_, i64>(1))? {
        TOO_MANY_PAGES.. => Some(Checkpoint::Restart(restart_timeout)),
        MAX_PAGES.. => Some(Checkpoint::Passive),
        _ => None,
    })
}

/// Returns `true` if this error means that data may not have reached the disk.
pub(super) fn is_flush_failure(error: &rusqlite::Error) -> bool {
    let code = error.sqlite_error().map(|error| error.extended_code);
    matches!(code, Some(ffi::SQLITE_IOERR_FSYNC | ffi::SQLITE_IOERR_DIR_FSYNC))
}

/// Flushes the log of a store to disk.
pub(super) fn flush(store: &Path) -> io::Result<()> {
    match open(store) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        file => file?.sync_data(),
    }
}

/// Rewrites the log after a failed flush, so that the next flush includes all of it.
///
/// The store's file needs no such care: its pages stay in the log until a flush of the file has
/// succeeded.
pub(super) fn rewrite(connection: &Connection, store: &Path) -> Result<(), Failure> {
    // Keeps other processes from appending meanwhile.
    let lock = Transaction::new_unchecked(connection, TransactionBehavior::Immediate)
        .map_err(|error| Failure::new(error.to_string()).with_source(error))?;
    let rewritten = open(store).and_then(|file| rewrite::rewrite(&file));
    drop(lock);
    rewritten.map_err(|error| Failure::new(error.to_string()).with_source(error))
}

fn open(store: &Path) -> io::Result<File> {
    let mut path = store.as_os_str().to_owned();
    path.push("-wal");
    private::file().read(true).write(true).open(PathBuf::from(path))
}
