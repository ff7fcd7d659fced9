//! All-or-nothing writing of a file: [`Workspace::write`].
//!
//! The content is written to a [temporary file](super::temp_file) in the same directory, synced to
//! disk, and renamed.

use std::io;
use std::path::{Component, Path, PathBuf};

use cap_std::fs::Metadata;

use super::root::{NAME_A_FILE, Result, Workspace, require_regular};
use super::stamp::{Stamp, file_id, normalized};
use super::temp_file::TempFile;
use crate::error::{WorkspaceError, printable};

/// The maximum number of attempts to resolve a path while another program replaces the file.
const MAX_RESOLVE_ATTEMPTS: usize = 16;

/// The result of a write.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Written {
    /// The size of the old file in bytes, if there was one.
    pub(crate) replaced: Option<u64>,
    /// The number of other names of the old file that still lead to it.
    separated: u64,
}

impl Written {
    /// Returns a sentence about what the write has not changed, or nothing.
    pub(crate) fn note(&self) -> String {
        match self.separated {
            0 => String::new(),
            1 => " Another name of the file (a hard link) keeps the old content.".into(),
            n => format!(" {n} other names of the file (hard links) keep the old content."),
        }
    }
}

impl Workspace {
    /// Writes `content` to the file, and creates or replaces it.
    ///
    /// Missing parent directories are created. A replaced file keeps its mode, its extended
    /// attributes, and its other names in the workspace; a symbolic link stays a link. The file is
    /// left unchanged if its stamp is no longer `before` or, in a guarded workspace, no longer the
    /// one recorded when it was last read.
    pub(crate) fn write(
        &self,
        path: &str,
        content: &[u8],
        before: Option<Stamp>,
    ) -> Result<Written> {
        let fail = |e: io::Error| self.error(path, "written", &e);
        let (target, old) = self.write_target(path)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(WorkspaceError::Kind {
                path: printable(path),
                what: "a directory",
                hint: NAME_A_FILE,
            });
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        self.refuse_hidden(path, &target)?;
        // With `..` in the path, a part of the path could be created before the rest is refused.
        if old.is_none() && !has_parent_component(parent) {
            self.root.dir.create_dir_all(parent).map_err(fail)?;
        }
        let dir = self.root.dir.open_dir(parent).map_err(fail)?;
        self.refuse_hidden_in(&dir, path, &target)?;
        let new = TempFile::create(&dir, old.as_ref()).map_err(fail)?;
        new.fill(content, Path::new(name), old.as_ref()).map_err(fail)?;
        // Compared as late as possible, to leave other writers little time until the rename.
        let last_read = self.stamps.as_ref().and_then(|stamps| stamps.get(&normalized(&target)));
        for (stamp, since) in
            [(before, "it was read for this edit"), (last_read, "it was last read")]
        {
            let Some(stamp) = stamp else { continue };
            let unchanged = match dir.symlink_metadata(name) {
                Ok(metadata) => stamp == Stamp::of(&metadata),
                // A removed file has nothing to lose, but an edit would bring its text back.
                Err(e) => e.kind() == io::ErrorKind::NotFound && before.is_none(),
            };
            if !unchanged {
                return Err(WorkspaceError::Changed { path: printable(path), since });
            }
        }
        new.rename_to(Path::new(name)).map_err(fail)?;
        #[cfg(unix)]
        let separated = match (&old, new.metadata()) {
            (Some(old), Ok(new)) => self.replace_links(&target, &new, old),
            _ => 0,
        };
        #[cfg(not(unix))]
        let separated = 0;
        if let (Some(stamps), Ok(metadata)) = (&self.stamps, new.metadata()) {
            stamps.record(normalized(&target), Stamp::of(&metadata));
        }
        Ok(Written { replaced: old.map(|metadata| metadata.len()), separated })
    }

