//! Putting a file in its place, all or nothing: [`Workspace::write`].
//!
//! The content goes to a new file in the same directory, is made durable, and is renamed. A process
//! that is killed meanwhile leaves that file behind, `.loopwright-N.tmp`: at most as many in a
//! directory as writers were at work in it at once. While its writer lives, the file is locked; the
//! next write in the directory removes one that nobody holds.

use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Component, Path, PathBuf};

use cap_fs_ext::{FollowSymlinks, MetadataExt, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{Dir, Metadata, OpenOptions};

use super::{NAME_A_FILE, Result, Stamp, Workspace, regular};
use crate::error::{WorkspaceError, shown};

impl Workspace {
    /// Puts `content` in the place of the file, or of nothing; gives the size of what was there.
    ///
    /// All or nothing: it is written to a new file beside it, made durable, and renamed. Missing
    /// parent directories are made. A file that was there leaves its mode; a symbolic link stays
    /// one. One that is no longer as `before` says, or as it was read if the workspace is guarded,
    /// is left alone.
    pub(crate) fn write(
        &self,
        path: &str,
        content: &[u8],
        before: Option<Stamp>,
    ) -> Result<Option<u64>> {
        let fail = |e: io::Error| self.error(path, "written", &e);
        let (target, old) = self.place(path)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(WorkspaceError::Kind {
                path: shown(path),
                what: "a directory",
                hint: NAME_A_FILE,
            });
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        // With `..` in it, half of the way could be made before the rest is refused.
        if old.is_none() && !parent.components().any(|part| part == Component::ParentDir) {
            self.root.dir.create_dir_all(parent).map_err(fail)?;
        }
        let dir = self.root.dir.open_dir(parent).map_err(fail)?;
        let new = NewFile::create(&dir, old.as_ref()).map_err(fail)?;
        new.fill(content, old.as_ref()).map_err(fail)?;
        // Looked at as late as can be: between this and the rename nobody else writes for long.
        let known = self.seen.as_ref().and_then(|seen| seen.last(&super::plain(&target)));
        for (stamp, since) in [(before, "it was read for this edit"), (known, "it was last read")] {
            let Some(stamp) = stamp else { continue };
            let is_same = match dir.symlink_metadata(name) {
                Ok(metadata) => stamp == Stamp::of(&metadata),
                // Of a file that is gone nothing can be lost, unless an edit would bring the old
                // text back.
                Err(e) => e.kind() == io::ErrorKind::NotFound && before.is_none(),
            };
            if !is_same {
                return Err(WorkspaceError::Changed { path: shown(path), since });
            }
        }
        new.put(Path::new(name)).map_err(fail)?;
        if let (Some(seen), Ok(metadata)) = (&self.seen, Metadata::from_file(&new.file)) {
            seen.note(super::plain(&target), Stamp::of(&metadata));
        }
        Ok(old.map(|metadata| metadata.len()))
    }

    /// Whether the file is there, if writing it could succeed: as [`Workspace::write`] finds it,
    /// and nothing is made.
    pub(crate) fn could_write(&self, path: &str) -> Result<bool> {
        let fail = |e: io::Error| self.error(path, "written", &e);
        let (target, old) = self.place(path)?;
        let parent = target.parent().unwrap_or(Path::new(""));
        let turns_back = parent.components().any(|part| part == Component::ParentDir);
        for above in parent.ancestors().filter(|above| !above.as_os_str().is_empty()) {
            match self.root.dir.open_dir(above) {
                Ok(_) => break,
                // It would be made.
                Err(e) if e.kind() == io::ErrorKind::NotFound && old.is_none() && !turns_back => {}
                Err(e) => return Err(fail(e)),
            }
        }
        Ok(old.is_some())
    }

    /// Where writing this path ends up, and the file that is there.
    fn place(&self, path: &str) -> Result<(PathBuf, Option<Metadata>)> {
        let asked = self.inside(path)?;
        if matches!(path.rsplit('/').next(), Some("" | "." | "..")) {
            return Err(WorkspaceError::Kind {
                path: shown(path),
                what: "a directory's name",
                hint: NAME_A_FILE,
            });
        }
        self.target(path, asked)
    }

    /// Where writing `asked` ends up once symbolic links are followed, and the file that is there.
    fn target(&self, path: &str, asked: PathBuf) -> Result<(PathBuf, Option<Metadata>)> {
        let fail = |e: io::Error| self.error(path, "written", &e);
        let mut last = io::ErrorKind::NotFound.into();
        // Someone else may put a file in its place meanwhile: then it is looked at again.
        for _ in 0..16 {
            match self.root.dir.canonicalize(&asked) {
                Ok(real) => match (self.root.dir.metadata(&real), self.root.dir.metadata(&asked)) {
                    (Ok(metadata), Ok(same)) if id(&metadata) == id(&same) => {
                        regular(path, &metadata)?;
                        if metadata.permissions().readonly() {
                            let hint = "it was protected on purpose; ask the user before changing its mode";
                            return Err(WorkspaceError::Kind {
                                path: shown(path),
                                what: "a read-only file",
                                hint,
                            });
                        }
                        return Ok((real, Some(metadata)));
                    }
                    (Err(e), _) | (_, Err(e)) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(fail(e));
                    }
                    _ => {}
                },
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    match self.root.dir.symlink_metadata(&asked) {
                        Ok(metadata) if metadata.is_symlink() => {
                            let (what, hint) = (
                                "a symbolic link to nothing",
                                "write to the path that it points to",
                            );
                            return Err(WorkspaceError::Kind { path: shown(path), what, hint });
                        }
                        Ok(_) => last = e,
                        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((asked, None)),
                        Err(e) => return Err(fail(e)),
                    }
                }
                Err(e) => return Err(fail(e)),
            }
        }
        Err(fail(last))
    }
}

