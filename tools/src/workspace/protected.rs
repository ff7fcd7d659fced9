//! Protected files: those that the user's own tools run or obey, such as `.git/hooks`.
//!
//! A file that an agent writes is usually looked at before it is run. These are not: git, the
//! editor or the shell run them the next time that the user does something else.

use std::path::{Component, Path, PathBuf};

use cap_std::fs::Dir;

use super::root::{Result, Workspace};
use super::stamp::file_id;
use crate::error::{WorkspaceError, printable};

/// A path of a workspace, with everything below it, and why it is protected. `*` is any name.
type Line = (&'static str, &'static str);

/// What is protected. Files that the user runs knowingly, such as a `Makefile`, are not.
const PROTECTED: &[Line] = &[
    (".git/config", "git runs the programs that it names"),
    (".git/config.worktree", "git runs the programs that it names"),
    (".git/commondir", "git takes its configuration and hooks from there"),
    (".git/hooks", "git runs the files in it"),
    (".git/modules/*/config", "git runs the programs that it names"),
    (".git/modules/*/hooks", "git runs the files in it"),
    (".githooks", "git runs the files in it as hooks"),
    (".husky", "git runs the files in it as hooks"),
    (".pre-commit-config.yaml", "pre-commit runs the programs that it names"),
    ("lefthook.yml", "lefthook runs the programs that it names"),
    (".lefthook.yml", "lefthook runs the programs that it names"),
    (".envrc", "direnv runs it when a shell enters the directory"),
    ("mise.toml", "mise runs the programs that it names when a shell enters the directory"),
    (".mise.toml", "mise runs the programs that it names when a shell enters the directory"),
    (".vscode", "VS Code runs the tasks and programs that it names"),
    (".idea", "JetBrains' programs run the tasks and programs that it names"),
    (".zed", "Zed runs the tasks and programs that it names"),
    (".devcontainer", "editors run the containers and commands that it describes"),
    (".devcontainer.json", "editors run the containers and commands that it describes"),
    (".dir-locals.el", "Emacs evaluates it"),
    (".exrc", "vi runs it"),
    (".vimrc", "vim runs it"),
    (".nvimrc", "Neovim runs it"),
    (".nvim.lua", "Neovim runs it"),
    (".gdbinit", "gdb runs it"),
    (".lldbinit", "lldb runs it"),
    (".cargo", "cargo runs the programs that it names"),
    ("rust-toolchain", "cargo runs the toolchain that it names"),
    ("rust-toolchain.toml", "cargo runs the toolchain that it names"),
    (".npmrc", "npm runs the programs that it names"),
    (".pnpmfile.cjs", "pnpm runs it"),
    (".yarnrc.yml", "yarn runs the program that it names"),
    (".claude", "another agent runs the hooks and programs that it names"),
    (".codex", "another agent runs the programs that it names"),
    (".cursor", "another agent runs the programs that it names"),
    (".mcp.json", "other agents run the programs that it names"),
    // For a workspace that is the home directory.
    (".bashrc", "bash runs it"),
    (".bash_login", "bash runs it"),
    (".bash_logout", "bash runs it"),
    (".bash_profile", "bash runs it"),
    (".profile", "the shell runs it"),
    (".zlogin", "zsh runs it"),
    (".zprofile", "zsh runs it"),
    (".zshenv", "zsh runs it"),
    (".zshrc", "zsh runs it"),
    (".gitconfig", "git runs the programs that it names"),
    (".ssh", "ssh lets in whom it names, and runs the programs that it names"),
    (".config/autostart", "the desktop starts the programs that it names"),
    (".config/environment.d", "it sets the environment of the user's programs"),
    (".config/fish", "fish runs it"),
    (".config/git", "git runs the programs that it names"),
    (".config/systemd", "systemd starts the programs that it names"),
];

/// In a worktree or a submodule `.git` is a file, which names the real directory.
const GIT_FILE: Line = (".git", "git takes its configuration and hooks from there");

