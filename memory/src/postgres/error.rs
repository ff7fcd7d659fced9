//! Errors of a store: refusals, and errors of PostgreSQL or the network.

use std::error::Error as _;

use deadpool_postgres::PoolError;
use loopwright_core::error::Failure;
use loopwright_core::log::MemoryError;
use tokio_postgres::error::SqlState;

/// The error of a change or a query.
#[derive(Debug)]
pub(super) enum StoreError {
    /// The operation is refused. Nothing was changed.
    Refused(MemoryError),
    /// PostgreSQL reports an error, or cannot be reached.
    Postgres(tokio_postgres::Error),
    /// No connection became available.
    NoConnection(String),
    /// The store's thread has ended, or the operation has panicked.
    Closed,
}

impl StoreError {
    /// Returns whether the same operation may succeed on another connection.
    pub(super) fn is_transient(&self) -> bool {
        match self {
            StoreError::Refused(_) | StoreError::Closed => false,
            StoreError::NoConnection(_) => true,
            StoreError::Postgres(error) => match error.code() {
                Some(code) => {
                    let code = code.code();
                    // Connections; a shutdown, a crash or a start of the server; conflicts with
                    // other transactions; a server that has become a standby; too many connections.
                    code.starts_with("08")
                        || code.starts_with("57P")
                        || code.starts_with("40")
                        || code == "25P03" // an idle transaction was ended
                        || [SqlState::READ_ONLY_SQL_TRANSACTION, SqlState::TOO_MANY_CONNECTIONS]
                            .iter()
                            .any(|transient| transient.code() == code)
                }
                None => error.is_closed() || has_io_error(error),
            },
        }
    }

    /// Returns whether the server has refused a statement, without writing any of it.
    pub(super) fn is_refusal(&self) -> bool {
        match self {
            StoreError::Postgres(error) => error.code().is_some_and(|code| {
                !code.code().starts_with("08") && !code.code().starts_with("57P")
            }),
            _ => false,
        }
    }

    /// Returns the error for the caller. `server` is the address for the message.
    pub(super) fn into_memory_error(self, server: &str) -> MemoryError {
        let is_transient = self.is_transient();
        match self {
            StoreError::Refused(error) => error,
            StoreError::Postgres(error) => {
                let mut why = format!("{server}: {}", describe(&error));
                if is_transient {
                    why += "; check that the server runs and can be reached";
                }
                MemoryError::Failed(Failure::new(why).with_source(error))
            }
            StoreError::NoConnection(why) => {
                let advice = "check that the server runs, or allow the store more connections";
                MemoryError::Failed(format!("{server}: {why}; {advice}").into())
            }
            StoreError::Closed => {
                let why = "the operation was cut off: the store has ended, or it has a defect";
                MemoryError::Failed(format!("{server}: {why}; connect again").into())
            }
        }
    }
}

impl From<MemoryError> for StoreError {
    fn from(error: MemoryError) -> Self {
        StoreError::Refused(error)
    }
}

impl From<tokio_postgres::Error> for StoreError {
    fn from(error: tokio_postgres::Error) -> Self {
        StoreError::Postgres(error)
    }
}

impl From<PoolError> for StoreError {
    fn from(error: PoolError) -> Self {
        match error {
            PoolError::Backend(error) => StoreError::Postgres(error),
            other => StoreError::NoConnection(other.to_string()),
        }
    }
}

/// Returns the message of PostgreSQL, or the client's error with all its sources.
fn describe(error: &tokio_postgres::Error) -> String {
    if let Some(reported) = error.as_db_error() {
        let mut text = format!("{} ({})", reported.message(), reported.code().code());
        for more in [reported.detail(), reported.hint()].into_iter().flatten() {
            text += ": ";
            text += more;
        }
        return text;
    }
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let more = error.to_string();
        if !text.contains(&more) {
            text += ": ";
            text += &more;
        }
        source = error.source();
    }
    text
}

fn has_io_error(error: &tokio_postgres::Error) -> bool {
    let mut source = error.source();
    while let Some(error) = source {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            // Another attempt cannot mend an untrusted certificate or an overlong value.
            let kinds = [std::io::ErrorKind::InvalidData, std::io::ErrorKind::InvalidInput];
            return !kinds.contains(&error.kind());
        }
        source = error.source();
    }
    false
}

/// Returns the error for stored data that cannot be read.
pub(super) fn not_understood(what: &str, why: &str) -> StoreError {
    let why = format!("{what} in the database cannot be understood: {why}");
    MemoryError::Damaged(Failure::new(why)).into()
}

/// Returns the error for stored data that is missing.
pub(super) fn missing(what: &str) -> StoreError {
    let why = format!("{what} is missing in the database: restore it from a backup");
    MemoryError::Damaged(Failure::new(why)).into()
}
