//! The search for protected files, and for directories that are repositories.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use crate::workspace::{GitFile, WITH_REPOSITORIES, git_file, matches, names};

/// The protected paths in a workspace that is itself a bare repository.
pub(super) const IN_BARE: [&str; 5] =
    ["config", "config.worktree", "commondir", "hooks", "info/attributes"];

/// The maximum number of entries that are read of a directory.
pub(super) const MAX_ENTRIES: usize = 4_096;
/// The maximum number of names in a directory that are compared with patterns.
const MAX_NAMES: usize = 65_536;
/// The maximum number of protected files in a repository. Each of them may be a mount.
const MAX_FOUND: usize = 4_096;
/// The maximum number of directories that are searched for repositories.
const MAX_DIRECTORIES: usize = 4_096;
/// The maximum depth of a submodule, in others or in directories.
const MAX_DEPTH: usize = 8;
/// The maximum size of a rebase's list of steps that is read.
const MAX_TODO_BYTES: u64 = 1 << 20;

/// Adds the paths below `root` that match one of the patterns.
pub(super) fn find<'p>(
    root: &Path,
    patterns: impl IntoIterator<Item = &'p str>,
    found: &mut Vec<PathBuf>,
) {
    let mut names = Names { root, read: HashMap::new() };
    for pattern in patterns {
        names.find(Path::new(""), pattern, found);
    }
}

/// The names in a directory, by their lower-case form.
type ByLowerCase = HashMap<String, Vec<OsString>>;

/// The names in directories below a root. Each directory is read once for all patterns.
struct Names<'r> {
    root: &'r Path,
    read: HashMap<PathBuf, Rc<ByLowerCase>>,
}

impl Names<'_> {
    fn find(&mut self, above: &Path, pattern: &str, found: &mut Vec<PathBuf>) {
        let (first, rest) = pattern.split_once('/').map_or((pattern, None), |(a, b)| (a, Some(b)));
        let names = self.of(above);
        let matching: Vec<&Vec<OsString>> = match first.contains('*') {
            true => names.iter().filter(|(lower, _)| matches(lower, first)).map(|n| n.1).collect(),
            false => names.get(first).into_iter().collect(),
        };
        let mut paths: Vec<PathBuf> =
            matching.into_iter().flatten().map(|name| above.join(name)).collect();
        let itself = above.join(first);
        // The name may be beyond the entries that were read.
        if !paths.contains(&itself) && self.root.join(&itself).symlink_metadata().is_ok() {
            paths.push(itself);
        }
        match rest {
            Some(rest) => paths.iter().for_each(|path| self.find(path, rest, found)),
            None => found.extend(paths),
        }
    }

    fn of(&mut self, dir: &Path) -> Rc<ByLowerCase> {
        if let Some(known) = self.read.get(dir) {
            return known.clone();
        }
        let read = std::fs::read_dir(self.root.join(dir)).into_iter().flatten();
        let mut names = ByLowerCase::new();
        for entry in read.filter_map(Result::ok).take(MAX_NAMES) {
            let name = entry.file_name();
            names.entry(name.to_string_lossy().to_lowercase()).or_default().push(name);
        }
        let names = Rc::new(names);
        self.read.insert(dir.to_owned(), names.clone());
        names
    }
}

/// Adds the protected paths of `repository` below `root`: all paths that git does not write.
pub(super) fn find_in_git(root: &Path, repository: &Path, found: &mut Vec<PathBuf>) {
    in_repository(root, repository, 0, found);
}

fn in_repository(root: &Path, repository: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if depth > MAX_DEPTH || !is_dir(&root.join(repository)) {
        return;
    }
    for name in entries(&root.join(repository)) {
        match is_one_of(&WITH_REPOSITORIES, &name) && is_dir(&root.join(repository).join(&name)) {
            true => in_repositories(root, &repository.join(name), depth + 1, found),
            false => in_part(root, repository, Path::new(&name), found),
        }
    }
}

/// Searches a directory for repositories: the name of a submodule may be a path.
fn in_repositories(root: &Path, dir: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    if depth > MAX_DEPTH {
        return;
    }
    for name in entries(&root.join(dir)) {
        let path = dir.join(name);
        if root.join(&path).join("HEAD").symlink_metadata().is_ok() {
            in_repository(root, &path, depth + 1, found);
        } else if is_dir(&root.join(&path)) {
            in_repositories(root, &path, depth + 1, found);
        }
    }
}

