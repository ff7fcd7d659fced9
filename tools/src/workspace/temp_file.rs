//! [`TempFile`]: a new file that replaces another one once it is complete.
//!
//! A process that is killed while writing leaves its file behind, `.loopwright-N.tmp`. A directory
//! has at most as many of them as it had concurrent writers. A file stays locked while its writer
//! lives, so the next write in the directory removes unlocked files.

use std::cell::Cell;
use std::fs::{File, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::Path;

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, Metadata, OpenOptions};

use super::stamp::file_id;

/// The number of numbered names that are tried before random ones. An abandoned file with a
/// numbered name is found and removed.
const NUMBERED_NAMES: usize = 16;

/// Returns whether a file with this name is a temporary file of this module.
#[cfg(feature = "search")]
pub(super) fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(b".loopwright-") && name.ends_with(b".tmp")
}

/// A file under a temporary name, locked while it is open. Removed when dropped before
/// [`rename_to`](Self::rename_to).
pub(super) struct TempFile<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    /// `true` if the temporary name no longer belongs to this file.
    released: Cell<bool>,
}

impl<'a> TempFile<'a> {
    /// Creates an empty file in `dir`. It has no more permissions than `old`, which it will
    /// replace.
    pub(super) fn create(dir: &'a Dir, old: Option<&Metadata>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if let Some(old) = old {
            use cap_std::fs::{MetadataExt, OpenOptionsExt};
            options.mode(old.mode() & 0o600);
        }
        #[cfg(not(unix))]
        let _ = old;
        let mut number = 0;
        let mut last = None;
        // Removing an abandoned file frees its name, so each name is tried twice.
        for _ in 0..2 * NUMBERED_NAMES {
            let lockable = number < NUMBERED_NAMES;
            let name = match lockable {
                true => numbered_name(number),
                false => format!(".loopwright-{:016x}.tmp", RandomState::new().hash_one(0)),
            };
            let file = match dir.open_with(&name, &options) {
                Ok(file) => file.into_std(),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    number += usize::from(!remove_abandoned(dir, &name));
                    last = Some(e);
                    continue;
                }
                Err(e) => return Err(e),
            };
            let new = TempFile { dir, name, file, released: false.into() };
            match new.file.try_lock() {
                _ if !lockable => return Ok(new),
                Ok(()) if is_name_of(dir, &new.name, &new.file) => return Ok(new),
                // Another writer regarded the file as abandoned before it was locked, and now uses
                // the name.
                Ok(()) | Err(TryLockError::WouldBlock) => new.released.set(true),
                // Without file locks, abandoned files cannot be detected: use a random name.
                Err(TryLockError::Error(_)) => number = NUMBERED_NAMES,
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    /// Gives the file the owner, mode and extended attributes of `old`, the file `name`. Writes the
    /// content, and syncs the file to disk.
    pub(super) fn fill(
        &self,
        content: &[u8],
        name: &Path,
        old: Option<&Metadata>,
    ) -> io::Result<()> {
        if let Some(old) = old {
            self.copy_permissions(name, old)?;
        }
        (&self.file).write_all(content)?;
        self.file.sync_all()
    }

    #[cfg(unix)]
    fn copy_permissions(&self, name: &Path, old: &Metadata) -> io::Result<()> {
        use std::os::unix::fs::{PermissionsExt, fchown};

        use cap_std::fs::MetadataExt;
        // Only root may change the owner. Other users keep the file as their own.
        let _ = fchown(&self.file, Some(old.uid()), Some(old.gid()));
        // An access control list comes first: the group's bits of the mode are its mask.
        let kept = match super::attributes::copy(self.dir, name, &self.file)? {
            // As with any write, set-user-id and similar bits are dropped.
            true => 0o777,
            false => 0o707,
        };
        self.file.set_permissions(Permissions::from_mode(old.mode() & kept))
    }

    #[cfg(not(unix))]
    fn copy_permissions(&self, _: &Path, old: &Metadata) -> io::Result<()> {
        let mut permissions: Permissions = self.file.metadata()?.permissions();
        permissions.set_readonly(old.permissions().readonly());
        self.file.set_permissions(permissions)
    }

    /// Renames the file to `name`, replaces any existing file, and syncs the directory.
    pub(super) fn rename_to(&self, name: &Path) -> io::Result<()> {
        self.dir.rename(&self.name, self.dir, name)?;
        self.released.set(true);
        sync(self.dir);
        Ok(())
    }

    pub(super) fn metadata(&self) -> io::Result<Metadata> {
        Metadata::from_file(&self.file)
    }
}

/// Makes the changes of a directory durable, where directories can be synced.
pub(super) fn sync(dir: &Dir) {
    let _ = dir.open(".").and_then(|dir| dir.sync_all());
}

/// Returns the names under which files that are left over are found and removed.
pub(super) fn numbered_names() -> impl Iterator<Item = String> {
    (0..NUMBERED_NAMES).map(numbered_name)
}

fn numbered_name(number: usize) -> String {
    format!(".loopwright-{number}.tmp")
}

impl Drop for TempFile<'_> {
    fn drop(&mut self) {
        if !self.released.get() {
            let _ = self.dir.remove_file(&self.name);
        }
    }
}

