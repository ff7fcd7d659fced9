//! Protected files in the directories that a command can write: finds them, makes them read-only
//! for the command, and reports or undoes changes of the others.

mod baseline;
mod find;
mod state;
mod undone;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::ambient_authority;
use cap_std::fs::Dir;

use self::baseline::Baseline;
use self::find::{
    IN_BARE, find, find_commands, find_in_git, find_repositories, is_repository, parents,
};
use self::state::{repository_state, state};
use super::exit::Changes;
use super::namespace::{Directory, View};
use crate::workspace::Workspace;

/// The protected files of the directories that a command can write.
#[derive(Default)]
pub(super) struct ProtectedFiles {
    roots: Vec<Root>,
}

/// A directory that a command can write.
struct Root {
    /// The path, absolute and without links.
    path: PathBuf,
    /// A path that leads to the directory whatever replaces it.
    stable: PathBuf,
    /// The workspace, which knows the lifted protections.
    workspace: Workspace,
    /// Unprotected directories below the root.
    writable: Vec<PathBuf>,
    /// The read-only protected paths below the root.
    read_only: Vec<PathBuf>,
    /// The baseline from which the other files are restored; `None` if changes are only reported.
    baseline: Option<(Dir, Arc<Baseline>)>,
    before: States,
}

/// The states, at one time, of everything that a command can change.
#[derive(Default)]
struct States {
    files: BTreeMap<PathBuf, u64>,
    /// Directories that are repositories but not named `.git`.
    repositories: BTreeMap<PathBuf, u64>,
    /// The commands that git runs when a rebase continues.
    commands: BTreeSet<String>,
}

impl ProtectedFiles {
    /// Adds the protected files of `workspace` below the directory that `stable` leads to.
    /// `writable` paths are not protected, even if they are below it.
    pub(super) fn add(
        &mut self,
        stable: &Path,
        workspace: &Workspace,
        writable: &[PathBuf],
    ) -> io::Result<()> {
        let path = std::fs::canonicalize(stable)?;
        if !path.is_dir() || !workspace.protects_files() {
            return Ok(());
        }
        let below = |dir: &&PathBuf| dir.starts_with(&path) && **dir != path;
        self.roots.push(Root {
            writable: writable.iter().filter(below).cloned().collect(),
            path,
            stable: stable.into(),
            workspace: workspace.clone(),
            read_only: Vec::new(),
            baseline: None,
            before: States::default(),
        });
        Ok(())
    }

    /// Returns whether any protected file exists.
    pub(super) fn exist(&self) -> bool {
        self.roots.iter().any(|root| !root.existing().is_empty())
    }

    /// Returns the directories that must not be movable in a view of the file system, and the paths
    /// that must be read-only in it. The latter are treated as read-only from now on.
    pub(super) fn show_read_only(&mut self) -> (Vec<PathBuf>, Vec<PathBuf>) {
        let (mut fixed, mut read_only) = (Vec::new(), Vec::new());
        for root in &mut self.roots {
            root.read_only = root.existing();
            fixed.extend(parents(&root.read_only).iter().map(|path| root.path.join(path)));
            read_only.extend(root.read_only.iter().map(|path| root.path.join(path)));
        }
        (fixed, read_only)
    }

    /// Returns the mounts that make existing files read-only. These files are treated as read-only
    /// from now on.
    pub(super) fn views(&mut self) -> io::Result<Vec<View>> {
        let view = |root: &mut Root| {
            root.read_only = root.existing();
            Ok(View {
                root: Directory::find(&root.stable, &root.path)?,
                fixed: parents(&root.read_only),
                read_only: root.read_only.clone(),
            })
        };
        self.roots.iter_mut().map(view).collect()
    }

    /// Copies the files, so that [`finish`](Self::finish) undoes changes.
    pub(super) fn copy(&mut self) -> io::Result<()> {
        for root in &mut self.roots {
            let dir = Dir::open_ambient_dir(&root.stable, ambient_authority())?;
            let all = || without_git_itself(root.find(true), &root.path);
            root.baseline = Some((dir.try_clone()?, Baseline::share(&dir, all)?));
        }
        Ok(())
    }

    /// Records the states of the files that are not read-only.
    pub(super) fn record(&mut self) {
        for root in &mut self.roots {
            root.before = root.states(root.find(false));
        }
    }

