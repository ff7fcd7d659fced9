//! Protected files of the directories that a command can write: which exist, how they are made
//! read-only for the command, and which of the others changed.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::fs::Metadata;
use std::hash::{Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, fstatvfs, openat};
use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};
use rustix::thread::{UnshareFlags, unshare_unsafe};

/// How many entries of a directory are looked at to recognise a change.
const MAX_ENTRIES: usize = 4_096;

/// The protected files of the directories that a command can write.
#[derive(Default)]
pub(super) struct ProtectedFiles {
    roots: Vec<Root>,
    /// The states of those that the command can change, before it starts.
    before: States,
}

/// A directory that a command can write.
struct Root {
    /// Absolute and without links.
    path: PathBuf,
    /// A path that leads to the directory whatever replaces it.
    stable: PathBuf,
    /// The protected paths below it, in which `*` stands for any name.
    patterns: Vec<&'static str>,
    /// Those that are read-only.
    read_only: Vec<PathBuf>,
}

/// The states of files at one time, by their paths.
type States = BTreeMap<PathBuf, u64>;

impl ProtectedFiles {
    /// Adds the protected files below the directory that `stable` leads to. `writable` are paths
    /// that are not protected although they may be below it.
    pub(super) fn add(
        &mut self,
        stable: &Path,
        patterns: Vec<&'static str>,
        writable: &[PathBuf],
    ) -> io::Result<()> {
        let path = std::fs::canonicalize(stable)?;
        if !path.is_dir() {
            return Ok(());
        }
        let below = writable.iter().filter(|dir| dir.starts_with(&path) && **dir != path);
        let is_protected = |pattern: &&str| {
            let pattern = path.join(pattern);
            !below.clone().any(|writable| pattern.starts_with(writable))
        };
        let patterns = patterns.into_iter().filter(is_protected).collect();
        self.roots.push(Root { path, stable: stable.into(), patterns, read_only: Vec::new() });
        Ok(())
    }

    /// Returns whether any of them exists.
    pub(super) fn exist(&self) -> bool {
        self.roots.iter().any(|root| !root.existing().is_empty())
    }

    /// Returns the directories that a view of the file system must not let be moved, and then the
    /// paths that it must show read-only. They are treated as read-only from now on.
    pub(super) fn show_read_only(&mut self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut fixed, mut read_only) = (Vec::new(), Vec::new());
        for root in &mut self.roots {
            root.read_only = root.existing();
            fixed.extend(parents(&root.read_only).iter().map(|path| root.path.join(path)));
            read_only.extend(root.read_only.iter().map(|path| root.path.join(path)));
        }
        (fixed, read_only)
    }

    /// Makes those that exist read-only for this thread, for ever, and the processes that it
    /// starts. Descriptors that are open already must not be given to them.
    pub(super) fn make_read_only(&mut self) -> io::Result<()> {
        enter_namespace()?;
        self.roots.iter_mut().try_for_each(Root::make_read_only)
    }

    /// Records the states of the others.
    pub(super) fn record(&mut self) {
        self.before = self.states();
    }

    /// Returns those that changed since: below the first directory relative to it.
    pub(super) fn changed(&self) -> Vec<PathBuf> {
        let after = self.states();
        let all = after.keys().chain(self.before.keys());
        let mut changed: Vec<PathBuf> =
            all.filter(|path| after.get(*path) != self.before.get(*path)).cloned().collect();
        changed.sort();
        changed.dedup();
        changed
    }

    fn states(&self) -> States {
        let mut states = States::new();
        for (n, root) in self.roots.iter().enumerate() {
            let shown = if n == 0 { Path::new("") } else { &root.path };
            let free = root.find(|_| true).into_iter();
            states.extend(free.filter(|path| !root.read_only.contains(path)).map(|path| {
                let is_git = path == Path::new(".git");
                (shown.join(&path), state(&root.path.join(path), is_git))
            }));
        }
        states
    }
}

impl Root {
    /// Returns the paths that exist, without what is or leads through a link: a link cannot be made
    /// read-only.
    fn existing(&self) -> Vec<PathBuf> {
        let mut found = self.find(|metadata| !metadata.is_symlink());
        // In a repository of its own `.git` is a directory, in which only some files are protected.
        found.retain(|path| path != Path::new(".git") || !self.path.join(path).is_dir());
        found
    }

    /// Returns the paths that exist and of which each part is accepted.
    fn find(&self, accepts: impl Fn(&Metadata) -> bool) -> Vec<PathBuf> {
        let mut found = Vec::new();
        for pattern in &self.patterns {
            find(&self.path, Path::new(""), pattern, &accepts, &mut found);
        }
        found
    }