/// Removes the file with this name that a killed writer has left. Returns `false` if its writer is
/// still alive, or if it is not such a file.
fn remove_abandoned(dir: &Dir, name: &str) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    let Ok(file) = dir.open_with(name, &options).map(cap_std::fs::File::into_std) else {
        return false;
    };
    let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    regular
        && file.try_lock().is_ok()
        && is_name_of(dir, name, &file)
        && dir.remove_file(name).is_ok()
}

/// Returns whether `name` is the name of `file`.
fn is_name_of(dir: &Dir, name: &str, file: &File) -> bool {
    match (dir.symlink_metadata(name), Metadata::from_file(file)) {
        (Ok(named), Ok(open)) => file_id(&named) == file_id(&open),
        _ => false,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;

    use super::*;
    use crate::workspace::Workspace;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        (dir, workspace)
    }

    fn names(dir: &tempfile::TempDir) -> Vec<String> {
        let entries = fs::read_dir(dir.path()).unwrap();
        let mut names: Vec<_> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The file is never renamed: the old file stays, and no temporary file is left.
    #[test]
    fn a_write_that_fails_half_way_leaves_no_file() {
        let (outer, workspace) = workspace();
        fs::write(outer.path().join("f"), "old").unwrap();
        let new = TempFile::create(&workspace.root.dir, None).unwrap();
        new.fill(b"half", Path::new("f"), None).unwrap();
        fs::create_dir(outer.path().join("d")).unwrap();
        assert!(new.rename_to(Path::new("d")).is_err());
        assert_eq!(names(&outer), [".loopwright-0.tmp", "d", "f"]);
        drop(new);
        assert_eq!(names(&outer), ["d", "f"]);
        assert_eq!(fs::read_to_string(outer.path().join("f")).unwrap(), "old");
    }

    #[test]
    fn the_file_of_a_killed_writer_is_removed_and_that_of_a_living_one_is_not() {
        let (outer, workspace) = workspace();
        fs::write(outer.path().join(".loopwright-0.tmp"), "left over").unwrap();
        let first = TempFile::create(&workspace.root.dir, None).unwrap();
        let second = TempFile::create(&workspace.root.dir, None).unwrap();
        assert_eq!(
            (first.name.as_str(), second.name.as_str()),
            (".loopwright-0.tmp", ".loopwright-1.tmp")
        );
        second.rename_to(Path::new("g")).unwrap();
        first.rename_to(Path::new("f")).unwrap();
        assert_eq!(names(&outer), ["f", "g"]);
        assert_eq!(fs::read(outer.path().join("f")).unwrap(), b"");
    }
}
