//! [`Undone`]: the directory for changed versions of protected files.

use std::io;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, MetadataExt, Permissions, PermissionsExt};

use crate::process::random::random;
use crate::process::remove_tree::remove_contents;

/// The path of the directory, in the directory in which the command has run.
const UNDONE_DIR: &str = ".loopwright/undone";
/// The number of changed files that are retained.
const MAX_FILES: usize = 64;

/// The directory, which is created when needed.
pub(super) struct Undone<'a> {
    root: &'a Dir,
    open: Option<(PathBuf, Dir, u64)>,
}

impl<'a> Undone<'a> {
    pub(super) fn new(root: &'a Dir) -> Self {
        Undone { root, open: None }
    }

    /// Returns the path of the directory, if anything was moved to it.
    pub(super) fn path(&self) -> Option<PathBuf> {
        self.open.as_ref().map(|(path, ..)| path.clone())
    }

    /// Moves a file or directory into it, under a name that no tool looks for.
    pub(super) fn take(&mut self, path: &Path) -> io::Result<()> {
        if let Ok(metadata) = self.root.symlink_metadata(path)
            && metadata.is_dir()
        {
            // A directory without write permission cannot be moved.
            let mode = Permissions::from_mode(metadata.mode() & 0o777 | 0o700);
            self.root.set_permissions(path, mode)?;
        }
        let root = self.root;
        let (_, dir, number) = match &mut self.open {
            Some(open) => open,
            open => open.insert(create(root)?),
        };
        let name = path.to_string_lossy().replace('/', "-");
        *number += 1;
        root.rename(path, dir, format!("{number}-{}", name.trim_start_matches('.')))
    }
}

/// Opens the directory. If a command has put something else in its place, creates another one.
/// Returns its path and the last number of a name in it.
fn create(root: &Dir) -> io::Result<(PathBuf, Dir, u64)> {
    match open(root, UNDONE_DIR) {
        Ok(dir) => {
            let last = remove_oldest(&dir);
            Ok((UNDONE_DIR.into(), dir, last))
        }
        Err(_) => {
            let path = format!("loopwright-undone-{:016x}", random());
            Ok((path.clone().into(), open(root, &path)?, 0))
        }
    }
}

fn open(root: &Dir, path: &str) -> io::Result<Dir> {
    root.create_dir_all(path)?;
    let dir = root.open_dir(path)?;
    if dir.read(".gitignore").is_ok_and(|ignored| ignored == b"*\n") {
        return Ok(dir);
    }
    dir.write(".gitignore", "*\n")?;
    Ok(dir)
}

fn remove_directory(dir: &Dir, name: &str) -> io::Result<()> {
    remove_contents(&dir.open_dir(name)?)?;
    dir.remove_dir(name)
}

/// Removes the oldest files beyond the limit. Returns the last number.
fn remove_oldest(dir: &Dir) -> u64 {
    let number = |name: &str| name.split_once('-')?.0.parse::<u64>().ok();
    let entries = dir.entries().into_iter().flatten().filter_map(Result::ok);
    let mut numbered: Vec<(u64, String)> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter_map(|name| Some((number(&name)?, name)))
        .collect();
    numbered.sort();
    for (_, name) in &numbered[..numbered.len().saturating_sub(MAX_FILES)] {
        let is_dir = dir.symlink_metadata(name).is_ok_and(|metadata| metadata.is_dir());
        let _ = if is_dir { remove_directory(dir, name) } else { dir.remove_file(name) };
    }
    numbered.last().map_or(0, |(number, _)| *number)
}
