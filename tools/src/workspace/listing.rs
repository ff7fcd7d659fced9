//! Listing a directory: [`Listing`], and what an [`Entry`] is.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use cap_std::fs::{Dir, DirEntry};
use serde::Serialize;

use super::{Result, Workspace, special};

/// What is in a directory.
pub(crate) struct Listing {
    /// The first by name, as many as were asked for.
    pub(crate) entries: Vec<Entry>,
    /// How many there are in all.
    pub(crate) total: usize,
}

/// A thing in a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Entry {
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kind: EntryKind,
}

/// What it is. A symbolic link is not followed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub(crate) enum EntryKind {
    Directory,
    File { bytes: u64 },
    Symlink { target: String },
    Other { what: &'static str },
}

impl Workspace {
    /// The entries of a directory whose names `keep` likes, sorted by name, the first `at_most` of
    /// them.
    pub(crate) fn list(
        &self,
        path: &str,
        at_most: usize,
        keep: impl Fn(&Path) -> bool,
    ) -> Result<Listing> {
        let fail = |e: io::Error| self.error(path, "listed", &e);
        let dir = self.root.dir.open_dir(self.inside(path)?).map_err(fail)?;
        let (mut first, mut total) = (BTreeMap::new(), 0);
        for entry in dir.entries().map_err(fail)? {
            let entry = entry.map_err(fail)?;
            let name = entry.file_name();
            if !keep(Path::new(&name)) {
                continue;
            }
            total += 1;
            first.insert(name, entry);
            if first.len() > at_most {
                first.pop_last();
            }
        }
        // An entry that is gone by now was not there.
        let entries = first.values().filter_map(|entry| Entry::look(&dir, entry).ok()).collect();
        Ok(Listing { entries, total })
    }
}

impl Entry {
    fn look(dir: &Dir, entry: &DirEntry) -> io::Result<Self> {
        let metadata = entry.metadata()?;
        let kind = if metadata.is_symlink() {
            let target = dir.read_link_contents(entry.file_name())?;
            EntryKind::Symlink { target: target.to_string_lossy().into_owned() }
        } else if metadata.is_dir() {
            EntryKind::Directory
        } else if metadata.is_file() {
            EntryKind::File { bytes: metadata.len() }
        } else {
            EntryKind::Other { what: special(metadata.file_type()) }
        };
        Ok(Entry { name: entry.file_name().to_string_lossy().into_owned(), kind })
    }
}