fn in_part(root: &Path, repository: &Path, part: &Path, found: &mut Vec<PathBuf>) {
    let path = repository.join(part);
    match git_file(&names(part)) {
        GitFile::Written => {}
        GitFile::PartlyWritten if is_dir(&root.join(&path)) => {
            for name in entries(&root.join(&path)) {
                in_part(root, repository, &part.join(name), found);
            }
        }
        // The files that git runs or obeys were found by the list before.
        GitFile::PartlyWritten | GitFile::Protected if found.len() >= MAX_FOUND => {}
        GitFile::PartlyWritten | GitFile::Protected => found.push(path),
    }
}

/// Returns the directories below `root` that are repositories not named `.git`, nearest first. A
/// limit bounds the search, so it may miss deep repositories.
pub(super) fn find_repositories(root: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = VecDeque::from([PathBuf::new()]);
    let mut left = MAX_DIRECTORIES;
    while let Some(dir) = pending.pop_front() {
        let read = std::fs::read_dir(root.join(&dir)).into_iter().flatten();
        let mut parts = 0;
        for entry in read.filter_map(Result::ok).take(MAX_ENTRIES) {
            let name = entry.file_name();
            parts += usize::from(is_one_of(&["head", "objects", "refs"], &name));
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_dir && left > 0 && !is_one_of(&[".git"], &name) {
                left -= 1;
                pending.push_back(dir.join(name));
            }
        }
        if parts >= 3 && is_repository(&root.join(&dir)) {
            found.push(dir);
        }
    }
    found
}

/// Returns whether git would regard the directory as a repository.
pub(super) fn is_repository(dir: &Path) -> bool {
    ["HEAD", "objects", "refs"].iter().all(|name| dir.join(name).symlink_metadata().is_ok())
}

/// Returns the commands that git will run when a rebase continues in this repository or one of its
/// working trees.
pub(super) fn find_commands(git: &Path) -> BTreeSet<String> {
    let trees = entries(&git.join("worktrees")).into_iter();
    let trees = trees.map(|name| git.join("worktrees").join(name));
    let mut commands = BTreeSet::new();
    for repository in trees.chain([git.to_owned()]) {
        let todo = repository.join("rebase-merge/git-rebase-todo");
        let is_file = todo.symlink_metadata().is_ok_and(|metadata| metadata.is_file());
        if !is_file || todo.metadata().is_ok_and(|metadata| metadata.len() > MAX_TODO_BYTES) {
            continue;
        }
        let text = std::fs::read(&todo).unwrap_or_default();
        let text = String::from_utf8_lossy(&text);
        let runs = |line: &&str| matches!(line.split_whitespace().next(), Some("exec" | "x"));
        commands.extend(text.lines().filter(runs).map(str::to_owned));
    }
    commands
}

/// Returns the directories above these paths. Each comes before the directories in it.
pub(super) fn parents(paths: &[PathBuf]) -> Vec<PathBuf> {
    let above = paths.iter().flat_map(|path| path.ancestors().skip(1));
    let above = above.filter(|path| !path.as_os_str().is_empty()).map(Path::to_owned);
    let mut parents: Vec<PathBuf> = above.collect();
    parents.sort();
    parents.dedup();
    parents
}

fn entries(dir: &Path) -> Vec<OsString> {
    let entries = std::fs::read_dir(dir).into_iter().flatten().filter_map(Result::ok);
    entries.take(MAX_ENTRIES).map(|entry| entry.file_name()).collect()
}

fn is_one_of(wanted: &[&str], name: &OsString) -> bool {
    let name = name.to_string_lossy();
    wanted.iter().any(|wanted| name.eq_ignore_ascii_case(wanted))
}

fn is_dir(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|metadata| metadata.is_dir())
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    /// Commands may put many files next to a protected one.
    #[test]
    fn a_protected_file_is_found_among_more_names_than_are_compared() {
        let root = tempfile::tempdir().unwrap();
        for n in 0..MAX_NAMES + 10 {
            File::create(root.path().join(n.to_string())).unwrap();
        }
        File::create(root.path().join(".envrc")).unwrap();
        let mut found = Vec::new();
        find(root.path(), [".envrc", "mise.toml", "*.none"], &mut found);
        assert_eq!(found, [Path::new(".envrc")]);
    }

    #[test]
    fn names_are_compared_without_regard_to_case() {
        let root = tempfile::tempdir().unwrap();
        for dir in [".VSCode", ".vscode", "other"] {
            std::fs::create_dir(root.path().join(dir)).unwrap();
            File::create(root.path().join(dir).join("Tasks.json")).unwrap();
        }
        let mut found = Vec::new();
        find(root.path(), [".vscode/*.json", ".idea"], &mut found);
        found.sort();
        assert_eq!(found, [".VSCode/Tasks.json", ".vscode/Tasks.json"].map(PathBuf::from));
    }
}
