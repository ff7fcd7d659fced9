//! The house rules: floors and directions of imports, file sizes, first lines, claims with tests.

mod claims;
mod code;
mod documents;
mod edges;
mod layers;
mod protocols;
mod style;
mod types;
mod weight;

use std::fs;
use std::path::{Path, PathBuf};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

fn read(path: impl AsRef<Path>) -> String {
    fs::read_to_string(Path::new(ROOT).join(&path))
        .unwrap_or_else(|e| panic!("{}: {e}", path.as_ref().display()))
}

/// Every Rust file of the repository, relative to its root.
fn rust_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(Path::new(ROOT).join(&folder)).unwrap() {
            let entry = entry.unwrap();
            let path = folder.join(entry.file_name());
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type().unwrap().is_dir() {
                if !name.starts_with('.') && name != "target" {
                    folders.push(path);
                }
            } else if name.ends_with(".rs") {
                files.push(path);
            }
        }
    }
    assert!(files.len() > 40, "the files of the repository were found");
    files
}

/// Returns the text up to the module of its tests.
fn without_tests(text: &str) -> &str {
    let mut marks = text.match_indices("\n#[cfg(test)]\n");
    let tests = marks.find(|(at, mark)| {
        let next = text[at + mark.len()..].lines().find(|line| !line.starts_with("#["));
        next.is_some_and(|line| line.starts_with("mod ") || line.starts_with("pub(crate) mod "))
    });
    tests.map_or(text, |(at, _)| &text[..at])
}

#[test]
fn every_file_says_on_its_first_line_what_it_is() {
    let silent: Vec<_> =
        rust_files().into_iter().filter(|f| !read(f).starts_with("//! ")).collect();
    assert_eq!(silent, Vec::<PathBuf>::new());
}

#[test]
fn no_file_has_more_than_500_lines_without_tests() {
    let long: Vec<_> = rust_files()
        .into_iter()
        .filter(|f| without_tests(&read(f)).lines().count() > 500)
        .collect();
    assert_eq!(long, Vec::<PathBuf>::new());
}

/// `app → server → {tools, providers, memory, patterns, durable, protocols, mcp, otel} → core`; the
/// crates in the middle never import each other.
#[test]
fn crates_depend_only_downwards() {
    let allowed = [
        ("Cargo.toml", vec![]),
        (
            "facade/Cargo.toml",
            vec![
                "loopwright-core",
                "loopwright-durable",
                "loopwright-macros",
                "loopwright-mcp",
                "loopwright-memory",
                "loopwright-otel",
                "loopwright-patterns",
                "loopwright-protocols",
                "loopwright-providers",
                "loopwright-server",
                "loopwright-tools",
            ],
        ),
        ("macros/Cargo.toml", vec![]),
        ("patterns/Cargo.toml", vec!["loopwright-core"]),
        ("memory/Cargo.toml", vec!["loopwright-core"]),
        ("durable/Cargo.toml", vec!["loopwright-core"]),
        ("protocols/Cargo.toml", vec!["loopwright-core"]),
        ("mcp/Cargo.toml", vec!["loopwright-core"]),
        ("otel/Cargo.toml", vec!["loopwright-core"]),
        ("providers/Cargo.toml", vec!["loopwright-core"]),
        ("tools/Cargo.toml", vec!["loopwright-core"]),
        (
            "server/Cargo.toml",
            vec![
                "loopwright-core",
                "loopwright-durable",
                "loopwright-mcp",
                "loopwright-memory",
                "loopwright-otel",
                "loopwright-patterns",
                "loopwright-protocols",
                "loopwright-providers",
                "loopwright-tools",
            ],
        ),
        (
            "app/Cargo.toml",
            vec![
                "loopwright-core",
                "loopwright-durable",
                "loopwright-mcp",
                "loopwright-memory",
                "loopwright-otel",
                "loopwright-patterns",
                "loopwright-protocols",
                "loopwright-providers",
                "loopwright-server",
                "loopwright-tools",
            ],
        ),
    ];
    for (manifest, allowed) in allowed {
        let text = read(manifest);
        let section = text
            .split("\n[dependencies]")
            .nth(1)
            .and_then(|rest| rest.split("\n[").next())
            .unwrap_or_default();
        let ours = section
            .lines()
            .filter_map(|l| l.split(['.', ' ', '=']).next())
            .filter(|name| name.starts_with("loopwright"));
        for name in ours {
            assert!(allowed.contains(&name), "{manifest} must not depend on {name}");
        }
    }
}

/// Core knows no HTTP, no database and no terminal.
#[test]
fn core_stays_lean() {
    let text = read("Cargo.toml");
    let section =
        text.split("\n[dependencies]").nth(1).and_then(|rest| rest.split("\n[").next()).unwrap();
    for name in ["reqwest", "hyper", "axum", "rusqlite", "crossterm", "clap"] {
        assert!(!section.contains(name), "core depends on {name}");
    }
}

/// No sleeps in tests: what waits does so for an event or a gate, or under paused time.
#[test]
fn tests_do_not_sleep() {
    let sleeps = concat!("thread::", "sleep");
    for file in rust_files() {
        assert!(!read(&file).contains(sleeps), "{} sleeps", file.display());
        let text = read(&file);
        if file.starts_with("tests") && text.contains("sleep(") && text.contains("#[tokio::test") {
            assert!(
                !text.contains("#[tokio::test]\n"),
                "{} sleeps in a test whose time is not paused",
                file.display()
            );
        }
    }
}

/// The lint that keeps the tools in their workspace is allowed away in two files, and in tests.
#[test]
fn only_the_workspace_touches_files_and_only_process_starts_processes() {
    let is_test = |file: &Path| file.ends_with("tests.rs") || file.ends_with("src/escape_tests.rs");
    let open: Vec<_> = rust_files()
        .into_iter()
        .filter(|file| file.starts_with("tools/src") && !is_test(file))
        .filter(|file| {
            let text = read(file);
            text.split("#[cfg(test)]")
                .next()
                .is_some_and(|code| code.contains("clippy::disallowed_methods"))
        })
        .filter(|file| {
            !["tools/src/workspace.rs", "tools/src/process.rs"]
                .iter()
                .any(|known| file == Path::new(known))
        })
        .collect();
    assert_eq!(open, Vec::<PathBuf>::new());
}
