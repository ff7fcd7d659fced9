//! Listing a directory: [`Listing`] and its entries.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use cap_std::fs::{Dir, DirEntry};
use serde::Serialize;

use super::root::{Result, Workspace, special_kind};

/// The entries of a directory.
pub(crate) struct Listing {
    /// The first entries by name, up to the requested number.
    pub(crate) entries: Vec<Entry>,
    /// The number of all entries.
    pub(crate) total: usize,
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kind: EntryKind,
}

/// The kind of an entry. Symbolic links are not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum EntryKind {
    Directory,
    File { bytes: u64 },
    Symlink { target: String },
    Other { what: &'static str },
}

impl Workspace {
    /// Returns the first `limit` entries of a directory whose names `filter` accepts, sorted by
    /// name.
    pub(crate) fn list(
        &self,
        path: &str,
        limit: usize,
        filter: impl Fn(&Path) -> bool,
    ) -> Result<Listing> {
        let fail = |e: io::Error| self.error(path, "listed", &e);
        let dir = self.root.dir.open_dir(self.relative(path)?).map_err(fail)?;
        let mut first = BTreeMap::new();
        let mut total = 0;
        for entry in dir.entries().map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if !filter(Path::new(&name)) {
                continue;
            }
            total += 1;
            first.insert(name, entry);
            if first.len() > limit {
                first.pop_last();
            }
        }
        // An entry that was removed meanwhile is left out.
        let entries = first.values().filter_map(|entry| Entry::read(&dir, entry).ok()).collect();
        Ok(Listing { entries, total })
    }
}

impl Entry {
    fn read(dir: &Dir, entry: &DirEntry) -> io::Result<Self> {
        let metadata = entry.metadata()?;
        let kind = if metadata.is_symlink() {
            let target = dir.read_link_contents(entry.file_name())?;
            EntryKind::Symlink { target: target.to_string_lossy().into_owned() }
        } else if metadata.is_dir() {
            EntryKind::Directory
        } else if metadata.is_file() {
            EntryKind::File { bytes: metadata.len() }
        } else {
            EntryKind::Other { what: special_kind(metadata.file_type()) }
        };
        Ok(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind })
    }
}
