//! [`CassetteError`]: why a cassette cannot be used, or where a replay diverges from it.

use std::fmt;
use std::path::Path;

/// Describes why a cassette cannot be used, or where a replay diverges from it.
///
/// `Display` writes what differs as a diff of several lines, and `Debug` writes the same text, so
/// that a test that fails with `unwrap` or `?` shows it.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct CassetteError {
    kind: CassetteErrorKind,
    text: String,
}

/// Says what is wrong with a cassette or with its replay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum CassetteErrorKind {
    /// The file cannot be read or written, exists already, or is not a whole cassette of a version
    /// that this program reads.
    File,
    /// The agent did something that the cassette does not have.
    Diverged,
    /// The agent did not do everything that the cassette has.
    NotReplayed,
}

impl CassetteError {
    /// Returns what is wrong.
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
