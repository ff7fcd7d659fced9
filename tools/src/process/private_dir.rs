//! [`PrivateDir`]: a temporary directory for commands, removed even if its owner is killed.
//!
//! The owner holds a lock on the directory, through a descriptor that no command inherits. The
//! kernel releases the lock when the owner dies. Creating a directory removes unlocked ones.

use std::fs::File;
use std::io;
use std::path::Path;

use cap_std::ambient_authority;
use cap_std::fs::Dir;
use tempfile::TempDir;

use super::remove_tree::remove_contents;

/// The prefix of the names.
const PREFIX: &str = "loopwright-commands-";
/// The number of random letters and digits after the prefix.
const RANDOM_CHARS: usize = 12;

/// The maximum number of attempts to create the directory while another process removes it.
const MAX_ATTEMPTS: usize = 16;

/// A directory with `tmp` for temporary files and `home` as the home directory of confined
/// commands. Removed when dropped.
pub(super) struct PrivateDir {
    dir: TempDir,
    /// The lock; `None` if the file system has no locks. Abandoned directories are then not
    /// detected either.
    _lock: Option<File>,
}

impl PrivateDir {
    pub(super) fn create() -> io::Result<Self> {
        Self::create_in(&std::env::temp_dir())
    }

    fn create_in(parent: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        remove_abandoned(parent);
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        builder.prefix(PREFIX).rand_bytes(RANDOM_CHARS);
        // Until the directory is locked, another process may regard it as abandoned and remove it.
        for _ in 0..MAX_ATTEMPTS {
            let dir = builder.tempdir_in(parent)?;
            let Some(lock) = lock(dir.path()) else {
                continue;
            };
            for name in ["tmp", "home"] {
                std::fs::create_dir(dir.path().join(name))?;
            }
            return Ok(PrivateDir { dir, _lock: lock });
        }
        Err(io::Error::other("another process removes each directory created there"))
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

impl Drop for PrivateDir {
    /// Leaves the empty directory to [`TempDir`].
    fn drop(&mut self) {
        let _ = remove_contents_of(self.dir.path());
    }
}

fn remove_contents_of(path: &Path) -> io::Result<()> {
    remove_contents(&Dir::open_ambient_dir(path, ambient_authority())?)
}

/// Locks the directory. Returns `None` if another process has locked or removed it, and
/// `Some(None)` if the file system has no locks.
#[cfg(unix)]
fn lock(path: &Path) -> Option<Option<File>> {
    let file = File::open(path).ok()?;
    match file.try_lock() {
        Ok(()) => path.exists().then_some(Some(file)),
        Err(std::fs::TryLockError::WouldBlock) => None,
        Err(std::fs::TryLockError::Error(_)) => Some(None),
    }
}

#[cfg(not(unix))]
fn lock(_: &Path) -> Option<Option<File>> {
    Some(None)
}

/// Removes this user's directories whose owner is dead.
#[cfg(unix)]
fn remove_abandoned(parent: &Path) {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    let ours = |name: &str| {
        let random = name.strip_prefix(PREFIX);
        random.is_some_and(|random| {
            random.len() == RANDOM_CHARS && random.chars().all(|c| c.is_ascii_alphanumeric())
        })
    };
    for entry in std::fs::read_dir(parent).into_iter().flatten().filter_map(Result::ok) {
        // The metadata of the link itself, not of its target.
        let is_dir =
            || entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user);
        if entry.file_name().to_str().is_some_and(ours)
            && is_dir()
            && let Ok(dir) = File::open(entry.path())
            && dir.try_lock().is_ok()
        {
            let _ = remove_contents_of(&entry.path()); // another process may do the same
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn an_abandoned_directory_is_removed_and_all_others_stay() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        let living = PrivateDir::create_in(parent.path()).unwrap();
        fs::write(living.path().join("tmp/f"), "").unwrap();
        let stale = path("loopwright-commands-aB3dEf6hIj9l");
        fs::create_dir_all(stale.join("tmp/deep")).unwrap();
        fs::write(stale.join("tmp/deep/f"), "").unwrap();
        // Other directories with such a name were created on purpose.
        let others = [
            "loopwright-commands-mine",
            "loopwright-commands-aB3dEf6h-j9l",
            "loopwright-commands-aB3dEf6hIj9lm",
        ];
        others.iter().for_each(|other| fs::create_dir(path(other)).unwrap());
        fs::create_dir_all(path("target/tmp")).unwrap();
        symlink("target", path("loopwright-commands-000000000000")).unwrap();
        fs::write(path("loopwright-commands-111111111111"), "").unwrap();

        let second = PrivateDir::create_in(parent.path()).unwrap();
        assert!(!stale.exists());
        assert!(living.path().join("tmp/f").exists() && second.path().join("home").exists());
        assert!(others.iter().all(|other| path(other).exists()));
        assert!(path("target/tmp").exists() && path("loopwright-commands-111111111111").exists());
        assert_eq!(
            fs::metadata(second.path()).unwrap().permissions().mode() & 0o777,
            0o700,
            "private to this user"
        );
        let gone = living.path().to_owned();
        drop(living);
        assert!(!gone.exists());
    }

    #[test]
    fn many_that_are_created_at_once_do_not_disturb_each_other() {
        let parent = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let private = PrivateDir::create_in(parent.path()).unwrap();
                        assert!(
                            private.path().join("tmp").is_dir()
                                && private.path().join("home").is_dir()
                        );
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
