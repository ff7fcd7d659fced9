//! Directories that commands run in, and that files without a name are in.

#[cfg(feature = "commands")]
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::{Result, Root, Workspace};
use crate::error::WorkspaceError;

impl Workspace {
    /// The workspace in a directory of this one, which must exist: what it is opened as stays below
    /// this root, whatever its path comes to mean meanwhile. It has no guard.
    ///
    /// # Errors
    /// The path leads out of this workspace, or to no directory.
    pub fn below(&self, path: &str) -> Result<Workspace> {
        let (dir, path) = self.open_dir(path)?;
        let fail = |e: io::Error| WorkspaceError::Root {
            root: path.display().to_string(),
            why: e.to_string(),
        };
        let real = std::fs::canonicalize(here(&dir, &path)).map_err(fail)?;
        Ok(Workspace { root: Arc::new(Root { dir, path: real.clone(), real }), seen: None })
    }

    /// A directory, open, so that it stays what it is whatever its path comes to mean; and the
    /// path.
    pub(crate) fn open_dir(&self, path: &str) -> Result<(Dir, PathBuf)> {
        let inside = self.inside(path)?;
        let fail = |e: io::Error| self.error(path, "used as the working directory", &e);
        let dir = self.root.dir.open_dir(&inside).map_err(fail)?;
        Ok((dir, self.root.real.join(inside)))
    }

    /// A path that leads to the root, whatever its own path comes to mean.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(crate) fn root_here(&self) -> PathBuf {
        here(&self.root.dir, &self.root.real)
    }

    /// The root, absolute and without symbolic links, as the kernel knows it.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(crate) fn real_root(&self) -> &Path {
        &self.root.real
    }
}

/// A path that leads to an open directory, in a child too, whatever happens meanwhile.
#[cfg(target_os = "linux")]
pub(crate) fn here(dir: &Dir, _: &Path) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

/// The directory that it is, asked for at the last moment.
#[cfg(not(target_os = "linux"))]
pub(crate) fn here(_: &Dir, path: &Path) -> PathBuf {
    path.to_owned()
}

/// A file in an open directory that has no name, or at most for a moment.
#[cfg(feature = "commands")]
pub(super) fn nameless(dir: &Dir, path: &Path) -> io::Result<File> {
    tempfile::tempfile_in(here(dir, path))
}
