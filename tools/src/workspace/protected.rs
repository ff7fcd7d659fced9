//! Protected files, which the user's own tools run or obey, such as `.git/hooks`.
//!
//! Users usually look at a file that an agent writes before they run it. Protected files are
//! different: git, the editor or the shell runs them the next time the user does something else.

use std::path::{Component, Path, PathBuf};

use cap_std::fs::Dir;

use super::protected_list::{ASKED_ONLY, Line, PROTECTED};
use super::root::{Result, Workspace};
use super::stamp::file_id;
use crate::error::{WorkspaceError, printable};

/// The paths that git obeys in a repository, or that make a directory a repository.
const IN_REPOSITORY: &[&str] =
    &["commondir", "config", "config.worktree", "gitdir", "hooks", "info", "objects", "refs"];
const REPOSITORY: &str =
    "a directory with `HEAD`, `objects` and `refs` is a repository, whose configuration git obeys";

impl Workspace {
    /// Lifts the protection of a file, or of a directory with everything below it, so that tools
    /// and commands can change it. The path is relative to the workspace; `.` stands for all files.
    ///
    /// The user's own tools run or obey protected files without being asked: `.git/config`,
    /// `.git/hooks`, `.envrc`, `.vscode`, `.cargo` and others.
    /// [`protected_paths`](crate::protected_paths) lists them. `write_file` and `edit_file` need
    /// approval to change them, whatever the agent's rules are, in every directory of the
    /// workspace. Commands cannot change protected files directly in the workspace, as far as the
    /// system can enforce that. The description of `execute_command` says how far.
    ///
    /// ```
    /// use loopwright_tools::Workspace;
    ///
    /// # let dir = tempfile::tempdir().unwrap();
    /// let workspace = Workspace::open(dir.path())?.unprotected(".vscode");
    /// # Ok::<_, loopwright_tools::WorkspaceError>(())
    /// ```
    pub fn unprotected(mut self, path: impl AsRef<Path>) -> Self {
        let path = names(&lexical(path.as_ref()));
        self.unprotected = self.unprotected.iter().cloned().chain([path]).collect();
        self
    }

    /// Returns whether a write to `path` would change a protected file according to its name. The
    /// name of a link does not reveal its target: see [`refuse_hidden`](Self::refuse_hidden).
    pub(crate) fn is_protected(&self, path: &str) -> bool {
        self.relative(path).is_ok_and(|path| self.reason(&lexical(&path)).is_some())
    }

    /// Returns the patterns that commands may not change directly in a workspace, including lifted
    /// ones.
    #[cfg(all(feature = "commands", target_os = "linux"))]
    pub(crate) fn all_patterns(&self) -> Vec<&'static str> {
        PROTECTED.iter().map(|line| line.0).collect()
    }

    /// Returns the patterns that commands may not change directly in this workspace, except in
    /// `.git`.
    #[cfg(feature = "commands")]
    pub(crate) fn protected_patterns(&self) -> impl Iterator<Item = &'static str> {
        PROTECTED.iter().map(|line| line.0).filter(|path| !self.is_open(Path::new(path)))
    }

    /// Returns whether there is such a pattern.
    #[cfg(feature = "commands")]
    pub(crate) fn protects_files(&self) -> bool {
        self.protected_patterns().next().is_some()
    }

    /// Returns whether the protection of a path in the workspace is lifted.
    #[cfg(feature = "commands")]
    pub(crate) fn is_open(&self, path: &Path) -> bool {
        self.is_unprotected(&names(path))
    }

    /// Returns an error if a write to `path`, which goes to `target`, would change a protected file
    /// that the path does not name. The approver of the call did not see that name.
    pub(super) fn refuse_hidden(&self, path: &str, target: &Path) -> Result<()> {
        self.refuse_unnamed(path, &self.without_links(target))
    }

    /// Checks like [`refuse_hidden`](Self::refuse_hidden), for the opened directory of `target`,
    /// which a link may have replaced since.
    pub(super) fn refuse_hidden_in(&self, dir: &Dir, path: &str, target: &Path) -> Result<()> {
        let real = self.without_links(target);
        let parent = real.parent().filter(|parent| !parent.as_os_str().is_empty());
        let found = self.root.dir.metadata(parent.unwrap_or(Path::new(".")));
        match (found, dir.dir_metadata()) {
            (Ok(found), Ok(opened)) if file_id(&found) == file_id(&opened) => {
                self.refuse_unnamed(path, &real)
            }
            _ => {
                let since = "its directory was opened";
                Err(WorkspaceError::Changed { path: printable(path), since })
            }
        }
    }

    fn refuse_unnamed(&self, path: &str, real: &Path) -> Result<()> {
        let target = lexical(real);
        let Some(why) = self.reason(&target).filter(|_| !self.is_protected(path)) else {
            return Ok(());
        };
        let target = target.display().to_string();
        Err(WorkspaceError::Protected { path: printable(path), file: printable(&target), why })
    }

    /// Resolves the symbolic links in the directories of a path, as far as they exist.
    fn without_links(&self, path: &Path) -> PathBuf {
        for ancestor in path.ancestors().skip(1) {
            let dir = if ancestor.as_os_str().is_empty() { Path::new(".") } else { ancestor };
            if let (Ok(real), Ok(rest)) =
                (self.root.dir.canonicalize(dir), path.strip_prefix(ancestor))
            {
                return real.join(rest);
            }
        }
        path.to_owned()
    }

    /// Returns why a path is protected, or `None` if it is not.
    fn reason(&self, path: &Path) -> Option<&'static str> {
        let names = names(path);
        if self.is_unprotected(&names) {
            return None;
        }
        let of_part =
            |part: &[String]| part_protection(part).filter(|_| !self.is_unprotected(part));
        let by_name = (0..names.len()).find_map(|n| of_part(&names[n..]));
        by_name.or_else(|| self.in_repository(path, &names).then_some(REPOSITORY))
    }

    /// Returns whether the path is in a directory with a `HEAD`, and either makes the directory a
    /// repository, or would be obeyed by git if the directory is one.
    fn in_repository(&self, path: &Path, names: &[String]) -> bool {
        let dirs: Vec<&Path> = path.ancestors().skip(1).collect();
        dirs.iter().rev().zip(names).any(|(dir, name)| {
            IN_REPOSITORY.contains(&name.as_str())
                && self.root.dir.symlink_metadata(dir.join("HEAD")).is_ok()
        })
    }

    fn is_unprotected(&self, names: &[String]) -> bool {
        self.unprotected.iter().any(|prefix| names.starts_with(prefix))
    }
}

