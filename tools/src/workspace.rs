//! [`Workspace`]: a directory that its users cannot leave. No other file here touches the file system.
//!
//! `cap-std` resolves each path in the kernel (`openat2` with `RESOLVE_BENEATH`) from the open root, so
//! neither `..` nor a symbolic link leads out, not even one that is swapped in meanwhile. What this
//! file adds: what a model may call a path, and that only regular files are read and replaced.

#![allow(clippy::disallowed_methods, reason = "this is the file that the lint sends everyone to")]

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirEntry, File, FileType, Metadata, OpenOptions};
use loopwright::ToolError;
use serde::Serialize;

use crate::error::{WorkspaceError, shown};

type Result<T> = std::result::Result<T, WorkspaceError>;

/// A directory whose files the tools may reach, and nothing else. Cheap to clone.
///
/// A hard link is a file like any other: one that was put into the directory can be read, though
/// its contents also have a name outside. Writing makes a new file and leaves the other alone.
#[derive(Clone)]
pub struct Workspace(Arc<Root>);

struct Root {
    dir: Dir,
    path: PathBuf,
    /// `path` without symbolic links: models use either form.
    real: PathBuf,
}

/// A regular file, open for reading.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// Its size in bytes when it was opened.
    pub(crate) size: u64,
}

/// What is in a directory.
pub(crate) struct Listing {
    /// The first by name, as many as were asked for.
    pub(crate) entries: Vec<Entry>,
    /// How many there are in all.
    pub(crate) total: usize,
}

/// A thing in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kind: EntryKind,
}

/// What it is. A symbolic link is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum EntryKind {
    Directory,
    File { bytes: u64 },
    Symlink { target: String },
    Other { what: &'static str },
}

impl Workspace {
    /// The workspace in this directory, which must exist.
    pub fn open(root: &Path) -> Result<Self> {
        let fail = |e: io::Error| WorkspaceError::Root { root: root.display().to_string(), why: e.to_string() };
        let path = std::path::absolute(root).map_err(fail)?;
        let real = std::fs::canonicalize(root).map_err(fail)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(fail)?;
        Ok(Workspace(Arc::new(Root { dir, path, real })))
    }

    /// The root, absolute.
    pub fn root(&self) -> &Path {
        &self.0.path
    }

