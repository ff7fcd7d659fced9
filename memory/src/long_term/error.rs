//! [`LongTermError`]: the reasons why facts cannot be stored or found.

use std::path::Path;

use loopwright_core::log::MemoryError;
use loopwright_core::model::ModelError;
use loopwright_core::retrieval::RetrievalError;

use crate::sqlite::error::from_sqlite;

/// Maximum length of a fact's text, in bytes of UTF-8.
pub const MAX_FACT_BYTES: usize = 4096;

/// The error of an operation of [`LongTerm`](super::LongTerm). Nothing was changed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LongTermError {
    /// The file cannot be read or written.
    #[error(transparent)]
    Store(#[from] MemoryError),
    /// The embedder failed.
    #[error(transparent)]
    Embedder(#[from] RetrievalError),
    /// The model that distils facts failed.
    #[error(transparent)]
    Model(#[from] ModelError),
    /// The reply of the model that distils facts cannot be read.
    #[error("the model did not reply with facts: {0}: try again, or use another model")]
    Reply(String),
    /// The text is longer than [`MAX_FACT_BYTES`].
    #[error(
        "the fact has {bytes} bytes, and at most {MAX_FACT_BYTES} are stored: shorten it, or split \
         it into several"
    )]
    TooLong {
        /// The length of the text in bytes.
        bytes: usize,
    },
    /// The text has no letter and no digit.
    #[error("the fact is empty: give it a text")]
    Empty,
    /// The name of a scope is empty.
    #[error("the scope has no name: give the name of the user, the agent or the project")]
    Unnamed,
    /// A line of an import is not a fact.
    #[error("line {line} of the import cannot be read: {why}")]
    Import {
        /// The number of the line, from 1.
        line: usize,
        /// The reason why it is invalid.
        why: String,
    },
}

/// The error of work on the file.
pub(super) enum FileError {
    /// The operation was refused.
    Refused(LongTermError),
    /// SQLite failed.
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for FileError {
    fn from(error: rusqlite::Error) -> Self {
        FileError::Sqlite(error)
    }
}

impl From<LongTermError> for FileError {
    fn from(error: LongTermError) -> Self {
        FileError::Refused(error)
    }
}

impl FileError {
    /// Converts the error for the caller.
    pub(super) fn into_error(self, file: &Path) -> LongTermError {
        match self {
            FileError::Refused(error) => error,
            FileError::Sqlite(error) => from_sqlite(error, file).into(),
        }
    }
}