impl Workspace {
    /// Lets tools and commands change a file, or a directory with everything below it, that is
    /// protected otherwise. Relative to the workspace; `.` stands for all.
    ///
    /// Protected are files that the user's own tools run or obey without being asked:
    /// `.git/config`, `.git/hooks`, `.envrc`, `.vscode`, `.cargo` and others
    /// ([`protected_paths`](crate::protected_paths) lists them). `write_file` and `edit_file` need
    /// approval for them whatever the agent's rules say, in every directory of the workspace.
    /// Commands cannot change those directly in the workspace, as far as the system can enforce
    /// that; the description of `execute_command` says how far.
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
    /// name of a link says nothing about its target: [`refuse_hidden`](Self::refuse_hidden).
    pub(crate) fn is_protected(&self, path: &str) -> bool {
        self.relative(path).is_ok_and(|path| self.reason(&lexical(&path)).is_some())
    }

    /// Lists what is protected directly in this workspace.
    #[cfg(feature = "commands")]
    pub(crate) fn protected_patterns(&self) -> Vec<&'static str> {
        let all = PROTECTED.iter().chain([&GIT_FILE]).map(|line| line.0);
        let is_protected = |path: &&str| {
            let names: Vec<String> = path.split('/').map(str::to_owned).collect();
            !self.is_unprotected(&names)
        };
        all.filter(is_protected).collect()
    }

    /// Returns an error if a write to `path`, which goes to `target`, would change a protected file
    /// that the path does not name. Whoever approved the call did not see its name.
    pub(super) fn refuse_hidden(&self, path: &str, target: &Path) -> Result<()> {
        self.refuse_unnamed(path, &self.without_links(target))
    }

    /// As [`refuse_hidden`](Self::refuse_hidden), for the directory of `target` that was opened,
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

    /// Resolves the symbolic links of the directories of a path, as far as they exist.
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

    /// Returns why a path is protected.
    fn reason(&self, path: &Path) -> Option<&'static str> {
        let names = names(path);
        if self.is_unprotected(&names) {
            return None;
        }
        let of_part =
            |part: &[String]| part_protection(part).filter(|_| !self.is_unprotected(part));
        (0..names.len()).find_map(|n| of_part(&names[n..]))
    }

    fn is_unprotected(&self, names: &[String]) -> bool {
        self.unprotected.iter().any(|prefix| names.starts_with(prefix))
    }
}

/// Lists the paths that are protected in a workspace, each with everything below it; `*` stands for
/// any name.
///
/// ```
/// assert!(loopwright_tools::protected_paths().any(|path| path == ".git/hooks"));
/// ```
pub fn protected_paths() -> impl Iterator<Item = &'static str> {
    PROTECTED.iter().map(|line| line.0)
}

/// Returns why a path is protected in any directory, or `None` if it is not.
pub(crate) fn protection(path: &str) -> Option<&'static str> {
    let names = names(&lexical(Path::new(path)));
    (0..names.len()).find_map(|n| part_protection(&names[n..]))
}

/// Returns why the file with these names below some directory is protected.
fn part_protection(names: &[String]) -> Option<&'static str> {
    if names.len() == 1 && names[0] == GIT_FILE.0 {
        return Some(GIT_FILE.1);
    }
    PROTECTED.iter().find(|(pattern, _)| begins_with(names, pattern)).map(|line| line.1)
}

/// Returns whether the first names are those of the pattern.
fn begins_with(names: &[String], pattern: &str) -> bool {
    let mut names = names.iter();
    pattern.split('/').all(|part| names.next().is_some_and(|name| part == "*" || part == name))
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

/// Returns the names in a path in lower case: some file systems do not distinguish it.
fn names(path: &Path) -> Vec<String> {
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
            &absolute,
        ] {
            assert!(workspace.is_protected(path), "{path}");
        }
        for path in [
            ".gitignore",
            ".git/index",
            ".git/hooks/../description",
            "src/config",
            "hooks/pre-commit",
            ".github/workflows/ci.yml",
            "vscode/tasks.json",
            "../.envrc/..",
        ] {
            assert!(!workspace.is_protected(path), "{path}");
        }
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
