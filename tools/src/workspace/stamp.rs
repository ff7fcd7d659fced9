//! [`Stamp`]: by what a file is known to be as it was; [`Seen`]: the files as they were last read.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;

/// A file as it was at a moment: which one, how long, and when it was changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: Option<SystemTime>,
    /// Changed with every change of content or mode, and not to be set back. Seconds, nanoseconds.
    changed: (i64, i64),
}

impl Stamp {
    pub(super) fn of(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        let changed = {
            use cap_std::fs::MetadataExt;
            (metadata.ctime(), metadata.ctime_nsec())
        };
        #[cfg(not(unix))]
        let changed = (0, 0);
        Stamp {
            file: (MetadataExt::dev(metadata), MetadataExt::ino(metadata)),
            size: metadata.len(),
            modified: metadata.modified().ok().map(cap_std::time::SystemTime::into_std),
            changed,
        }
    }
}

/// The files of one workspace as its tools last read or wrote them, by their place in it.
#[derive(Default)]
pub(super) struct Seen(Mutex<HashMap<PathBuf, Stamp>>);

impl Seen {
    pub(super) fn note(&self, place: PathBuf, stamp: Stamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(place, stamp);
    }

    pub(super) fn forget(&self, place: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(place);
    }

    pub(super) fn last(&self, place: &Path) -> Option<Stamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(place).copied()
    }
}
