//! The files of a repository that git itself must write. All others are protected.

use super::protected::{begins_with, matches};

/// The paths that git writes in a repository. In lower case; `*` is any part of a name.
const WRITTEN: &[&str] = &[
    // Objects, branches, and the state of the working tree.
    "objects",
    "refs",
    "reftable",
    "logs",
    "packed-refs*",
    "shallow*",
    "index*",
    "sharedindex.*",
    "next-index-*",
    "*.lock",
    "info/refs*",
    "info/sparse-checkout*",
    // The state of commands in progress.
    "head",
    "*_head",
    "*_msg",
    "*_editmsg",
    "merge_mode",
    "merge_rr",
    "merge_autostash",
    "auto_merge",
    "notes_merge_*",
    "edit_description",
    "bisect_*",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
    "rr-cache",
    "addp-hunk-edit.diff",
    "fsmonitor--daemon*",
    "gc.*",
    "lost-found",
    // Programs that extend git keep their data there, and run none of it.
    "annex",
    "lfs",
    "svn",
];

/// The protected paths in directories that git writes.
const OBEYED: &[&str] = &["objects/info/alternates", "objects/info/http-alternates"];

/// The directories of a repository that contain others: submodules and working trees.
pub(crate) const WITH_REPOSITORIES: [&str; 2] = ["modules", "worktrees"];

/// The protection of a path in a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum GitFile {
    /// Git writes the path and everything below it.
    Written,
    /// Git writes a part of the directory.
    PartlyWritten,
    /// Git only reads the path.
    Protected,
}

/// Returns the protection of a path below the directory of a repository, except
/// [`WITH_REPOSITORIES`]. `names` are in lower case.
pub(crate) fn git_file(names: &[String]) -> GitFile {
    let is_above = |pattern: &&&str| {
        let parts: Vec<&str> = pattern.split('/').collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        parts.len() > names.len()
            && names.iter().zip(&parts).all(|(name, part)| matches(name, part))
    };
    if OBEYED.iter().any(|pattern| begins_with(names, pattern)) {
        GitFile::Protected
    } else if OBEYED.iter().chain(WRITTEN).any(|pattern| is_above(&pattern)) {
        GitFile::PartlyWritten
    } else if WRITTEN.iter().any(|pattern| begins_with(names, pattern)) {
        GitFile::Written
    } else {
        GitFile::Protected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_git_writes_is_not_protected() {
        for (path, expected) in [
            ("objects", GitFile::PartlyWritten),
            ("objects/ab/cdef", GitFile::Written),
            ("objects/info", GitFile::PartlyWritten),
            ("objects/info/commit-graph", GitFile::Written),
            ("objects/info/alternates", GitFile::Protected),
            ("refs/heads/main", GitFile::Written),
            ("index.lock", GitFile::Written),
            ("config.lock", GitFile::Written),
            ("rebase-merge/git-rebase-todo", GitFile::Written),
            ("cherry_pick_head", GitFile::Written),
            ("info", GitFile::PartlyWritten),
            ("info/sparse-checkout", GitFile::Written),
            ("info/attributes", GitFile::Protected),
            ("config", GitFile::Protected),
            ("config.worktree", GitFile::Protected),
            ("hooks", GitFile::Protected),
            ("hooks/pre-commit", GitFile::Protected),
            ("commondir", GitFile::Protected),
            ("anything", GitFile::Protected),
        ] {
            let names: Vec<String> = path.split('/').map(str::to_owned).collect();
            assert_eq!(git_file(&names), expected, "{path}");
        }
    }
}
