//! Files and folders that are for nobody but the user.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// To open files with; those that are made are this user's alone.
pub(crate) fn file() -> OpenOptions {
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Makes a folder and those above it, as far as they are missing, for this user alone.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.recursive(true).create(path)
}

/// Makes durable which files are in a folder.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(()); // there a folder cannot be opened, and needs not
    }
    File::open(path)?.sync_all()
}
