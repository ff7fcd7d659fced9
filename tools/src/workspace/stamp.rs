//! [`Stamp`], the state of a file, and [`ReadStamps`], the states that were last read.

use std::collections::HashMap;
use std::path::{Component, Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::SystemTime;

use cap_fs_ext::MetadataExt;
use cap_std::fs::Metadata;

/// The state of a file at one time: its identity, its size, and the time of its last change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stamp {
    file: (u64, u64),
    size: u64,
    modified: Option<SystemTime>,
    /// The time of the last change of content or mode, in seconds and nanoseconds. Programs cannot
    /// set it back.
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
            file: file_id(metadata),
            size: metadata.len(),
            modified: metadata.modified().ok().map(cap_std::time::SystemTime::into_std),
            changed,
        }
    }
}

/// Returns the device and inode numbers of a file.
pub(super) fn file_id(metadata: &Metadata) -> (u64, u64) {
    (MetadataExt::dev(metadata), MetadataExt::ino(metadata))
}

/// Returns the path without `.` components: the form of the keys of [`ReadStamps`].
pub(super) fn normalized(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
}

/// The states in which a workspace's tools last read or wrote files, by normalized path.
#[derive(Default)]
pub(super) struct ReadStamps(Mutex<HashMap<PathBuf, Stamp>>);

impl ReadStamps {
    pub(super) fn record(&self, file: PathBuf, stamp: Stamp) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(file, stamp);
    }

    pub(super) fn forget(&self, file: &Path) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(file);
    }

    pub(super) fn get(&self, file: &Path) -> Option<Stamp> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(file).copied()
    }
}
