//! Directories that commands run in.

use std::io;
use std::path::PathBuf;

use cap_std::fs::Dir;

use super::{Result, Workspace};

impl Workspace {
    /// A directory, open, so that it stays what it is whatever its path comes to mean; and the path.
    pub(crate) fn open_dir(&self, path: &str) -> Result<(Dir, PathBuf)> {
        let inside = self.inside(path)?;
        let fail = |e: io::Error| self.error(path, "used as the working directory", &e);
        let dir = self.root.dir.open_dir(&inside).map_err(fail)?;
        Ok((dir, self.root.real.join(inside)))
    }

    /// The root, absolute and without symbolic links, as the kernel knows it.
    #[cfg(target_os = "linux")]
    pub(crate) fn real_root(&self) -> &std::path::Path {
        &self.root.real
    }
}
