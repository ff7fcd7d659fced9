//! Visiting the files of a directory tree: [`Workspace::walk`].
//!
//! The crate `ignore` walks on several threads and does not follow symbolic links. It reads names
//! by absolute paths, so it may see names outside if a link replaces a directory meanwhile. These
//! names are only hints: each reported or opened file is looked up from the open root
//! ([`WalkEntry`]).

use std::cell::OnceCell;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use cap_std::fs::{Dir, File};
use ignore::gitignore::Gitignore;
use ignore::{DirEntry, WalkBuilder, WalkState};
use loopwright_core::{ToolContext, ToolError};

use super::ignore_rules::{IgnoreRules, is_ignored, open_regular};
use super::root::{Root, Workspace, require_regular};
use super::temp_file::is_temporary;
use crate::error::printable;

/// A file or symbolic link that a walk visits.
pub(crate) struct WalkEntry<'a> {
    root: &'a Root,
    parent: &'a ParentDir,
    /// The path relative to the root of the workspace.
    pub(crate) path: &'a Path,
    /// The path relative to the start of the walk, or the file's name if the walk starts at it.
    pub(crate) below: &'a Path,
    /// `true` for a regular file, `false` for a link.
    pub(crate) is_file: bool,
}

/// The paths that a walk did not visit.
#[derive(Debug, Default)]
pub(crate) struct SkippedPaths {
    unreadable_directories: AtomicUsize,
    ignored: Mutex<IgnoredPaths>,
}

/// The paths that a rule ignores. The contents of an ignored directory are not counted.
#[derive(Debug, Default)]
struct IgnoredPaths {
    directories: usize,
    files: usize,
    example: Option<IgnoredPath>,
}

/// An ignored path. Directories sort before files.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct IgnoredPath {
    is_file: bool,
    /// The path relative to the root of the workspace.
    path: PathBuf,
}

impl SkippedPaths {
    /// Returns lines about the skipped paths, for the model. They only mention ignored paths if the
    /// search found no match.
    pub(crate) fn report(self, no_match: bool) -> String {
        let mut report = match self.unreadable_directories.into_inner() {
            0 => String::new(),
            1 => "… 1 directory could not be read\n".into(),
            n => format!("… {n} directories could not be read\n"),
        };
        let IgnoredPaths { directories, files, example } =
            self.ignored.into_inner().unwrap_or_else(PoisonError::into_inner);
        if let (true, Some(example)) = (no_match, example) {
            let count = |n, one, many| match n {
                0 => None,
                1 => Some(format!("1 {one}")),
                n => Some(format!("{n} {many}")),
            };
            let counts =
                [count(directories, "directory", "directories"), count(files, "file", "files")];
            report.push_str(&format!(
                "… not searched: {}, ignored by a .gitignore or similar file. To search there, \
                 give one as `path`, such as `{}`\n",
                counts.into_iter().flatten().collect::<Vec<_>>().join(" and "),
                path_text(&example.path)
            ));
        }
        report
    }

    fn add_ignored(&self, path: &Path, is_dir: bool) {
        if path.starts_with(".loopwright") {
            return; // the tools' own directory, which their results mention
        }
        let mut ignored = self.ignored.lock().unwrap_or_else(PoisonError::into_inner);
        match is_dir {
            true => ignored.directories += 1,
            false => ignored.files += 1,
        }
        let candidate = IgnoredPath { is_file: !is_dir, path: path.to_owned() };
        if ignored.example.as_ref().is_none_or(|example| candidate < *example) {
            ignored.example = Some(candidate);
        }
    }
}

impl WalkEntry<'_> {
    /// Returns whether the entry exists in the workspace.
    pub(crate) fn exists(&self) -> bool {
        let name = self.path.file_name();
        let directory = self.parent.opened.get_or_init(|| {
            let directory = self.path.parent().filter(|path| !path.as_os_str().is_empty());
            self.root.dir.open_dir(directory.unwrap_or(Path::new("."))).ok()
        });
        directory
            .as_ref()
            .zip(name)
            .is_some_and(|(directory, name)| directory.symlink_metadata(name).is_ok())
    }

    /// Opens the entry if it is a regular file.
    pub(crate) fn open(&self) -> io::Result<File> {
        open_regular(self.root, self.path)
    }
}

