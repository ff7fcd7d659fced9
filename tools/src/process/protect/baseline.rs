//! [`Baseline`]: the protected files before commands run, for restoring them afterwards where the
//! kernel cannot make them read-only.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt as OsPermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cap_fs_ext::OpenOptionsSyncExt;
use cap_std::fs::{Dir, Metadata, MetadataExt, OpenOptions, Permissions, PermissionsExt};

use super::find::parents;
use super::undone::Undone;
use crate::workspace::stable_path;

/// The limits of copying: files and directories, bytes of one file, and bytes in total.
const MAX_ENTRIES: usize = 4_096;
const MAX_FILE_BYTES: u64 = 4 << 20;
const MAX_BYTES: u64 = 32 << 20;
/// The maximum number of names in a copied path. The time for a directory grows with the square of
/// its depth.
const MAX_DEPTH: usize = 64;
/// The copied bits of a mode.
const MODE: u32 = 0o777;
/// The permissions that this process needs to change a directory.
const OWNER: u32 = 0o700;

/// The baselines of directories in which commands run, by the identity of the directory. Concurrent
/// commands share a baseline: changes of one command must not become the baseline of another.
static SHARED: Mutex<BTreeMap<(u64, u64), Weak<Baseline>>> = Mutex::new(BTreeMap::new());

/// Copies of protected files, with the directories above them.
pub(super) struct Baseline {
    /// The protected paths.
    paths: Vec<PathBuf>,
    copies: BTreeMap<PathBuf, Copied>,
    /// Paths that exceeded the limits, could not be read, or are not files.
    not_copied: BTreeSet<PathBuf>,
    bytes: u64,
}

enum Copied {
    Directory { mode: u32, id: (u64, u64) },
    File { mode: u32, content: Vec<u8> },
    Link(PathBuf),
}

/// The result of restoring files.
#[derive(Default)]
pub(super) struct PutBack {
    pub(super) undone: Vec<PathBuf>,
    pub(super) failed: Vec<PathBuf>,
    pub(super) moved_to: Option<PathBuf>,
}

impl Baseline {
    /// Returns the baseline of the commands that run in this directory, or a new one with these
    /// paths if no command runs there.
    pub(super) fn share(root: &Dir, paths: impl FnOnce() -> Vec<PathBuf>) -> io::Result<Arc<Self>> {
        let root_id = id(&root.dir_metadata()?);
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(baseline) = shared.get(&root_id).and_then(Weak::upgrade) {
            return Ok(baseline);
        }
        shared.retain(|_, baseline| baseline.strong_count() > 0);
        let mut baseline = Baseline {
            paths: paths(),
            copies: BTreeMap::new(),
            not_copied: BTreeSet::new(),
            bytes: 0,
        };
        for parent in parents(&baseline.paths) {
            baseline.copy_itself(root, &parent);
        }
        for path in baseline.paths.clone() {
            let above = path.ancestors().skip(1).filter(|above| !above.as_os_str().is_empty());
            let is_dir =
                |above: &Path| matches!(baseline.copies.get(above), Some(Copied::Directory { .. }));
            match { above }.all(is_dir) {
                true => baseline.copy(root, &path),
                false => drop(baseline.not_copied.insert(path)), // behind a link
            }
        }
        let baseline = Arc::new(baseline);
        shared.insert(root_id, Arc::downgrade(&baseline));
        Ok(baseline)
    }

    /// Copies a file, or a directory with everything in it.
    fn copy(&mut self, root: &Dir, path: &Path) {
        self.copy_itself(root, path);
        if !matches!(self.copies.get(path), Some(Copied::Directory { .. })) {
            return;
        }
        match children(root, path) {
            Ok(children) => children.iter().for_each(|child| self.copy(root, child)),
            Err(_) => drop(self.not_copied.insert(path.to_owned())),
        }
    }

    fn copy_itself(&mut self, root: &Dir, path: &Path) {
        if self.copies.contains_key(path) {
            return;
        }
        let exceeds = self.copies.len() >= MAX_ENTRIES || path.iter().count() > MAX_DEPTH;
        let copied = if exceeds { None } else { copied(root, path, MAX_BYTES - self.bytes) };
        match copied {
            Some(copied) => {
                if let Copied::File { content, .. } = &copied {
                    self.bytes += content.len() as u64;
                }
                self.copies.insert(path.to_owned(), copied);
            }
            None => drop(self.not_copied.insert(path.to_owned())),
        }
    }

