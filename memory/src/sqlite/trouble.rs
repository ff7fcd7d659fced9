//! What can go wrong, in sentences.

use std::path::Path;

use loopwright_core::log::MemoryError;
use rusqlite::ErrorCode;

/// Why something did not take place.
pub(super) enum Trouble {
    /// It may not be, or what is there is damaged. Found before anything was written.
    Refused(MemoryError),
    /// SQLite could not do it.
    Sqlite(rusqlite::Error),
}

impl From<MemoryError> for Trouble {
    fn from(error: MemoryError) -> Self {
        Trouble::Refused(error)
    }
}

impl From<rusqlite::Error> for Trouble {
    fn from(error: rusqlite::Error) -> Self {
        Trouble::Sqlite(error)
    }
}

impl Trouble {
    /// For the caller.
    pub(super) fn told(self, file: &Path) -> MemoryError {
        match self {
            Trouble::Refused(error) => error,
            Trouble::Sqlite(error) => explain(&error, file),
        }
    }
}

/// What is written of `what` in the file is not what was written.
pub(super) fn damaged(file: &Path, what: &str) -> MemoryError {
    let file = file.display();
    MemoryError::Damaged(format!(
        "{what} in {file} is not as it was written: restore the file from a backup; `sqlite3 {file} .recover` shows what \
         else can be read"
    ))
}

/// `what` in the file is as it was written, and cannot be parsed.
pub(super) fn not_understood(file: &Path, what: &str, why: &str) -> MemoryError {
    let file = file.display();
    MemoryError::Damaged(format!(
        "{what} in {file} is not understood ({why}): update loopwright, a newer version may have written it"
    ))
}

/// What SQLite's error means and what to do.
pub(super) fn explain(error: &rusqlite::Error, file: &Path) -> MemoryError {
    let file = file.display();
    MemoryError::Failed(match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => format!(
            "{file}: another process has been writing to it for {} seconds; nothing was written here: try again, and if \
             that does not help, end the process that has it open",
            super::db::PATIENCE.as_secs()
        ),
        Some(ErrorCode::DiskFull) => {
            format!("{file}: the disk is full; nothing was written: make room and try again")
        }
        Some(ErrorCode::ReadOnly) => {
            format!("{file} must not be written to ({error}): change its permissions")
        }
        Some(
            ErrorCode::CannotOpen
            | ErrorCode::PermissionDenied
            | ErrorCode::AuthorizationForStatementDenied,
        ) => {
            format!(
                "{file} cannot be opened ({error}): see that it is a file that you may read and write"
            )
        }
        Some(ErrorCode::SystemIoFailure | ErrorCode::FileLockingProtocolFailed) => {
            format!(
                "{file} cannot be read or written ({error}); nothing was changed: see that the disk works and has room"
            )
        }
        Some(ErrorCode::NotADatabase) => {
            format!(
                "{file} is no SQLite database, or its beginning is damaged; it was left as it is: give another path for \
                 the store, or restore the file from a backup"
            )
        }
        Some(ErrorCode::DatabaseCorrupt) => {
            return damaged(Path::new(&file.to_string()), &format!("a page ({error})"));
        }
        _ => format!("{file}: {error}"),
    })
}
