//! [`Workspace`]: a directory that its users cannot leave. Only this file and those in its folder
//! touch the file system.
//!
//! `cap-std` resolves each path in the kernel (`openat2` with `RESOLVE_BENEATH`) from the open
//! root, so neither `..` nor a symbolic link leads out, not even one that is swapped in meanwhile.
//! What this file adds: what a model may call a path, and that only regular files are read and
//! replaced.

#![allow(clippy::disallowed_methods, reason = "this is the file that the lint sends everyone to")]

mod directory;
mod listing;
#[cfg(feature = "commands")]
mod numbered;
mod replace;
mod stamp;
#[cfg(feature = "search")]
mod walk;

use std::io::{self, Read};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, FileType, Metadata, OpenOptions};
use loopwright_core::ToolError;

#[cfg(feature = "commands")]
pub(crate) use self::directory::here;
pub(crate) use self::listing::{Entry, EntryKind, Listing};
#[cfg(feature = "commands")]
pub(crate) use self::numbered::Most;
use self::stamp::Seen;
pub(crate) use self::stamp::Stamp;
#[cfg(feature = "search")]
pub(crate) use self::walk::{Here, Walked, text_of};
use crate::error::{WorkspaceError, shown};

type Result<T> = std::result::Result<T, WorkspaceError>;

/// A directory whose files the tools may reach, and nothing else. Cheap to clone.
///
/// A hard link is a file like any other: one that was put into the directory can be read, though
/// its contents also have a name outside. Writing makes a new file and leaves the other alone.
#[derive(Clone)]
pub struct Workspace {
    root: Arc<Root>,
    /// The files as they were last read, if the workspace is guarded.
    seen: Option<Arc<Seen>>,
}

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
    /// What it was when it was opened.
    pub(crate) stamp: Stamp,
}

impl Workspace {
    /// The workspace in this directory, which must exist.
    pub fn open(root: &Path) -> Result<Self> {
        let fail = |e: io::Error| WorkspaceError::Root {
            root: root.display().to_string(),
            why: e.to_string(),
        };
        let path = std::path::absolute(root).map_err(fail)?;
        let real = std::fs::canonicalize(root).map_err(fail)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(fail)?;
        Ok(Workspace { root: Arc::new(Root { dir, path, real }), seen: None })
    }

    /// The root, absolute.
    pub fn root(&self) -> &Path {
        &self.root.path
    }

    /// Leaves files alone that someone else changed: one that `read_file` has shown, or a tool of
    /// this workspace has written, is not overwritten or edited after it was changed on disk in any
    /// other way, until it is read again. A file that was never read, or is gone, is not protected.
    /// What was read is remembered by this workspace and its clones, not beyond a restart.
    pub fn guarded(mut self) -> Self {
        self.seen = Some(Arc::default());
        self
    }

    /// The same directory without the guard: for files that are the tools' own.
    #[cfg(feature = "commands")]
    pub(crate) fn unguarded(&self) -> Self {
        Workspace { root: self.root.clone(), seen: None }
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
        let fail = |e: io::Error| {
            if let (Some(seen), io::ErrorKind::NotFound) = (&self.seen, e.kind()) {
                seen.forget(&plain(&inside));
            }
            self.error(path, "read", &e)
        };
        // Looked at first, since opening a device can do something; opened without waiting and
        // looked at again, since it may have been swapped for a pipe that nobody writes to.
        regular(path, &self.root.dir.metadata(&inside).map_err(fail)?)?;
        let file = self
            .root
            .dir
            .open_with(&inside, OpenOptions::new().read(true).nonblock(true))
            .map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        regular(path, &metadata)?;
        Ok(OpenFile { file, size: metadata.len(), stamp: Stamp::of(&metadata) })
    }

    /// Remembers, if the workspace is guarded, that this file has been read as it was when it was
    /// opened.
    pub(crate) fn note_read(&self, path: &str, stamp: Stamp) {
        if let (Some(seen), Ok(inside)) = (&self.seen, self.inside(path))
            && let Ok(place) = self.root.dir.canonicalize(inside)
        {
            seen.note(place, stamp);
        }
    }

    /// The bytes of a regular file of at most `largest` bytes, and what it was when they were read.
    pub(crate) fn read(&self, path: &str, largest: u64) -> Result<(Vec<u8>, Stamp)> {
        let open = self.open_file(path)?;
        let mut bytes = Vec::new();
        open.file
            .take(largest + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| self.error(path, "read", &e))?;
        if bytes.len() as u64 > largest {
            return Err(WorkspaceError::TooLarge { path: shown(path), bytes: open.size, largest });
        }
        Ok((bytes, open.stamp))
    }

    /// The text at the beginning of a regular file, at most `most` bytes of it, and how many bytes
    /// the file has; `None` if there is none of that name. What is no UTF-8 is replaced; no letter
    /// is cut in two.
    ///
    /// # Errors
    /// It leads out of the workspace, is no regular file, or the system refuses.
    pub fn beginning(&self, path: &str, most: usize) -> Result<Option<(String, u64)>> {
        let open = match self.open_file(path) {
            Err(WorkspaceError::NotFound { .. }) => return Ok(None),
            open => open?,
        };
        let mut bytes = Vec::new();
        open.file
            .take(most as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| self.error(path, "read", &e))?;
        if open.size > bytes.len() as u64 {
            let torn = bytes.utf8_chunks().last().map_or(0, |last| last.invalid().len());
            bytes.truncate(bytes.len() - torn);
        }
        Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), open.size)))
    }

    /// The path as one that starts at the root. Whether it stays there is for `cap-std` to say.
    fn inside(&self, path: &str) -> Result<PathBuf> {
        let bad = |why| WorkspaceError::Name { path: shown(path), why };
        if path.contains('\0') {
            return Err(bad("it has a NUL character in it, which no file name has"));
        }
        if path == "~" || (path.starts_with('~') && path.contains('/')) {
            return Err(bad(
                "`~` is not expanded. Use a path relative to the workspace; start a name that \
                            really begins with `~` with `./`",
            ));
        }
        let asked = Path::new(path);
        let inside = if asked.is_absolute() {
            let below = |root: &Path| asked.strip_prefix(root).ok().map(Path::to_path_buf);
            below(&self.root.path).or_else(|| below(&self.root.real)).ok_or_else(|| {
                WorkspaceError::Outside {
                    path: shown(path),
                    root: self.root.path.display().to_string(),
                }
            })?
        } else {
            asked.to_path_buf()
        };
        Ok(if inside.as_os_str().is_empty() { PathBuf::from(".") } else { inside })
    }

    fn error(&self, path: &str, what: &'static str, error: &io::Error) -> WorkspaceError {
        WorkspaceError::from_io(path, &self.root.path.display().to_string(), what, error)
    }
}

impl std::fmt::Debug for Workspace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Workspace").field(&self.root.path).finish()
    }
}

/// The path without `.` in it, as places are remembered.
fn plain(path: &Path) -> PathBuf {
    path.components().filter(|part| *part != Component::CurDir).collect()
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

    #[tokio::test]
    async fn a_panic_in_file_work_reaches_the_caller() {
        let workspace = Workspace::open(&std::env::temp_dir()).unwrap();
        let work = workspace
            .off_thread(|_| -> std::result::Result<(), ToolError> { panic!("in the work") });
        assert!(tokio::spawn(work).await.unwrap_err().is_panic());
    }
}