/// Which file it is.
fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

/// Names that are tried first, one after the other; they are found again after a crash.
const SLOTS: usize = 16;

/// Whether a file of this name is one of ours that has no place yet.
#[cfg(feature = "search")]
pub(super) fn is_temporary(name: &[u8]) -> bool {
    name.starts_with(b".loopwright-") && name.ends_with(b".tmp")
}

/// A file that has no place yet, locked as long as it is open. Dropped without a place, it is
/// removed.
struct NewFile<'a> {
    dir: &'a Dir,
    name: String,
    file: std::fs::File,
    placed: std::cell::Cell<bool>,
}

impl<'a> NewFile<'a> {
    fn create(dir: &'a Dir, old: Option<&Metadata>) -> io::Result<Self> {
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if let Some(old) = old {
            use cap_std::fs::{MetadataExt, OpenOptionsExt};
            options.mode(old.mode() & 0o600); // never more open than what it replaces
        }
        let (mut slot, mut last) = (0, None);
        // A name comes free when what is left over there is removed, so each is tried again.
        for _ in 0..2 * SLOTS {
            let lockable = slot < SLOTS;
            let name = match lockable {
                true => format!(".loopwright-{slot}.tmp"),
                false => format!(".loopwright-{:016x}.tmp", RandomState::new().hash_one(0)),
            };
            let file = match dir.open_with(&name, &options) {
                Ok(file) => file.into_std(),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                    slot += usize::from(!removed_left_over(dir, &name));
                    last = Some(e);
                    continue;
                }
                Err(e) => return Err(e),
            };
            let new = NewFile { dir, name, file, placed: false.into() };
            match new.file.try_lock() {
                _ if !lockable => return Ok(new),
                Ok(()) if is_at(dir, &new.name, &new.file) => return Ok(new),
                // Another writer came between the two and takes it for left over: the name is its
                // own now.
                Ok(()) | Err(std::fs::TryLockError::WouldBlock) => new.placed.set(true),
                // There are no locks here, so nothing tells what is left over: a name that nobody
                // has.
                Err(std::fs::TryLockError::Error(_)) => slot = SLOTS,
            }
        }
        Err(last.unwrap_or_else(|| io::ErrorKind::AlreadyExists.into()))
    }

    fn fill(&self, content: &[u8], old: Option<&Metadata>) -> io::Result<()> {
        (&self.file).write_all(content)?;
        if let Some(old) = old {
            self.keep(old)?;
        }
        self.file.sync_all()
    }

    #[cfg(unix)]
    fn keep(&self, old: &Metadata) -> io::Result<()> {
        use std::os::unix::fs::{PermissionsExt, fchown};

        use cap_std::fs::MetadataExt;
        // Only root may give files away; whoever may not keeps what it wrote.
        let _ = fchown(&self.file, Some(old.uid()), Some(old.gid()));
        // As with any write, set-user-id and its like do not outlive it.
        self.file.set_permissions(std::fs::Permissions::from_mode(old.mode() & 0o777))
    }

    #[cfg(not(unix))]
    fn keep(&self, old: &Metadata) -> io::Result<()> {
        let mut permissions = self.file.metadata()?.permissions();
        permissions.set_readonly(old.permissions().readonly());
        self.file.set_permissions(permissions)
    }

    fn put(&self, name: &Path) -> io::Result<()> {
        self.dir.rename(&self.name, self.dir, name)?;
        self.placed.set(true);
        // The name, too, should outlive a power cut; where a directory cannot be synced, it need
        // not.
        let _ = self.dir.open(".").and_then(|dir| dir.sync_all());
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.placed.get() {
            let _ = self.dir.remove_file(&self.name);
        }
    }
}

