//! The files of a directory, as far as `.gitignore` lets them be seen.

use std::path::Path;

use ignore::WalkBuilder;

use crate::tui::state::Choice;

/// The most that are offered.
const MOST: usize = 50_000;

/// Files and directories below the root, directories with a `/`. Blocks.
pub(super) fn files(root: &Path) -> Vec<Choice> {
    let walk = WalkBuilder::new(root).require_git(false).parents(false).follow_links(false).build();
    let found = walk.filter_map(Result::ok).filter(|entry| entry.depth() > 0);
    let name = |entry: ignore::DirEntry| {
        let path = entry.path().strip_prefix(root).ok()?.to_str()?.replace('\\', "/");
        let end = if entry.file_type().is_some_and(|kind| kind.is_dir()) { "/" } else { "" };
        Some(Choice::new(format!("{path}{end}"), ""))
    };
    let mut all: Vec<Choice> = found.filter_map(name).take(MOST).collect();
    all.sort_by(|a, b| (a.value.matches('/').count(), &a.value).cmp(&(b.value.matches('/').count(), &b.value)));
    all
}
