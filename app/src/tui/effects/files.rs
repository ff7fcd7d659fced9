//! The files below a directory, honouring `.gitignore`.

use std::path::Path;

use ignore::WalkBuilder;

use crate::tui::state::Choice;

/// Maximum number of files that are offered.
pub(super) const MAX_FILES: usize = 50_000;

/// Lists up to `max` files and directories below the root. Directories end with `/`, and names with
/// spaces are quoted. Also returns whether more exist. Blocks.
pub(super) fn files(root: &Path, max: usize) -> (Vec<Choice>, bool) {
    let mut walk = WalkBuilder::new(root);
    walk.require_git(false).parents(false).follow_links(false).hidden(false);
    let walk = walk.filter_entry(|entry| entry.file_name() != ".git").build();
    let entries = walk.filter_map(Result::ok).filter(|entry| entry.depth() > 0);
    let name = |entry: ignore::DirEntry| {
        let path = entry.path().strip_prefix(root).ok()?.to_str()?.replace('\\', "/");
        let end = if entry.file_type().is_some_and(|kind| kind.is_dir()) { "/" } else { "" };
        let quote = if path.contains(char::is_whitespace) { "\"" } else { "" };
        Some(Choice::new(format!("{quote}{path}{end}{quote}"), ""))
    };
    let mut entries = entries.filter_map(name);
    let mut all: Vec<Choice> = entries.by_ref().take(max).collect();
    let more = entries.next().is_some();
    all.sort_by(|a, b| {
        (a.value.matches('/').count(), &a.value).cmp(&(b.value.matches('/').count(), &b.value))
    });
    (all, more)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hidden_files_are_offered_and_names_with_spaces_are_quoted() {
        let dir = tempfile::tempdir().unwrap();
        for path in [".ci/run", ".git/config", "a b/c", "target/x", ".gitignore", "z"] {
            let path = dir.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "target\n").unwrap();
        }
        let (all, more) = files(dir.path(), 100);
        let names: Vec<&str> = all.iter().map(|choice| choice.value.as_str()).collect();
        assert_eq!(names, [".gitignore", "z", "\"a b/\"", "\"a b/c\"", ".ci/", ".ci/run"]);
        assert!(!more);
        let (some, more) = files(dir.path(), 2);
        assert_eq!((some.len(), more), (2, true));
    }
}
