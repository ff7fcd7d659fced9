//! [`Workspace`] itself: its root, its options, and the resolution of a model's paths.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::{Dir, FileType, Metadata};
use loopwright_core::ToolError;
use loopwright_core::error::Failure;

use super::stamp::ReadStamps;
use crate::error::{WorkspaceError, printable};

pub(super) type Result<T> = std::result::Result<T, WorkspaceError>;

/// A directory to which tools are confined. Cheap to clone.
///
/// Tools only read and write through a workspace. It refuses every path that leads out of its
/// directory: by `..`, as an absolute path, or through a symbolic link.
///
/// A hard link is a file like any other: a link inside the directory can be read even if its
/// contents also have a name outside. Writing creates a new file, which gets the other names in the
/// directory. A name outside, or a protected one, keeps the old content.
///
/// ```
/// use loopwright_tools::{Workspace, coding_tools};
///
/// # let dir = tempfile::tempdir().unwrap();
/// let workspace = Workspace::open(dir.path())?.guarded();
/// let tools = coding_tools(workspace.clone());
/// assert!(tools.tool("read_file").is_some());
/// assert!(workspace.subdirectory("..").is_err());
/// # Ok::<_, loopwright_tools::WorkspaceError>(())
/// ```
#[derive(Clone)]
pub struct Workspace {
    pub(super) root: Arc<Root>,
    /// The last read states of the files, if the workspace is guarded.
    pub(super) stamps: Option<Arc<ReadStamps>>,
    /// The paths whose protection is lifted, as lower-case names.
    pub(super) unprotected: Arc<[Vec<String>]>,
}

/// The open root directory and its two paths.
pub(super) struct Root {
    pub(super) dir: Dir,
    pub(super) path: PathBuf,
    /// The path without symbolic links. Models use either form.
    pub(super) real: PathBuf,
}

impl Workspace {
    /// Opens the workspace in the directory `root`.
    ///
    /// # Errors
    /// Returns [`WorkspaceError::Root`] if the directory does not exist or cannot be opened.
    pub fn open(root: &Path) -> Result<Self> {
        let fail = |e: io::Error| WorkspaceError::Root {
            root: root.display().to_string(),
            why: Failure::new(e.to_string()).with_source(e),
        };
        let path = std::path::absolute(root).map_err(fail)?;
        let real = std::fs::canonicalize(root).map_err(fail)?;
        let dir = Dir::open_ambient_dir(&real, ambient_authority()).map_err(fail)?;
        let root = Arc::new(Root { dir, path, real });
        Ok(Workspace { root, stamps: None, unprotected: Arc::default() })
    }

    /// Returns the absolute path of the root.
    pub fn root(&self) -> &Path {
        &self.root.path
    }

    /// Prevents tools from overwriting files that another program has changed.
    ///
    /// A file that `read_file` has read, or that a tool of this workspace has written, must not
    /// have changed on disk since. Otherwise it must be read again before it can be overwritten or
    /// edited. A file that was never read, or no longer exists, is not guarded. Clones of this
    /// workspace share the record, which does not survive a restart.
    pub fn guarded(mut self) -> Self {
        self.stamps = Some(Arc::default());
        self
    }

    /// Returns the same directory without the guard, for files that the tools manage themselves.
    #[cfg(feature = "commands")]
    pub(crate) fn unguarded(&self) -> Self {
        Workspace { stamps: None, ..self.clone() }
    }

    /// Runs file work on a thread that may block. A panic in it is resumed in the caller.
    pub(crate) async fn off_thread<T: Send + 'static>(
        self,
        work: impl FnOnce(&Workspace) -> std::result::Result<T, ToolError> + Send + 'static,
    ) -> std::result::Result<T, ToolError> {
        match tokio::task::spawn_blocking(move || work(&self)).await {
            Ok(result) => result,
            Err(e) if e.is_panic() => std::panic::resume_unwind(e.into_panic()),
            Err(_) => Err(ToolError::Cancelled),
        }
    }

    /// Returns the path relative to the root. `cap-std` checks later that it stays below the root.
    pub(super) fn relative(&self, path: &str) -> Result<PathBuf> {
        let bad = |why| WorkspaceError::Name { path: printable(path), why };
        if path.contains('\0') {
            return Err(bad("it contains a NUL character, which no file name can contain"));
        }
        if path == "~" || (path.starts_with('~') && path.contains('/')) {
            return Err(bad("`~` is not expanded. Use a path relative to the workspace; \
                            start a name that really begins with `~` with `./`"));
        }
        let requested = Path::new(path);
        let relative = if requested.is_absolute() {
            let below = |root: &Path| requested.strip_prefix(root).ok().map(Path::to_path_buf);
            below(&self.root.path).or_else(|| below(&self.root.real)).ok_or_else(|| {
                WorkspaceError::Outside {
                    path: printable(path),
                    root: self.root.path.display().to_string(),
                }
            })?
        } else {
            requested.to_path_buf()
        };
        Ok(if relative.as_os_str().is_empty() { PathBuf::from(".") } else { relative })
    }

    /// Converts an I/O error on `path`. `what` is the failed operation, for example "read".
    pub(super) fn error(
        &self,
        path: &str,
        what: &'static str,
        error: &io::Error,
    ) -> WorkspaceError {
        WorkspaceError::from_io(path, &self.root.path.display().to_string(), what, error)
    }
}

impl fmt::Debug for Workspace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Workspace").field(&self.root.path).finish()
    }
}

pub(super) const NAME_A_FILE: &str = "name a file, with the directory it is to be in";

/// Returns an error unless `metadata` describes a regular file.
pub(super) fn require_regular(path: &str, metadata: &Metadata) -> Result<()> {
    let (what, hint) = if metadata.is_file() {
        return Ok(());
    } else if metadata.is_dir() {
        ("a directory", "list it to see the files in it, and name one of them")
    } else {
        (special_kind(metadata.file_type()), "only regular files can be read and written")
    };
    Err(WorkspaceError::Kind { path: printable(path), what, hint })
}

/// Returns the kind of a file that is neither regular, nor a directory, nor a link.
#[cfg(unix)]
pub(super) fn special_kind(kind: FileType) -> &'static str {
    use cap_std::fs::FileTypeExt;
    match kind {
        kind if kind.is_fifo() => "a named pipe",
        kind if kind.is_socket() => "a socket",
        kind if kind.is_char_device() || kind.is_block_device() => "a device",
        _ => "not a regular file",
    }
}

#[cfg(not(unix))]
pub(super) fn special_kind(_: FileType) -> &'static str {
    "not a regular file"
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
