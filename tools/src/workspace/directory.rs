//! Subdirectories, working directories of commands, and files without a name.

#[cfg(feature = "commands")]
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use loopwright_core::error::Failure;

use super::root::{Result, Root, Workspace};
use crate::error::WorkspaceError;

impl Workspace {
    /// Opens an existing directory of this workspace as a workspace.
    ///
    /// The new workspace stays in the opened directory, even if its path is replaced later. It is
    /// not [guarded](Self::guarded).
    ///
    /// # Errors
    /// Returns an error if the path leads out of this workspace or is not a directory.
    pub fn subdirectory(&self, path: &str) -> Result<Workspace> {
        let (dir, path) = self.open_dir(path)?;
        let fail = |e: io::Error| WorkspaceError::Root {
            root: path.display().to_string(),
            why: Failure::new(e.to_string()).with_source(e),
        };
        let real = std::fs::canonicalize(stable_path(&dir, &path)).map_err(fail)?;
        let root = Arc::new(Root { dir, path: real.clone(), real });
        Ok(Workspace { root, stamps: None, unprotected: self.unprotected.clone() })
    }

    /// Opens a directory. Returns the path, and a handle that stays valid if the path is replaced.
    pub(crate) fn open_dir(&self, path: &str) -> Result<(Dir, PathBuf)> {
        let relative = self.relative(path)?;
        let fail = |e: io::Error| self.error(path, "used as the working directory", &e);
        let dir = self.root.dir.open_dir(&relative).map_err(fail)?;
        Ok((dir, self.root.real.join(relative)))
    }

    /// Returns a path that leads to the open root, even if the root's own path is replaced.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(crate) fn stable_root(&self) -> PathBuf {
        stable_path(&self.root.dir, &self.root.real)
    }

    /// Returns the root, absolute and without symbolic links.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(crate) fn real_root(&self) -> &Path {
        &self.root.real
    }
}

/// Returns a path that leads to the open directory, even if its own path is replaced. The path also
/// works in a child process.
#[cfg(target_os = "linux")]
pub(crate) fn stable_path(dir: &Dir, _: &Path) -> PathBuf {
    use std::os::fd::AsRawFd;
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

/// Returns `path`, because only Linux has a path for an open directory.
#[cfg(not(target_os = "linux"))]
pub(crate) fn stable_path(_: &Dir, path: &Path) -> PathBuf {
    path.to_owned()
}

/// Creates a file without a name in an open directory.
#[cfg(feature = "commands")]
#[cfg_attr(not(unix), allow(dead_code, reason = "commands run on Unix only"))]
pub(super) fn unnamed_file(dir: &Dir, path: &Path) -> io::Result<File> {
    tempfile::tempfile_in(stable_path(dir, path))
}