impl Workspace {
    /// Visits the files below `path`, or the file at `path`, in no defined order.
    ///
    /// The walk runs on several threads. Each thread calls the function that `visitor` returns for
    /// it. Skips `.git` and the paths that a `.gitignore` or `.ignore` in the workspace ignores,
    /// unless the walk starts in them.
    pub(crate) fn walk<'w, V>(
        &'w self,
        path: &str,
        cx: &ToolContext,
        visitor: impl Fn() -> V,
    ) -> Result<SkippedPaths, ToolError>
    where
        V: FnMut(&WalkEntry<'_>) + Send + 'w,
    {
        let fail = |e: io::Error| self.error(path, "searched", &e);
        let root = &*self.root;
        let start = root.dir.canonicalize(self.relative(path)?).map_err(fail)?;
        let metadata = root.dir.metadata(&start).map_err(fail)?;
        if !metadata.is_dir() {
            require_regular(path, &metadata)?;
            let below = start.file_name().map(Path::new).unwrap_or(&start);
            let parent = &ParentDir::default();
            visitor()(&WalkEntry { root, parent, path: &start, below, is_file: true });
            return Ok(SkippedPaths::default());
        }
        root.dir.open_dir(&start).map_err(fail)?;
        // Normalized, because joining `.` or an empty path would show in the path of each entry.
        let start = root.real.join(start).components().collect::<PathBuf>();
        let rules = IgnoreRules::above(root, &start);
        let skipped = SkippedPaths::default();
        let walk =
            WalkBuilder::new(&start).standard_filters(false).follow_links(false).build_parallel();
        walk.run(|| {
            let mut visit = visitor();
            let mut parent = ParentDir::default();
            let walk = Walk { root, rules: &rules, start: &start, skipped: &skipped };
            Box::new(move |entry| {
                if cx.is_cancelled() {
                    return WalkState::Quit;
                }
                let Ok(entry) = entry else {
                    walk.skipped.unreadable_directories.fetch_add(1, Ordering::Relaxed);
                    return WalkState::Continue;
                };
                walk.visit_entry(&mut parent, &entry, &mut visit)
            })
        });
        if cx.is_cancelled() { Err(ToolError::Cancelled) } else { Ok(skipped) }
    }
}

/// The state that the threads of a walk share.
struct Walk<'a> {
    root: &'a Root,
    rules: &'a IgnoreRules,
    start: &'a Path,
    skipped: &'a SkippedPaths,
}

impl Walk<'_> {
    fn visit_entry(
        &self,
        parent: &mut ParentDir,
        entry: &DirEntry,
        visit: &mut impl FnMut(&WalkEntry<'_>),
    ) -> WalkState {
        let path = entry.path();
        let kind = entry.file_type();
        let is_dir = kind.is_some_and(|kind| kind.is_dir());
        if entry.depth() > 0 {
            let name = entry.file_name().as_encoded_bytes();
            if name == b".git" || is_temporary(name) {
                return WalkState::Skip;
            }
            if is_ignored(&parent.of(self.rules, path).rules, path, is_dir) {
                let relative = path.strip_prefix(&self.root.real).unwrap_or(path);
                self.skipped.add_ignored(relative, is_dir);
                return WalkState::Skip;
            }
        }
        if is_dir {
            self.rules.read(self.root, path);
        } else if let (Ok(relative), Ok(below)) =
            (path.strip_prefix(&self.root.real), path.strip_prefix(self.start))
            && let Some(kind) = kind.filter(|kind| kind.is_file() || kind.is_symlink())
        {
            visit(&WalkEntry {
                root: self.root,
                parent: parent.of(self.rules, path),
                path: relative,
                below,
                is_file: kind.is_file(),
            });
        }
        WalkState::Continue
    }
}

/// The directory of the current entry, cached for the next entries.
#[derive(Default)]
struct ParentDir {
    path: PathBuf,
    /// The rules for the directory's entries: its own first, the root's last.
    rules: Vec<Arc<Gitignore>>,
    /// The handle of the directory, opened from the root when first needed. `None` if the directory
    /// does not exist or leads out.
    opened: OnceCell<Option<Dir>>,
}

impl ParentDir {
    /// Returns the parent directory of `path`, reusing the cached one if it is the same.
    fn of(&mut self, rules: &IgnoreRules, path: &Path) -> &Self {
        let directory = path.parent().unwrap_or(path);
        if self.path.as_os_str() != directory.as_os_str() {
            self.rules = rules.for_directory(directory);
            self.opened.take();
            self.path.clear();
            self.path.push(directory);
        }
        self
    }
}

/// Returns a path relative to the root as text. Invalid UTF-8 is replaced.
pub(crate) fn path_text(path: &Path) -> String {
    printable(&path.to_string_lossy())
}