    /// Does file work on a thread that may block. A panic in it goes on in the caller.
    pub(crate) async fn off_thread<T: Send + 'static>(
        self,
        work: impl FnOnce(&Workspace) -> std::result::Result<T, ToolError> + Send + 'static,
    ) -> std::result::Result<T, ToolError> {
        match tokio::task::spawn_blocking(move || work(&self)).await {
            Ok(done) => done,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => Err(ToolError::Cancelled),
        }
    }

    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &str) -> Result<OpenFile> {
        let inside = self.inside(path)?;
        let fail = |e: io::Error| self.error(path, "read", &e);
        // Looked at first, since opening a device can do something; opened without waiting and
        // looked at again, since it may have been swapped for a pipe that nobody writes to.
        regular(path, &self.0.dir.metadata(&inside).map_err(fail)?)?;
        let file = self.0.dir.open_with(&inside, OpenOptions::new().read(true).nonblock(true)).map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        regular(path, &metadata)?;
        Ok(OpenFile { file, size: metadata.len() })
    }

    /// The entries of a directory whose names `keep` likes, sorted by name, the first `at_most` of them.
    pub(crate) fn list(&self, path: &str, at_most: usize, keep: impl Fn(&Path) -> bool) -> Result<Listing> {
        let fail = |e: io::Error| self.error(path, "listed", &e);
        let dir = self.0.dir.open_dir(self.inside(path)?).map_err(fail)?;
        let (mut first, mut total) = (BTreeMap::new(), 0);
        for entry in dir.entries().map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if !keep(Path::new(&name)) {
                continue;
            }
            total += 1;
            first.insert(name, entry);
            if first.len() > at_most {
                first.pop_last();
            }
        }
        // An entry that is gone by now was not there.
        let entries = first.values().filter_map(|entry| Entry::look(&dir, entry).ok()).collect();
        Ok(Listing { entries, total })
    }

    /// Puts `content` in the place of the file, or of nothing; gives the size of what was there.
    ///
    /// All or nothing: it is written to a new file beside it, made durable, and renamed. Missing parent
    /// directories are made. A file that was there leaves its mode; a symbolic link stays one.
    pub(crate) fn write(&self, path: &str, content: &[u8]) -> Result<Option<u64>> {
        let fail = |e: io::Error| self.error(path, "written", &e);
        let asked = self.inside(path)?;
        if matches!(path.rsplit('/').next(), Some("" | "." | "..")) {
            return Err(WorkspaceError::Kind { path: shown(path), what: "a directory's name", hint: NAME_A_FILE });
        }
        let (target, old) = self.target(path, asked)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return Err(WorkspaceError::Kind { path: shown(path), what: "a directory", hint: NAME_A_FILE });
        };
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        // With `..` in it, half of the way could be made before the rest is refused.
        if old.is_none() && !parent.components().any(|part| part == std::path::Component::ParentDir) {
            self.0.dir.create_dir_all(parent).map_err(fail)?;
        }
        let dir = self.0.dir.open_dir(parent).map_err(fail)?;
        let new = NewFile::create(&dir, old.as_ref()).map_err(fail)?;
        new.fill(content, old.as_ref()).and_then(|()| new.put(Path::new(name))).map_err(fail)?;
        Ok(old.map(|metadata| metadata.len()))
    }

    /// Where writing `asked` ends up once symbolic links are followed, and the file that is there.
    fn target(&self, path: &str, asked: PathBuf) -> Result<(PathBuf, Option<Metadata>)> {
        let fail = |e: io::Error| self.error(path, "written", &e);
        match self.0.dir.canonicalize(&asked) {
            Ok(real) => {
                let metadata = self.0.dir.metadata(&real).map_err(fail)?;
                regular(path, &metadata)?;
                if metadata.permissions().readonly() {
                    let hint = "it was protected on purpose; ask the user before changing its mode";
                    return Err(WorkspaceError::Kind { path: shown(path), what: "a read-only file", hint });
                }
                Ok((real, Some(metadata)))
            }
            Err(e) if e.kind() == io::ErrorKind::NotFound => match self.0.dir.symlink_metadata(&asked) {
                Ok(_) => {
                    let (what, hint) = ("a symbolic link to nothing", "write to the path that it points to");
                    Err(WorkspaceError::Kind { path: shown(path), what, hint })
                }
                Err(e) if e.kind() == io::ErrorKind::NotFound => Ok((asked, None)),
                Err(e) => Err(fail(e)),
            },
            Err(e) => Err(fail(e)),
        }
    }

    /// The path as one that starts at the root. Whether it stays there is for `cap-std` to say.
    fn inside(&self, path: &str) -> Result<PathBuf> {
        let bad = |why| WorkspaceError::Name { path: shown(path), why };
        if path.contains('\0') {
            return Err(bad("it has a NUL character in it, which no file name has"));
        }
        if path == "~" || (path.starts_with('~') && path.contains('/')) {
            return Err(bad("`~` is not expanded. Use a path relative to the workspace; start a name that \
                            really begins with `~` with `./`"));
        }
        let asked = Path::new(path);
        let inside = if asked.is_absolute() {
            let below = |root: &Path| asked.strip_prefix(root).ok().map(Path::to_path_buf);
            below(&self.0.path)
                .or_else(|| below(&self.0.real))
                .ok_or_else(|| WorkspaceError::Outside { path: shown(path), root: self.0.path.display().to_string() })?
        } else {
            asked.to_path_buf()
        };
        Ok(if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside })
    }

    fn error(&self, path: &str, what: &'static str, error: &io::Error) -> WorkspaceError {
        WorkspaceError::from_io(path, &self.0.path.display().to_string(), what, error)
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Workspace").field(&self.0.path).finish()
    }
}