    /// Returns whether all changes of a protected path were undone. `failed` are the paths for
    /// which this failed.
    pub(super) fn covers(&self, path: &Path, failed: &[PathBuf]) -> bool {
        let is_copied =
            matches!(self.copies.get(path), Some(Copied::Directory { .. } | Copied::File { .. }));
        let mut rest = self.not_copied.iter().chain(failed);
        is_copied && !rest.any(|rest| rest.starts_with(path) || path.starts_with(rest))
    }

    /// Restores changed paths that `protects` accepts. A changed file is moved to a separate
    /// directory.
    pub(super) fn put_back(&self, root: &Dir, protects: &dyn Fn(&Path) -> bool) -> PutBack {
        let mut done = PutBack::default();
        let mut undone = Undone::new(root);
        // Uses this path, because a directory without search permission cannot be changed through
        // its descriptor.
        let stable = stable_path(root, Path::new(""));
        if let Ok(metadata) = root.dir_metadata()
            && metadata.mode() & OWNER != OWNER
        {
            let mode = OsPermissionsExt::from_mode(metadata.mode() & MODE | OWNER);
            let _ = std::fs::set_permissions(stable, mode); // what follows fails otherwise
        }
        for path in self.paths.iter().filter(|path| protects(path)) {
            let mut above: Vec<&Path> = path.ancestors().skip(1).collect();
            above.retain(|above| !above.as_os_str().is_empty());
            if self.not_copied.contains(path) && !self.copies.contains_key(path) {
                continue;
            }
            for dir in above.into_iter().rev() {
                self.restore_directory(root, dir, &mut undone, &mut done);
            }
            self.restore(root, path, &mut undone, &mut done);
        }
        done.moved_to = undone.path();
        done.undone.dedup();
        done
    }

    /// Restores a directory above protected files, without its contents.
    fn restore_directory(&self, root: &Dir, dir: &Path, undone: &mut Undone, done: &mut PutBack) {
        let Some(Copied::Directory { id: wanted, mode }) = self.copies.get(dir) else {
            return;
        };
        let found = root.symlink_metadata(dir).ok();
        if let Some(found) = &found
            && id(found) == *wanted
        {
            if found.mode() & OWNER != OWNER {
                let mode = Permissions::from_mode(*mode | OWNER);
                let _ = root.set_permissions(dir, mode); // what follows fails otherwise
            }
            return;
        }
        let moved = moved_directory(root, dir, *wanted);
        let mut restore = || match (&moved, &found) {
            (None, Some(found)) if found.is_dir() => Ok(false), // another one, to which files go
            (moved, found) => {
                if found.is_some() {
                    undone.take(dir)?;
                }
                match moved {
                    Some(moved) => root.rename(moved, root, dir)?,
                    None => root.create_dir(dir)?,
                }
                Ok(true)
            }
        };
        match restore() {
            Ok(false) => {}
            Ok(true) => done.undone.push(dir.to_owned()),
            Err::<_, io::Error>(_) => done.failed.push(dir.to_owned()),
        }
    }

    /// Restores a file, or a directory with everything that was copied of it.
    fn restore(&self, root: &Dir, path: &Path, undone: &mut Undone, done: &mut PutBack) {
        let Some(before) = self.copies.get(path) else { return };
        match before.restore(root, path, undone) {
            Ok(true) => done.undone.push(path.to_owned()),
            Ok(false) => {}
            Err(_) => return done.failed.push(path.to_owned()),
        }
        if !matches!(before, Copied::Directory { .. }) {
            return;
        }
        let is_below = |child: &&PathBuf| child.parent() == Some(path);
        for child in children(root, path).unwrap_or_default() {
            let is_known = self.copies.contains_key(&child) || self.not_copied.contains(&child);
            if is_known || self.not_copied.contains(path) {
                continue;
            }
            match undone.take(&child) {
                Ok(()) => done.undone.push(child),
                Err(_) => done.failed.push(child),
            }
        }
        for child in self.copies.keys().filter(is_below) {
            self.restore(root, child, undone, done);
        }
    }
}

