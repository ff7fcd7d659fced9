//! The rules of `.gitignore` and similar files in a workspace.
//!
//! These files are opened from the open root, so symbolic links and pipes are not read. Only the
//! first lines of a large file are read, and only the first of very many files: compiled rules take
//! hundreds of times their size.

use std::collections::HashMap;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

use cap_fs_ext::{FollowSymlinks, OpenOptionsFollowExt, OpenOptionsSyncExt};
use cap_std::fs::{File, OpenOptions};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder};

use super::root::Root;

/// The maximum size that is read of a file with ignore rules.
const MAX_FILE_BYTES: usize = 64 * 1024;
/// The maximum size of the rules that a walk reads.
const MAX_WALK_BYTES: usize = 1024 * 1024;
/// The maximum length of a rule.
const MAX_RULE_BYTES: usize = 1024;

/// The ignore rules of a walk, by their directory.
pub(super) struct IgnoreRules {
    root: PathBuf,
    /// The directory in which the walk starts.
    start: PathBuf,
    /// The number of bytes of rules that may still be read.
    left: AtomicUsize,
    by_directory: RwLock<HashMap<PathBuf, Arc<Gitignore>>>,
}

impl IgnoreRules {
    /// Reads the rules of the directories from the root of the workspace down to the parent of
    /// `start`.
    pub(super) fn above(root: &Root, start: &Path) -> Self {
        let rules = IgnoreRules {
            root: root.real.clone(),
            start: start.to_owned(),
            left: AtomicUsize::new(MAX_WALK_BYTES),
            by_directory: RwLock::default(),
        };
        for directory in
            start.ancestors().skip(1).take_while(|directory| directory.starts_with(&root.real))
        {
            rules.read(root, directory);
        }
        rules
    }

    /// Reads the rules in `directory`. Must be called before its entries are visited.
    pub(super) fn read(&self, root: &Root, directory: &Path) {
        let Ok(relative) = directory.strip_prefix(&root.real) else {
            return;
        };
        let mut builder = GitignoreBuilder::new(directory);
        let at_root = directory == root.real;
        let exclude = at_root && self.add_lines(root, Path::new(".git/info/exclude"), &mut builder);
        // The last matching rule wins, so the file with the highest precedence comes last.
        let ignores = [".gitignore", ".ignore"]
            .map(|name| self.add_lines(root, &relative.join(name), &mut builder));
        if exclude || ignores.contains(&true) {
            self.add(directory, builder);
        }
    }

    /// Returns the rules that apply to the entries of `directory`, nearest first.
    pub(super) fn for_directory(&self, directory: &Path) -> Vec<Arc<Gitignore>> {
        let all = self.by_directory.read().unwrap_or_else(PoisonError::into_inner);
        if all.is_empty() {
            return Vec::new();
        }
        let inside = directory.ancestors().take_while(|above| above.starts_with(&self.root));
        inside.filter_map(|above| all.get(above).cloned()).collect()
    }

    /// Returns whether these rules would hide the whole walk, because they ignore its start or
    /// everything in it.
    fn hide_start(&self, directory: &Path, rules: &Gitignore) -> bool {
        let any_entry = self.start.join("a name that no file has");
        let itself = || rules.matched_path_or_any_parents(&self.start, true).is_ignore();
        self.start.starts_with(directory)
            && (rules.matched(any_entry, false).is_ignore() || self.start != directory && itself())
    }

    /// Adds the lines of the file if it is a regular file, and returns whether it is.
    fn add_lines(&self, root: &Root, path: &Path, builder: &mut GitignoreBuilder) -> bool {
        let Ok(file) = open_regular(root, path) else {
            return false;
        };
        let max = self.left.load(Ordering::Relaxed).min(MAX_FILE_BYTES);
        let mut bytes = Vec::new();
        if file.take(max as u64 + 1).read_to_end(&mut bytes).is_err() {
            return false;
        }
        if bytes.len() > max {
            // A part of a rule would be a different rule.
            bytes.truncate(bytes[..max].iter().rposition(|byte| *byte == b'\n').unwrap_or(0));
        }
        let read = |left: usize| Some(left.saturating_sub(bytes.len()));
        let _ = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, read);
        let text = String::from_utf8_lossy(&bytes);
        let lines = text.trim_start_matches('\u{feff}').lines();
        for line in lines.filter(|line| line.len() <= MAX_RULE_BYTES) {
            let _ = builder.add_line(None, line); // an invalid pattern ignores no file
        }
        true
    }

    fn add(&self, directory: &Path, builder: GitignoreBuilder) {
        if let Ok(rules) = builder.build()
            && !self.hide_start(directory, &rules)
        {
            let mut all = self.by_directory.write().unwrap_or_else(PoisonError::into_inner);
            all.insert(directory.to_owned(), Arc::new(rules));
        }
    }
}

/// Returns whether the nearest rule that matches `path` ignores it.
pub(super) fn is_ignored(rules: &[Arc<Gitignore>], path: &Path, is_dir: bool) -> bool {
    rules
        .iter()
        .map(|rules| rules.matched(path, is_dir))
        .find(|matched| !matched.is_none())
        .is_some_and(|matched| matches!(matched, Match::Ignore(_)))
}

/// Opens a regular file that is not a link, without waiting for a pipe's other end.
pub(super) fn open_regular(root: &Root, path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).nonblock(true).follow(FollowSymlinks::No);
    let file = root.dir.open_with(path, &options)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::ErrorKind::InvalidInput.into()),
    }
}