/// Returns the paths that are protected in a workspace, each with everything below it. `*` stands
/// for any name.
///
/// ```
/// assert!(loopwright_tools::protected_paths().any(|path| path == ".git/hooks"));
/// ```
pub fn protected_paths() -> impl Iterator<Item = &'static str> {
    ASKED_ONLY.iter().chain(PROTECTED).map(|line| line.0)
}

/// Returns why a path is protected in any directory, or `None` if it is not.
pub(crate) fn protection(path: &str) -> Option<&'static str> {
    let names = names(&lexical(Path::new(path)));
    (0..names.len()).find_map(|n| part_protection(&names[n..]))
}

/// Returns why the file with these names, below some directory, is protected.
fn part_protection(names: &[String]) -> Option<&'static str> {
    let lines = ASKED_ONLY.iter().chain(PROTECTED);
    let of_line = |line: &&Line| begins_with(names, line.0);
    // Creating a `HEAD` makes the directory a repository.
    let head = || (names.len() == 1 && names[0] == "head").then_some(REPOSITORY);
    lines.clone().find(of_line).map(|line| line.1).or_else(head)
}

/// Returns whether the first names match the pattern.
pub(super) fn begins_with(names: &[String], pattern: &str) -> bool {
    let mut names = names.iter();
    pattern.split('/').all(|part| names.next().is_some_and(|name| matches(name, part)))
}

/// Returns whether a lower-case name matches the pattern, which may contain a `*`.
pub(crate) fn matches(name: &str, pattern: &str) -> bool {
    match pattern.split_once('*') {
        Some((start, end)) => {
            name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
        }
        None => name == pattern,
    }
}

/// Returns the path without `.` and `..`.
fn lexical(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::ParentDir => {
                clean.pop();
            }
            _ => {}
        }
    }
    clean
}

/// Returns the names in a path in lower case, because some file systems ignore case.
pub(crate) fn names(path: &Path) -> Vec<String> {
    path.iter().map(|name| name.to_string_lossy().to_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_tools_run_are_protected_in_every_directory_and_spelling() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let absolute = dir.path().join(".envrc").display().to_string();
        for path in [
            ".git/config",
            ".git/hooks/pre-commit",
            ".git",
            "a/../.git/config",
            "./.GIT/Config",
            "deep/er/.vscode/tasks.json",
            ".git/modules/sub/hooks/post-checkout",
            "vendor/lib/.git/config",
            ".git/index",
            ".git/hooks/../description",
            ".git/rebase-merge/git-rebase-todo",
            ".Rprofile",
            "deep/lefthook.yaml",
            ".venv/bin/activate.fish",
            "server.git/HEAD",
            &absolute,
        ] {
            assert!(workspace.is_protected(path), "{path}");
        }
        for path in [
            ".gitignore",
            "src/config",
            "HEAD/config",
            "hooks/pre-commit",
            ".github/workflows/ci.yml",
            "vscode/tasks.json",
            "../.envrc/..",
        ] {
            assert!(!workspace.is_protected(path), "{path}");
        }
    }

    /// C433: A bare repository is recognised by the contents of a directory, even before it is
    /// complete.
    #[test]
    fn a_bare_repository_is_protected_whatever_its_name() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let parts = ["config", "hooks/pre-commit", "objects/x", "refs/x", "commondir"];
        assert!(parts.iter().all(|part| !workspace.is_protected(&format!("a/b/{part}"))));
        assert!(workspace.is_protected("a/b/HEAD"), "without it there is no repository");
        std::fs::create_dir_all(dir.path().join("a/b")).unwrap();
        std::fs::write(dir.path().join("a/b/HEAD"), "ref: refs/heads/main").unwrap();
        assert!(parts.iter().all(|part| workspace.is_protected(&format!("a/b/{part}"))));
        assert!(!workspace.is_protected("a/b/src/main.rs") && !workspace.is_protected("a/config"));
        let open = workspace.unprotected("a/b");
        assert!(!open.is_protected("a/b/config"));
        std::fs::write(dir.path().join("HEAD"), "ref: refs/heads/main").unwrap();
        assert!(open.is_protected("config"), "the workspace itself is a repository");
    }

    #[test]
    fn the_protection_can_be_lifted_for_a_path_or_for_all() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let one = workspace.clone().unprotected("./.VSCode").unprotected(".git/hooks");
        for (path, protected) in [
            (".vscode/tasks.json", false),
            ("sub/.vscode/tasks.json", false),
            (".git/hooks/pre-commit", false),
            (".git/config", true),
            (".envrc", true),
        ] {
            assert_eq!(one.is_protected(path), protected, "{path}");
        }
        let all = workspace.clone().unprotected(".");
        assert!(protected_paths().all(|path| !all.is_protected(path)));
        assert!(protected_paths().all(|path| workspace.is_protected(path)));
    }
}
