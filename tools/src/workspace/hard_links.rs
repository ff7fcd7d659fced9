//! The other names of a file that was replaced: its hard links.
//!
//! A write goes through no hard link, since another name may be outside of the workspace. The names
//! inside become names of the new file.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{Metadata, MetadataExt as _};

use super::root::Workspace;
use super::stamp::file_id;
use super::temp_file::{numbered_names, sync};

/// The maximum number of directory entries that are searched for the other names of a file.
const MAX_SEARCHED: usize = 100_000;

impl Workspace {
    /// Makes the other names of `old` in the workspace names of the file `new`, which has replaced
    /// it at `target`. Returns the number of names that still lead to the old file, since they are
    /// outside of the workspace, protected, or cannot be replaced.
    pub(super) fn replace_links(&self, target: &Path, new: &Metadata, old: &Metadata) -> u64 {
        let others = old.nlink().saturating_sub(1);
        let names = if others == 0 { Vec::new() } else { self.names_of(old, others) };
        let replaced =
            names.iter().filter(|name| self.replace_link(name, target, new, old).is_ok());
        others - replaced.count() as u64
    }

    /// Returns at most `wanted` names of the file in the workspace.
    fn names_of(&self, file: &Metadata, wanted: u64) -> Vec<PathBuf> {
        let (mut names, mut searched) = (Vec::new(), 0);
        let mut directories = vec![PathBuf::from(".")];
        while let Some(directory) = directories.pop() {
            let Ok(entries) = self.root.dir.read_dir(&directory) else { continue };
            for entry in entries.flatten() {
                searched += 1;
                if searched > MAX_SEARCHED || names.len() as u64 == wanted {
                    return names;
                }
                let path = directory.join(entry.file_name());
                match entry.metadata() {
                    // Another file system has none.
                    Ok(metadata) if metadata.dev() != file.dev() => {}
                    Ok(metadata) if metadata.is_dir() => directories.push(path),
                    Ok(metadata) if file_id(&metadata) == file_id(file) => names.push(path),
                    _ => {}
                }
            }
        }
        names
    }

    /// Makes `name` a name of the file `new` at `target`, if it is still one of `old`.
    fn replace_link(
        &self,
        name: &Path,
        target: &Path,
        new: &Metadata,
        old: &Metadata,
    ) -> io::Result<()> {
        let (Some(parent), Some(base)) = (name.parent(), name.file_name()) else {
            return Err(io::ErrorKind::InvalidInput.into());
        };
        let dir = self.root.dir.open_dir(parent)?;
        // The approver of the call has not seen this name.
        self.refuse_hidden_in(&dir, ".", name).map_err(io::Error::other)?;
        let temporary = numbered_names()
            .find(|temporary| self.root.dir.hard_link(target, &dir, temporary).is_ok())
            .ok_or(io::ErrorKind::AlreadyExists)?;
        let is = |name: &Path, file: &Metadata| {
            dir.symlink_metadata(name).is_ok_and(|found| file_id(&found) == file_id(file))
        };
        // Another program may have replaced either since.
        let replaced = match is(base.as_ref(), old) && is(temporary.as_ref(), new) {
            true => dir.rename(&temporary, &dir, base),
            false => Err(io::ErrorKind::NotFound.into()),
        };
        match replaced {
            Ok(()) => sync(&dir),
            Err(_) => dir.remove_file(&temporary)?,
        }
        replaced
    }
}