    /// Makes the paths that exist read-only for the mounts of this thread.
    fn make_read_only(&mut self) -> io::Result<()> {
        let root = open(CWD, &self.path)?;
        require_same(&self.stable, &root)?;
        let paths = self.existing();
        for parent in parents(&paths) {
            bind(&open_below(&root, &parent)?)?; // a mount cannot be renamed
        }
        for path in &paths {
            let original = open_below(&root, path)?;
            bind(&original)?;
            let mounted = open_below(&root, path)?;
            let kept = [
                (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
                (StatVfsMountFlags::NODEV, MountFlags::NODEV),
                (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
            ];
            let old = fstatvfs(&original)?.f_flag;
            let kept = kept.into_iter().filter(|(flag, _)| old.contains(*flag));
            let flags =
                kept.fold(MountFlags::BIND | MountFlags::RDONLY, |all, (_, flag)| all | flag);
            mount_remount(link(&mounted), flags, "")?;
        }
        self.read_only = paths;
        Ok(())
    }
}

/// Returns the directories above these paths, each before those in it.
fn parents(paths: &[PathBuf]) -> Vec<PathBuf> {
    let above = paths.iter().flat_map(|path| path.ancestors().skip(1));
    let above = above.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
    let mut parents: Vec<PathBuf> = above.collect();
    parents.sort();
    parents.dedup();
    parents
}

/// Gives this thread its own mounts, for ever. Mounts of the system still appear in it, but not the
/// other way round.
fn enter_namespace() -> io::Result<()> {
    // SAFETY: the function is unsafe because of `UnshareFlags::FILES`, which separates the table of
    // descriptors of this thread from that of the others. `NEWNS` separates the mounts, and the
    // root and working directories, which no code here depends on.
    #[allow(unsafe_code, reason = "the safe function is deprecated")]
    unsafe {
        unshare_unsafe(UnshareFlags::NEWNS)?;
    }
    Ok(mount_change("/", MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC)?)
}

/// Returns whether a thread can have its own mounts here, by trying it on this thread.
pub(super) fn can_mount() -> bool {
    let proc = "/proc";
    let read_only = MountFlags::BIND | MountFlags::RDONLY;
    enter_namespace().is_ok()
        && mount_bind(proc, proc).is_ok()
        && mount_remount(proc, read_only, "").is_ok()
}

/// Opens a directory once more, in the mounts of this thread. Through the old descriptor other
/// mounts are seen.
pub(super) fn reopen(old: &impl AsRawFd) -> io::Result<OwnedFd> {
    let old = PathBuf::from(format!("/proc/self/fd/{}", old.as_raw_fd()));
    let new = open(CWD, &std::fs::read_link(&old)?)?;
    require_same(&old, &new)?;
    Ok(new)
}

/// Returns an error unless the path leads to the directory that was opened.
fn require_same(path: &Path, opened: &OwnedFd) -> io::Result<()> {
    let (wanted, found) = (std::fs::metadata(path)?, std::fs::metadata(link(opened))?);
    if (wanted.dev(), wanted.ino()) != (found.dev(), found.ino()) {
        return Err(io::Error::other("another directory is in the place of the one to be used"));
    }
    Ok(())
}

/// Adds the paths below `root` that match the pattern and of which each part is accepted.
fn find(
    root: &Path,
    above: &Path,
    pattern: &str,
    accepts: &dyn Fn(&Metadata) -> bool,
    found: &mut Vec<PathBuf>,
) {
    let (first, rest) = pattern.split_once('/').map_or((pattern, None), |(a, b)| (a, Some(b)));
    let names = match first {
        "*" => {
            let entries = std::fs::read_dir(root.join(above)).into_iter().flatten();
            entries.filter_map(Result::ok).take(MAX_ENTRIES).map(|e| e.file_name()).collect()
        }
        name => vec![name.into()],
    };
    for name in names {
        let path = above.join(name);
        if !root.join(&path).symlink_metadata().is_ok_and(|metadata| accepts(&metadata)) {
            continue;
        }
        match rest {
            Some(rest) => find(root, &path, rest, accepts, found),
            None => found.push(path),
        }
    }
}

/// Returns a number that differs if the file, or one in the directory, changed. With `only_itself`,
/// the contents of a directory do not count.
fn state(path: &Path, only_itself: bool) -> u64 {
    let mut hasher = DefaultHasher::new();
    let mut pending = vec![path.to_owned()];
    let mut left = MAX_ENTRIES;
    while let Some(path) = pending.pop() {
        // A link counts with its target.
        let metadata = [path.symlink_metadata(), path.metadata()];
        for metadata in metadata.iter().flatten() {
            let file = (metadata.dev(), metadata.ino(), metadata.mode());
            file.hash(&mut hasher);
            if !(metadata.is_dir() && only_itself) {
                (metadata.len(), metadata.mtime(), metadata.mtime_nsec()).hash(&mut hasher);
            }
            if !metadata.is_dir() {
                (metadata.ctime(), metadata.ctime_nsec()).hash(&mut hasher);
            }
        }
        if only_itself || !metadata[0].as_ref().is_ok_and(Metadata::is_dir) {
            continue;
        }
        let entries = std::fs::read_dir(&path).into_iter().flatten().filter_map(Result::ok);
        let mut entries: Vec<PathBuf> = entries.take(left).map(|entry| entry.path()).collect();
        entries.sort();
        entries.hash(&mut hasher);
        left -= entries.len();
        pending.extend(entries);
    }
    hasher.finish()
}

fn open(dir: BorrowedFd<'_>, path: &Path) -> io::Result<OwnedFd> {
    Ok(openat(dir, path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?)
}

/// Opens a path without following a link at any place.
fn open_below(root: &OwnedFd, path: &Path) -> io::Result<OwnedFd> {
    let mut file = root.try_clone()?;
    for name in path {
        file = open(file.as_fd(), Path::new(name))?;
    }
    Ok(file)
}

/// Mounts a file or directory on itself.
fn bind(file: &OwnedFd) -> io::Result<()> {
    Ok(mount_bind(link(file), link(file))?)
}

/// Returns a path that leads to exactly this file.
pub(super) fn link(file: &OwnedFd) -> PathBuf {
    format!("/proc/self/fd/{}", file.as_raw_fd()).into()
}
