//! Files and folders that only the user can access.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::path::Path;

/// Returns options that create files with mode 0600.
pub(crate) fn file() -> OpenOptions {
    #[cfg_attr(not(unix), allow(unused_mut, reason = "only Unix has modes"))]
    let mut options = OpenOptions::new();
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options
}

/// Creates a folder and its missing parents with mode 0700, and flushes the lists that they are in.
pub(crate) fn make_folder(path: &Path) -> io::Result<()> {
    if path.is_dir() {
        return Ok(());
    }
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    make_folder(parent)?;
    #[cfg_attr(not(unix), allow(unused_mut, reason = "only Unix has modes"))]
    let mut builder = DirBuilder::new();
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    match builder.create(path) {
        Err(_) if path.is_dir() => {} // another process was faster
        created => created?,
    }
    sync_folder(parent).inspect_err(|_| {
        let _ = std::fs::remove_dir(path); // so that the next attempt flushes the list
    })
}

/// Flushes the list of files in a folder to disk.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    if cfg!(not(unix)) {
        return Ok(()); // elsewhere a folder cannot be opened, and need not be flushed
    }
    File::open(path)?.sync_all()
}