impl Entry {
    fn look(dir: &Dir, entry: &DirEntry) -> io::Result<Self> {
        let metadata = entry.metadata()?;
        let kind = if metadata.is_symlink() {
            let target = dir.read_link_contents(entry.file_name())?;
            EntryKind::Symlink { target: target.to_string_lossy().into_owned() }
        } else if metadata.is_dir() {
            EntryKind::Directory
        } else if metadata.is_file() {
            EntryKind::File { bytes: metadata.len() }
        } else {
            EntryKind::Other { what: special(metadata.file_type()) }
        };
        Ok(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind })
    }
}

/// A file that has no place yet. Dropped without one, it is removed.
struct NewFile<'a> {
    dir: &'a Dir,
    name: String,
    file: File,
    placed: std::cell::Cell<bool>,
}

impl<'a> NewFile<'a> {
    fn create(dir: &'a Dir, old: Option<&Metadata>) -> io::Result<Self> {
        let name = format!(".loopwright-{:016x}.tmp", RandomState::new().hash_one(0));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if let Some(old) = old {
            use cap_std::fs::{MetadataExt, OpenOptionsExt};
            options.mode(old.mode() & 0o600); // never more open than what it replaces
        }
        let file = dir.open_with(&name, &options)?;
        Ok(NewFile { dir, name, file, placed: false.into() })
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
        use cap_std::fs::{MetadataExt, Permissions, PermissionsExt};
        // Only root may give files away; whoever may not keeps what it wrote.
        let _ = std::os::unix::fs::fchown(&self.file, Some(old.uid()), Some(old.gid()));
        // As with any write, set-user-id and its like do not outlive it.
        self.file.set_permissions(Permissions::from_mode(old.mode() & 0o777))
    }

    #[cfg(not(unix))]
    fn keep(&self, old: &Metadata) -> io::Result<()> {
        self.file.set_permissions(old.permissions())
    }

    fn put(&self, name: &Path) -> io::Result<()> {
        self.dir.rename(&self.name, self.dir, name)?;
        self.placed.set(true);
        // The name, too, should outlive a power cut; where a directory cannot be synced, it need not.
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

const NAME_A_FILE: &str = "name a file, with the directory it is to be in";

fn regular(path: &str, metadata: &Metadata) -> Result<()> {
    let (what, hint) = if metadata.is_file() {
        return Ok(());
    } else if metadata.is_dir() {
        ("a directory", "list it to see the files in it, and name one of them")
    } else {
        (special(metadata.file_type()), "only regular files can be read and written")
    };
    Err(WorkspaceError::Kind { path: shown(path), what, hint })
}

#[cfg(unix)]
fn special(kind: FileType) -> &'static str {
    use cap_std::fs::FileTypeExt;
    match kind {
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "no regular file",
    }
}

#[cfg(not(unix))]
fn special(_: FileType) -> &'static str {
    "no regular file"
}

#[cfg(test)]
#[cfg(unix)]
mod tests {
    use super::*;

    /// The file is never placed: what was there stays, and nothing is left beside it.
    #[test]
    fn a_write_that_fails_half_way_leaves_nothing() {
        let outer = tempfile::tempdir().unwrap();
        std::fs::write(outer.path().join("f"), "old").unwrap();
        let workspace = Workspace::open(outer.path()).unwrap();
        let new = NewFile::create(&workspace.0.dir, None).unwrap();
        new.fill(b"half", None).unwrap();
        std::fs::create_dir(outer.path().join("d")).unwrap();
        assert!(new.put(Path::new("d")).is_err());
        assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 3);
        drop(new);
        assert_eq!(std::fs::read_dir(outer.path()).unwrap().count(), 2);
        assert_eq!(std::fs::read_to_string(outer.path().join("f")).unwrap(), "old");
    }

    #[tokio::test]
    async fn a_panic_in_file_work_reaches_the_caller() {
        let workspace = Workspace::open(&std::env::temp_dir()).unwrap();
        let work = workspace.off_thread(|_| -> std::result::Result<(), ToolError> { panic!("in the work") });
        assert!(tokio::spawn(work).await.unwrap_err().is_panic());
    }
}