    /// Undoes changes if the files were copied, and returns what has changed since `record`.
    pub(super) fn finish(&self) -> Changes {
        let mut changes = Changes::default();
        for (n, root) in self.roots.iter().enumerate() {
            let base = if n == 0 { Path::new("") } else { &root.path };
            root.finish(base, &mut changes);
        }
        changes
    }
}

impl Root {
    /// Returns whether the path is protected in this directory.
    fn protects(&self, path: &Path) -> bool {
        let full = self.path.join(path);
        !self.workspace.is_open(path) && !self.writable.iter().any(|dir| full.starts_with(dir))
    }

    /// Returns the existing paths, except links and paths through links: a link cannot be made
    /// read-only.
    fn existing(&self) -> Vec<PathBuf> {
        let is_real = |path: &PathBuf| {
            let parts = path.ancestors().filter(|part| !part.as_os_str().is_empty());
            parts.map(|part| self.path.join(part)).all(|part| !part.is_symlink())
        };
        let found = without_git_itself(self.find(false), &self.path);
        found.into_iter().filter(is_real).collect()
    }

    /// Returns the existing paths. With `all`, includes paths whose protection is lifted.
    fn find(&self, all: bool) -> Vec<PathBuf> {
        let patterns = self.workspace.all_patterns().into_iter();
        let is_bare = is_repository(&self.path);
        let bare = IN_BARE.into_iter().filter(|_| is_bare);
        let mut found = Vec::new();
        find(&self.path, patterns.chain(bare), &mut found);
        find_in_git(&self.path, Path::new(".git"), &mut found);
        found.sort();
        found.dedup();
        found.retain(|path| all || self.protects(path));
        // The entries of a directory are found with it, and follow it in this order.
        found.dedup_by(|path, dir| path.starts_with(&*dir) && *dir != Path::new(".git"));
        found
    }

    /// Returns the current states, including `files` that exist.
    fn states(&self, files: Vec<PathBuf>) -> States {
        let files = files.into_iter().filter(|path| !self.read_only.contains(path));
        let files = files.filter(|path| self.path.join(path).symlink_metadata().is_ok());
        let state = |path: PathBuf| {
            let state = state(&self.path.join(&path), path == Path::new(".git"));
            (path, state)
        };
        let repositories = find_repositories(&self.path);
        let protected = repositories.into_iter().filter(|path| self.protects(path));
        States {
            files: files.map(state).collect(),
            repositories: protected
                .map(|path| {
                    let state = repository_state(&self.path.join(&path));
                    (path, state)
                })
                .collect(),
            commands: match self.protects(Path::new(".git")) {
                true => find_commands(&self.path.join(".git")),
                false => BTreeSet::new(),
            },
        }
    }

    fn finish(&self, base: &Path, changes: &mut Changes) {
        let mut covered: Box<dyn Fn(&Path) -> bool> = Box::new(|_| false);
        if let Some((dir, baseline)) = &self.baseline {
            let done = baseline.put_back(dir, &|path| self.protects(path));
            changes.undone.extend(done.undone.iter().map(|path| base.join(path)));
            changes.moved_to.extend(done.moved_to.iter().map(|path| base.join(path)));
            covered = Box::new(move |path| baseline.covers(path, &done.failed));
        }
        let patterns = self.workspace.protected_patterns();
        let mut files: Vec<PathBuf> = self.before.files.keys().cloned().collect();
        find(&self.path, patterns, &mut files);
        files.retain(|path| self.protects(path));
        let after = self.states(files);
        let all: BTreeSet<&PathBuf> = after.files.keys().chain(self.before.files.keys()).collect();
        let differs = |path: &&PathBuf| after.files.get(*path) != self.before.files.get(*path);
        let changed = all.into_iter().filter(differs).filter(|path| !covered(path));
        changes.changed.extend(changed.map(|path| base.join(path)));
        if !after.commands.is_subset(&self.before.commands) {
            changes.changed.push(base.join(".git/rebase-merge/git-rebase-todo"));
        }
        let is_new =
            |(path, state): &(&PathBuf, &u64)| self.before.repositories.get(*path) != Some(*state);
        let new = after.repositories.iter().filter(is_new);
        changes.repositories.extend(new.map(|(path, _)| base.join(path)));
    }
}

/// Leaves out `.git` if it is a directory, because only some of its files are protected.
fn without_git_itself(mut paths: Vec<PathBuf>, root: &Path) -> Vec<PathBuf> {
    let git = Path::new(".git");
    let is_dir = root.join(git).symlink_metadata().is_ok_and(|metadata| metadata.is_dir());
    paths.retain(|path| path != git || !is_dir);
    paths
}
