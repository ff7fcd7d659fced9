//! The states of files, for recognising changes.

use std::collections::hash_map::DefaultHasher;
use std::fs::Metadata;
use std::hash::{Hash, Hasher};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::find::{IN_BARE, MAX_ENTRIES};

/// Returns a number that changes with the file, or with any file in the directory. With
/// `only_itself`, the contents of a directory do not count.
pub(super) fn state(path: &Path, only_itself: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut pending = vec![path.to_owned()];
    let mut left = MAX_ENTRIES;
    while let Some(path) = pending.pop() {
        // A link counts together with its target.
        let metadata = [path.symlink_metadata(), path.metadata()];
        for metadata in metadata.iter().flatten() {
            (id(metadata), metadata.mode()).hash(&mut hasher);
            if !(metadata.is_dir() && only_itself) {
                (metadata.len(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
            }
            if !metadata.is_dir() {
                (metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
            }
        }
        if only_itself || !metadata[0].as_ref().is_ok_and(Metadata::is_dir) {
            continue;
        }
        let entries = std::fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok);
        let mut entries: Vec<PathBuf> = entries.take(left).map(|entry| entry.path()).collect();
        entries.sort();
        entries.hash(&mut hasher);
        left -= entries.len();
        pending.extend(entries);
    }
    hasher.finish()
}

/// Returns a number that changes if the directory becomes another repository, or if git would obey
/// something else in it.
pub(super) fn repository_state(repository: &Path) -> u64 {
    let mut hasher = DefaultHasher::new();
    repository.metadata().ok().as_ref().map(id).hash(&mut hasher);
    for name in IN_BARE {
        state(&repository.join(name), false).hash(&mut hasher);
    }
    hasher.finish()
}

/// Returns the identity of a file.
fn id(metadata: &std::fs::Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
