//! The errors of the SQLite store, with advice for the user.

use std::path::{Path, PathBuf};

use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use rusqlite::ErrorCode;

use crate::lock_holder::{self, LOCK_TIMEOUT};

/// The reason why a read or a write failed.
pub(super) enum StoreError {
    /// The operation is not allowed, or the stored data is damaged. Nothing was written.
    Refused(MemoryError),
    /// SQLite failed.
    Sqlite(rusqlite::Error),
}

impl From<MemoryError> for StoreError {
    fn from(error: MemoryError) -> Self {
        StoreError::Refused(error)
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        StoreError::Sqlite(error)
    }
}

impl StoreError {
    /// Converts the error for the caller of the store.
    pub(super) fn into_memory_error(self, file: &Path) -> MemoryError {
        match self {
            StoreError::Refused(error) => error,
            StoreError::Sqlite(error) => from_sqlite(error, file),
        }
    }
}

/// Returns the error for stored data that does not match its checksum.
pub(crate) fn damaged(file: &Path, what: &str) -> MemoryError {
    let file = file.display();
    MemoryError::Damaged(format!(
        "{what} in {file} is damaged: restore the file from a backup; `sqlite3 {file} .recover` \
         shows what else can be read"
    ).into())
}

/// Returns the error for stored data that matches its checksum but cannot be parsed.
pub(super) fn not_understood(file: &Path, what: &str, why: &str) -> MemoryError {
    let file = file.display();
    MemoryError::Damaged(format!(
        "{what} in {file} is not understood ({why}): update loopwright, a newer version may have \
         written it"
    ).into())
}

/// Returns the error after a failed flush. The content of the disk is unknown.
pub(super) fn not_flushed(file: &Path, why: &str) -> MemoryError {
    let file = file.display();
    MemoryError::Failed(format!(
        "{file} cannot be flushed to disk ({why}), so the last changes may not be on disk: check \
         the disk; no more is written until the store is opened again"
    ).into())
}

/// Returns the path of the file in which processes lock the store's write-ahead log, and the byte
/// of the lock for writing.
pub(super) fn write_lock(file: &Path) -> (PathBuf, u64) {
    let mut path = file.as_os_str().to_owned();
    path.push("-shm");
    (path.into(), 120)
}

/// Converts an error of SQLite, with its meaning and advice.
pub(crate) fn from_sqlite(error: rusqlite::Error, path: &Path) -> MemoryError {
    let file = path.display();
    let why = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
            let (lock, _) = write_lock(path);
            let advice = lock_holder::advice(&lock, None, LOCK_TIMEOUT).unwrap_or_default();
            format!("{file} is in use: {advice}")
        }
        Some(ErrorCode::DiskFull) => {
            format!("{file}: the disk is full; nothing was written: make room and try again")
        }
        Some(ErrorCode::ReadOnly) => {
            format!("{file} is not writable ({error}): change its permissions")
        }
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::AuthorizationForStatementDenied,
        ) => format!(
            "{file} cannot be opened ({error}): check that it is a file that you may read and write"
        ),
        Some(ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed) => format!(
            "{file} cannot be read or written ({error}); nothing was changed: check that the disk \
             works and has room"
        ),
        Some(ErrorCode::NotADatabase) => format!(
            "{file} is no SQLite database, or its first page is damaged; the file was left \
             untouched: give another path for the store, or restore the file from a backup"
        ),
        Some(ErrorCode::DatabaseCorrupt) => return damaged(path, &format!("a page ({error})")),
        _ => format!("{file}: {error}"),
    };
    MemoryError::Failed(Failure::new(why).with_source(error))
}
