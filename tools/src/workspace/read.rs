//! Reading of files: only regular ones, without waiting for a pipe's other end.

use std::io::{self, Read};

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::fs::{File, OpenOptions};

use super::root::{Result, Workspace, require_regular};
use super::stamp::{Stamp, normalized};
use crate::error::{WorkspaceError, printable};

/// A regular file, open for reading.
pub(crate) struct OpenFile {
    pub(crate) file: File,
    /// The size of the file in bytes when it was opened.
    pub(crate) size: u64,
    /// The identity and state of the file when it was opened.
    pub(crate) stamp: Stamp,
}

impl Workspace {
    /// Opens a regular file for reading.
    pub(crate) fn open_file(&self, path: &str) -> Result<OpenFile> {
        let relative = self.relative(path)?;
        let fail = |e: io::Error| {
            if let (Some(stamps), io::ErrorKind::NotFound) = (&self.stamps, e.kind()) {
                stamps.forget(&normalized(&relative));
            }
            self.error(path, "read", &e)
        };
        // The kind is checked first, because opening a device can have an effect. The file is
        // opened without blocking and checked again, because a pipe without a writer may have
        // replaced it.
        require_regular(path, &self.root.dir.metadata(&relative).map_err(fail)?)?;
        let file = self
            .root
            .dir
            .open_with(&relative, OpenOptions::new().read(true).nonblock(true))
            .map_err(fail)?;
        let metadata = file.metadata().map_err(fail)?;
        require_regular(path, &metadata)?;
        Ok(OpenFile { file, size: metadata.len(), stamp: Stamp::of(&metadata) })
    }

    /// Records, if the workspace is guarded, that this file was read in the state `stamp`.
    pub(crate) fn note_read(&self, path: &str, stamp: Stamp) {
        if let (Some(stamps), Ok(relative)) = (&self.stamps, self.relative(path))
            && let Ok(file) = self.root.dir.canonicalize(relative)
        {
            stamps.record(file, stamp);
        }
    }

    /// Reads a regular file of at most `max_bytes` bytes, and returns it with its stamp at that
    /// time.
    pub(crate) fn read(&self, path: &str, max_bytes: u64) -> Result<(Vec<u8>, Stamp)> {
        let open = self.open_file(path)?;
        let mut bytes = Vec::new();
        open.file
            .take(max_bytes + 1)
            .read_to_end(&mut bytes)
            .map_err(|e| self.error(path, "read", &e))?;
        if bytes.len() as u64 > max_bytes {
            return Err(WorkspaceError::TooLarge {
                path: printable(path),
                bytes: open.size,
                max_bytes,
            });
        }
        Ok((bytes, open.stamp))
    }

    /// Reads up to `max_bytes` bytes of text from the start of a regular file.
    ///
    /// Returns the text and the size of the whole file in bytes, or `None` if the file does not
    /// exist. Invalid UTF-8 is replaced with U+FFFD. A character is never cut in two.
    ///
    /// # Errors
    /// Returns an error if the path leads out of the workspace, is not a regular file, or cannot
    /// be read.
    pub fn read_start(&self, path: &str, max_bytes: usize) -> Result<Option<(String, u64)>> {
        let open = match self.open_file(path) {
            Err(WorkspaceError::NotFound { .. }) => return Ok(None),
            open => open?,
        };
        let mut bytes = Vec::new();
        open.file
            .take(max_bytes as u64)
            .read_to_end(&mut bytes)
            .map_err(|e| self.error(path, "read", &e))?;
        if open.size > bytes.len() as u64 {
            let incomplete = bytes.utf8_chunks().last().map_or(0, |last| last.invalid().len());
            bytes.truncate(bytes.len() - incomplete);
        }
        Ok(Some((String::from_utf8_lossy(&bytes).into_owned(), open.size)))
    }
}
