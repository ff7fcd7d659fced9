//! [`CassetteError`]: the error of an unusable cassette or a diverging replay.

use std::fmt;
use std::path::Path;

/// The error of an unusable cassette or a diverging replay.
///
/// `Display` writes the difference as a diff of several lines. `Debug` writes the same text, so
/// that a test that fails with `unwrap` or `?` shows it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CassetteError {
    kind: CassetteErrorKind,
    text: String,
}

/// The kind of a [`CassetteError`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CassetteErrorKind {
    /// The file cannot be read or written, exists already, or is not a complete cassette of a
    /// supported version.
    File,
    /// The agent sent a request or made a call that the cassette lacks.
    Diverged,
    /// The agent did not send every request and make every call of the cassette.
    NotReplayed,
}

impl CassetteError {
    /// Returns the kind of the error.
    pub fn kind(&self) -> CassetteErrorKind {
        self.kind
    }

    /// Builds an error of the file `path`; `why` continues a sentence that begins with its name.
    pub(super) fn file(path: &Path, why: impl fmt::Display) -> Self {
        let text = format!("the cassette {} {why}", path.display());
        CassetteError { kind: CassetteErrorKind::File, text }
    }

    pub(super) fn diverged(text: String) -> Self {
        CassetteError { kind: CassetteErrorKind::Diverged, text }
    }

    pub(super) fn not_replayed(text: String) -> Self {
        CassetteError { kind: CassetteErrorKind::NotReplayed, text }
    }
}

impl fmt::Debug for CassetteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