/// Removes what a killed writer left at this name; `false` if its writer is at work, or it is no
/// such file.
fn removed_left_over(dir: &Dir, name: &str) -> bool {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    let Ok(file) = dir.open_with(name, &options).map(cap_std::fs::File::into_std) else {
        return false;
    };
    let regular = file.metadata().is_ok_and(|metadata| metadata.is_file());
    regular && file.try_lock().is_ok() && is_at(dir, name, &file) && dir.remove_file(name).is_ok()
}

/// Whether `name` is the name of `file`.
fn is_at(dir: &Dir, name: &str, file: &std::fs::File) -> bool {
    match (dir.symlink_metadata(name), Metadata::from_file(file)) {
        (Ok(there), Ok(here)) => id(&there) == id(&here),
        _ => false,
    }
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use std::fs;

    use super::*;

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

    /// The file is never placed: what was there stays, and nothing is left beside it.
    #[test]
    fn a_write_that_fails_half_way_leaves_nothing() {
        let (outer, workspace) = workspace();
        fs::write(outer.path().join("f"), "old").unwrap();
        let new = NewFile::create(&workspace.root.dir, None).unwrap();
        new.fill(b"half", None).unwrap();
        fs::create_dir(outer.path().join("d")).unwrap();
        assert!(new.put(Path::new("d")).is_err());
        assert_eq!(names(&outer), [".loopwright-0.tmp", "d", "f"]);
        drop(new);
        assert_eq!(names(&outer), ["d", "f"]);
        assert_eq!(fs::read_to_string(outer.path().join("f")).unwrap(), "old");
    }

    #[test]
    fn what_a_killed_writer_left_is_removed_and_what_a_living_one_has_is_not() {
        let (outer, workspace) = workspace();
        fs::write(outer.path().join(".loopwright-0.tmp"), "left over").unwrap();
        let first = NewFile::create(&workspace.root.dir, None).unwrap();
        let second = NewFile::create(&workspace.root.dir, None).unwrap();
        assert_eq!(
            (first.name.as_str(), second.name.as_str()),
            (".loopwright-0.tmp", ".loopwright-1.tmp")
        );
        second.put(Path::new("g")).unwrap();
        first.put(Path::new("f")).unwrap();
        assert_eq!(names(&outer), ["f", "g"]);
        assert_eq!(fs::read(outer.path().join("f")).unwrap(), b"");
    }

    #[test]
    fn what_is_not_ours_at_that_name_is_left_alone() {
        let (outer, workspace) = workspace();
        fs::create_dir(outer.path().join(".loopwright-0.tmp")).unwrap();
        fs::write(outer.path().join("kept"), "kept").unwrap();
        std::os::unix::fs::symlink("kept", outer.path().join(".loopwright-1.tmp")).unwrap();
        workspace.write("f", b"new", None).unwrap();
        assert_eq!(names(&outer), [".loopwright-0.tmp", ".loopwright-1.tmp", "f", "kept"]);
        assert_eq!(fs::read_to_string(outer.path().join("kept")).unwrap(), "kept");
    }

    #[test]
    fn many_writers_of_one_directory_do_not_disturb_each_other() {
        let (outer, workspace) = workspace();
        std::thread::scope(|scope| {
            for writer in 0..4 {
                let workspace = &workspace;
                scope.spawn(move || {
                    for n in 0..50 {
                        let content = format!("{writer} {n}").repeat(100);
                        workspace.write(&format!("f{writer}"), content.as_bytes(), None).unwrap();
                        workspace.write("shared", content.as_bytes(), None).unwrap();
                    }
                });
            }
        });
        assert_eq!(names(&outer), ["f0", "f1", "f2", "f3", "shared"]);
        for writer in 0..4 {
            let content = fs::read_to_string(outer.path().join(format!("f{writer}"))).unwrap();
            assert_eq!(content, format!("{writer} 49").repeat(100));
        }
    }

    #[test]
    fn a_file_that_changed_since_it_was_read_is_left_alone() {
        let (outer, workspace) = workspace();
        let path = outer.path().join("f");
        fs::write(&path, "old").unwrap();
        let stamp = workspace.open_file("f").unwrap().stamp;
        fs::write(&path, "theirs").unwrap();
        let why = workspace.write("f", b"ours", Some(stamp)).unwrap_err().to_string();
        assert_eq!(
            why,
            "`f` has changed on disk since it was read for this edit, and was left as it is: read it again"
        );
        let gone = workspace.open_file("f").unwrap().stamp;
        fs::remove_file(&path).unwrap();
        assert!(workspace.write("f", b"ours", Some(gone)).is_err());
        assert_eq!(names(&outer), [""; 0]);
    }
}