impl Copied {
    /// Restores the path if it has changed, without the contents of a directory. Returns whether it
    /// had changed.
    fn restore(&self, root: &Dir, path: &Path, undone: &mut Undone) -> io::Result<bool> {
        let found = root.symlink_metadata(path).ok();
        match (self, &found) {
            (Copied::Directory { mode, .. }, Some(found)) if found.is_dir() => {
                return set_mode(root, path, found, *mode);
            }
            (Copied::File { mode, content }, Some(found))
                if found.is_file() && has_content(root, path, found, content) =>
            {
                return set_mode(root, path, found, *mode);
            }
            (Copied::Link(target), Some(found))
                if found.is_symlink()
                    && root.read_link_contents(path).is_ok_and(|now| now == *target) =>
            {
                return Ok(false);
            }
            (_, Some(_)) => undone.take(path)?,
            (_, None) => {}
        }
        match self {
            Copied::Directory { mode, .. } => {
                root.create_dir(path)?;
                root.set_permissions(path, Permissions::from_mode(*mode))?;
            }
            Copied::File { mode, content } => {
                // A new file, because the changed one may have other names.
                let mut file =
                    root.open_with(path, OpenOptions::new().write(true).create_new(true))?;
                file.write_all(content)?;
                file.set_permissions(Permissions::from_mode(*mode))?;
            }
            Copied::Link(target) => root.symlink_contents(target, path)?,
        }
        Ok(true)
    }
}

fn copied(root: &Dir, path: &Path, max_bytes: u64) -> Option<Copied> {
    let metadata = root.symlink_metadata(path).ok()?;
    let mode = metadata.mode() & MODE;
    if metadata.is_symlink() {
        return Some(Copied::Link(root.read_link_contents(path).ok()?));
    } else if metadata.is_dir() {
        return Some(Copied::Directory { mode, id: id(&metadata) });
    }
    let max_bytes = max_bytes.min(MAX_FILE_BYTES);
    if !metadata.is_file() || metadata.len() > max_bytes {
        return None;
    }
    let content = read(root, path, max_bytes).ok()?;
    (content.len() as u64 <= max_bytes).then_some(Copied::File { mode, content })
}

/// Reads a file, up to one byte more than `max_bytes`.
fn read(root: &Dir, path: &Path, max_bytes: u64) -> io::Result<Vec<u8>> {
    let file = root.open_with(path, OpenOptions::new().read(true).nonblock(true))?;
    let mut content = Vec::new();
    file.take(max_bytes + 1).read_to_end(&mut content)?;
    Ok(content)
}

fn has_content(root: &Dir, path: &Path, found: &Metadata, content: &[u8]) -> bool {
    let len = content.len() as u64;
    found.len() == len && read(root, path, len).is_ok_and(|now| now == content)
}

/// Sets the mode if it differs. Returns whether it did.
fn set_mode(root: &Dir, path: &Path, found: &Metadata, mode: u32) -> io::Result<bool> {
    if found.mode() & MODE == mode {
        return Ok(false);
    }
    root.set_permissions(path, Permissions::from_mode(mode))?;
    Ok(true)
}

/// Returns the new path of the directory that was at `dir`, if it is now in the root or beside
/// `dir`.
fn moved_directory(root: &Dir, dir: &Path, wanted: (u64, u64)) -> Option<PathBuf> {
    let beside = dir.parent().filter(|parent| !parent.as_os_str().is_empty());
    [Some(Path::new("")), beside].into_iter().flatten().find_map(|parent| {
        let is_wanted =
            |path: &PathBuf| root.symlink_metadata(path).is_ok_and(|found| id(&found) == wanted);
        children(root, parent).ok()?.into_iter().find(is_wanted)
    })
}

/// Returns the paths of the entries of a directory.
fn children(root: &Dir, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match dir.as_os_str().is_empty() {
        true => root.entries()?,
        false => root.read_dir(dir)?,
    };
    let entries = entries.filter_map(Result::ok).take(MAX_ENTRIES);
    Ok(entries.map(|entry| dir.join(entry.file_name())).collect())
}

fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
