//! Files and folders that only the user may access.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Returns options that create files with mode 0600.
pub(crate) fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a folder and its missing parents with mode 0700.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Flushes the list of files in a folder to disk.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(()); // elsewhere a folder cannot be opened, and need not be flushed
    }
    File::open(path)?.sync_all()
}
