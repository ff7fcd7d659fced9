//! The documents are short, name files that exist, and list every separate test.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{ROOT, read, rust_files};
use crate::packages::metadata;

/// Returns the Markdown files at the root, in `docs/` and in the guide, relative to the root.
fn documents() -> Vec<PathBuf> {
    let folders = ["", "docs", "docs/design", "docs/guide/src"];
    let files = folders.iter().flat_map(|folder| {
        let entries = Path::new(ROOT).join(folder).read_dir().unwrap();
        entries.map(move |entry| Path::new(folder).join(entry.unwrap().file_name()))
    });
    files.filter(|file| file.extension().is_some_and(|ext| ext == "md")).collect()
}

/// A document names a Rust file by its path or by the end of it, such as `state/compacted.rs`, and
/// links to files beside it.
#[test]
fn files_named_in_documents_exist() {
    let files = rust_files();
    for document in documents() {
        let text = read(&document);
        for name in text.split('`').skip(1).step_by(2).filter(|name| name.ends_with(".rs")) {
            let exists = files.iter().any(|file| file.ends_with(name));
            assert!(exists, "{} names `{name}`, which does not exist", document.display());
        }
        let folder = Path::new(ROOT).join(document.parent().unwrap());
        let links = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next());
        for link in links.filter(|link| !link.is_empty() && !link.contains("://")) {
            assert!(folder.join(link).exists(), "{} links to {link}", document.display());
        }
    }
}

/// `cargo test` leaves out targets with `test = false`; `docs/testing.md` has their commands.
#[test]
fn every_separate_test_and_benchmark_is_listed() {
    let page = read("docs/testing.md").replace('`', " ");
    let packages = metadata(&["--no-deps"])["packages"].take();
    let targets = packages
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|package| package["targets"].as_array().unwrap());
    for target in targets.filter(|target| target["test"] == false) {
        let Value::String(kind) = &target["kind"][0] else { panic!("{target}") };
        let command = format!("--{kind} {} ", target["name"].as_str().unwrap());
        let is_separate = kind == "test" || kind == "bench";
        assert!(!is_separate || page.contains(&command), "docs/testing.md does not have {command}");
    }
}

/// Files that are made here are in no commit, and in no build in a container.
#[test]
fn docker_ignores_what_git_ignores() {
    let ignored = read(".dockerignore");
    for line in read(".gitignore").lines() {
        assert!(ignored.lines().any(|own| own == line), ".dockerignore does not have {line}");
    }
}

#[test]
fn the_readme_and_the_architecture_page_are_short() {
    assert!(read("README.md").len() < 7_000);
    assert!(read("ARCHITECTURE.md").len() <= 10 * 1024);
}