    /// Checks that [`Workspace::write`] could write the file, without creating anything. Returns
    /// whether the file exists.
    pub(crate) fn check_write(&self, path: &str) -> Result<bool> {
        let fail = |e: io::Error| self.error(path, "written", &e);
        let (target, old) = self.write_target(path)?;
        self.refuse_hidden(path, &target)?;
        let parent = target.parent().unwrap_or(Path::new(""));
        let creatable = old.is_none() && !has_parent_component(parent);
        for ancestor in parent.ancestors().filter(|ancestor| !ancestor.as_os_str().is_empty()) {
            match self.root.dir.open_dir(ancestor) {
                Ok(_) => break,
                Err(e) if e.kind() == io::ErrorKind::NotFound && creatable => {}
                Err(e) => return Err(fail(e)),
            }
        }
        Ok(old.is_some())
    }

    /// Resolves the target of a write to `path`. Returns it with the metadata of an existing file.
    fn write_target(&self, path: &str) -> Result<(PathBuf, Option<Metadata>)> {
        let requested = self.relative(path)?;
        if matches!(path.rsplit('/').next(), Some("" | "." | "..")) {
            return Err(WorkspaceError::Kind {
                path: printable(path),
                what: "a directory's name",
                hint: NAME_A_FILE,
            });
        }
        self.follow_links(path, requested)
    }

    /// Resolves the symbolic links of `requested`. Returns the path with the metadata of an
    /// existing file.
    fn follow_links(&self, path: &str, requested: PathBuf) -> Result<(PathBuf, Option<Metadata>)> {
        let fail = |e: io::Error| self.error(path, "written", &e);
        let dir = &self.root.dir;
        let mut last = io::ErrorKind::NotFound.into();
        // If another program replaces the file meanwhile, the path is resolved again.
        for _ in 0..MAX_RESOLVE_ATTEMPTS {
            match dir.canonicalize(&requested) {
                Ok(real) => match (dir.metadata(&real), dir.metadata(&requested)) {
                    (Ok(metadata), Ok(same)) if file_id(&metadata) == file_id(&same) => {
                        require_writable(path, &metadata)?;
                        return Ok((real, Some(metadata)));
                    }
                    (Err(e), _) | (_, Err(e)) if e.kind() != io::ErrorKind::NotFound => {
                        return Err(fail(e));
                    }
                    _ => {}
                },
                Err(e) if e.kind() == io::ErrorKind::NotFound => {
                    match dir.symlink_metadata(&requested) {
                        Ok(metadata) if metadata.is_symlink() => {
                            return Err(WorkspaceError::Kind {
                                path: printable(path),
                                what: "a symbolic link to a file that does not exist",
                                hint: "write to the path that it points to",
                            });
                        }
                        Ok(_) => last = e,
                        Err(e) if e.kind() == io::ErrorKind::NotFound => {
                            return Ok((requested, None));
                        }
                        Err(e) => return Err(fail(e)),
                    }
                }
                Err(e) => return Err(fail(e)),
            }
        }
        Err(fail(last))
    }
}

fn has_parent_component(path: &Path) -> bool {
    path.components().any(|part| part == Component::ParentDir)
}

/// Returns an error unless `metadata` describes a regular file that is not read-only.
fn require_writable(path: &str, metadata: &Metadata) -> Result<()> {
    require_regular(path, metadata)?;
    if metadata.permissions().readonly() {
        return Err(WorkspaceError::Kind {
            path: printable(path),
            what: "a read-only file",
            hint: "it was protected on purpose; ask the user before changing its mode",
        });
    }
    Ok(())
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

    #[test]
    fn other_files_under_a_temporary_name_are_left_alone() {
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
        assert!(
            why.starts_with("`f` has changed on disk since it was read for this edit"),
            "{why}"
        );
        assert!(why.ends_with(", and was left unchanged: read it again"), "{why}");
        let gone = workspace.open_file("f").unwrap().stamp;
        fs::remove_file(&path).unwrap();
        assert!(workspace.write("f", b"ours", Some(gone)).is_err());
        assert_eq!(names(&outer), [""; 0]);
    }
}
