//! The directory that commands have for themselves, and an end to those whose owner was killed.
//!
//! Its owner holds it locked as long as it lives, by a descriptor that no command inherits; the
//! kernel lets go when the owner is gone, however that comes. Whoever makes one removes those that
//! nobody holds.

use std::fs::File;
use std::io;
use std::path::Path;

use tempfile::TempDir;

/// What the names begin with, and how many letters and digits follow.
const NAME: &str = "loopwright-commands-";
const RANDOM: usize = 12;

/// For temporary files (`tmp`), and the home directory of confined commands (`home`). Gone when it
/// is dropped.
pub(super) struct Private {
    dir: TempDir,
    /// None where nothing can be locked; nothing can be taken for left over there either.
    _lock: Option<File>,
}

impl Private {
    pub(super) fn make() -> io::Result<Self> {
        Self::make_in(&std::env::temp_dir())
    }

    fn make_in(place: &Path) -> io::Result<Self> {
        #[cfg(unix)]
        sweep(place);
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o700));
        builder.prefix(NAME).rand_bytes(RANDOM);
        // Until it is locked another process may take it for left over. That is not so every time.
        for _ in 0..16 {
            let dir = builder.tempdir_in(place)?;
            let Some(lock) = lock(dir.path()) else {
                continue;
            };
            for name in ["tmp", "home"] {
                std::fs::create_dir(dir.path().join(name))?;
            }
            return Ok(Private { dir, _lock: lock });
        }
        Err(io::Error::other("another process removes what is made there"))
    }

    pub(super) fn path(&self) -> &Path {
        self.dir.path()
    }
}

/// Locks it, where that can be done. None if another process has it, or has removed it.
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

/// Removes those of this user that nobody holds.
#[cfg(unix)]
fn sweep(place: &Path) {
    use std::os::unix::fs::MetadataExt;
    let user = rustix::process::geteuid().as_raw();
    let ours = |name: &str| {
        let random = name.strip_prefix(NAME);
        random.is_some_and(|random| {
            random.len() == RANDOM && random.chars().all(|c| c.is_ascii_alphanumeric())
        })
    };
    for entry in std::fs::read_dir(place).into_iter().flatten().filter_map(Result::ok) {
        // Of a link this is what the link is, not what it leads to.
        let is_dir =
            || entry.metadata().is_ok_and(|metadata| metadata.is_dir() && metadata.uid() == user);
        if entry.file_name().to_str().is_some_and(ours)
            && is_dir()
            && let Ok(dir) = File::open(entry.path())
            && dir.try_lock().is_ok()
        {
            let _ = std::fs::remove_dir_all(entry.path()); // another process may do the same
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
    fn one_that_nobody_holds_goes_and_all_else_stays() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name);
        let living = Private::make_in(place.path()).unwrap();
        fs::write(living.path().join("tmp/f"), "").unwrap();
        let stale = path("loopwright-commands-aB3dEf6hIj9l");
        fs::create_dir_all(stale.join("tmp/deep")).unwrap();
        fs::write(stale.join("tmp/deep/f"), "").unwrap();
        // Whatever else has such a name, somebody made on purpose.
        let others = [
            "loopwright-commands-mine",
            "loopwright-commands-aB3dEf6h-j9l",
            "loopwright-commands-aB3dEf6hIj9lm",
        ];
        others.iter().for_each(|other| fs::create_dir(path(other)).unwrap());
        fs::create_dir_all(path("elsewhere/tmp")).unwrap();
        symlink("elsewhere", path("loopwright-commands-000000000000")).unwrap();
        fs::write(path("loopwright-commands-111111111111"), "").unwrap();

        let second = Private::make_in(place.path()).unwrap();
        assert!(!stale.exists());
        assert!(living.path().join("tmp/f").exists() && second.path().join("home").exists());
        assert!(others.iter().all(|other| path(other).exists()));
        assert!(
            path("elsewhere/tmp").exists() && path("loopwright-commands-111111111111").exists()
        );
        assert_eq!(
            fs::metadata(second.path()).unwrap().permissions().mode() & 0o777,
            0o700,
            "nobody else looks in"
        );
        let gone = living.path().to_owned();
        drop(living);
        assert!(!gone.exists());
    }

    #[test]
    fn many_that_are_made_at_once_do_not_disturb_each_other() {
        let place = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        let private = Private::make_in(place.path()).unwrap();
                        assert!(
                            private.path().join("tmp").is_dir()
                                && private.path().join("home").is_dir()
                        );
                    }
                });
            }
        });
        assert_eq!(fs::read_dir(place.path()).unwrap().count(), 0);
    }
}
