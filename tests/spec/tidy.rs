//! The house rules that no lint of the compiler can check: directions, sizes, claims with tests.

mod claims;
mod code;
mod documents;
mod edges;
mod layers;
mod paths;
mod protocols;
mod style;
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
    fn add(folder: &Path, files: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(Path::new(ROOT).join(folder)).unwrap().map(Result::unwrap) {
            let path = folder.join(entry.file_name());
            let name = entry.file_name().into_string().unwrap();
            match entry.file_type().unwrap().is_dir() {
                true if !name.starts_with('.') && name != "target" => add(&path, files),
                false if name.ends_with(".rs") => files.push(path),
                _ => {}
            }
        }
    }
    let mut files = Vec::new();
    add(Path::new(""), &mut files);
    assert!(files.len() > 40, "the files of the repository were found");
    files
}

/// Returns the files that break a rule.
fn files_where(is_broken: impl Fn(&Path, &str) -> bool) -> Vec<PathBuf> {
    rust_files().into_iter().filter(|file| is_broken(file, &read(file))).collect()
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

const NONE: [PathBuf; 0] = [];

#[test]
fn every_file_says_on_its_first_line_what_it_is() {
    assert_eq!(files_where(|_, text| !text.starts_with("//! ")), NONE);
}

#[test]
fn no_file_has_more_than_500_lines_without_tests() {
    assert_eq!(files_where(|_, text| without_tests(text).lines().count() > 500), NONE);
}

/// `app → server → host → {tools, providers, memory, patterns, durable, protocols, mcp, otel,
/// code} → core`; the crates in the middle never import each other. Cargo itself refuses circles of
/// packages.
#[test]
fn crates_depend_only_downwards() {
    let middle = "code durable mcp memory otel patterns protocols providers tools";
    let host = format!("core {middle}");
    let server = format!("host {host}");
    let all = format!("server {server}");
    let facade = format!("{all} macros");
    let mut allowed = vec![(".", ""), ("macros", ""), ("facade", &*facade)];
    allowed.extend([("host", &*host), ("server", &*server), ("app", &*all)]);
    allowed.extend(middle.split(' ').map(|folder| (folder, "core")));
    for (folder, crates) in allowed {
        let manifest = read(Path::new(folder).join("Cargo.toml"));
        let section = manifest.split("\n[dependencies]").nth(1).unwrap().split("\n[").next();
        for line in section.unwrap().lines() {
            let Some(name) = line.strip_prefix("loopwright-") else { continue };
            let name = name.split(['.', ' ', '=']).next().unwrap();
            let is_allowed = crates.split(' ').any(|known| known == name);
            assert!(is_allowed, "{folder} must not depend on loopwright-{name}");
        }
    }
}

/// The terminal, `run` and the other commands need no HTTP server: only `serve` has one.
#[test]
fn only_serve_uses_the_server() {
    let users =
        files_where(|file, text| file.starts_with("app/src") && text.contains("loopwright_server"));
    let mut users: Vec<_> = users.iter().map(|file| file.to_str().unwrap()).collect();
    users.sort();
    let expected = [
        "app/src/args/cluster.rs", // the placement of `serve`
        "app/src/args/serve.rs",
        "app/src/commands/config.rs", // the defaults of `serve`
        "app/src/commands/serve.rs",
        "app/src/telemetry.rs", // the telemetry of `serve`
    ];
    assert_eq!(users, expected);
}

/// Tests wait for events and gates, or run under paused time. `clippy.toml` refuses sleeping
/// threads.
#[test]
fn tests_sleep_only_under_paused_time() {
    let sleeps = |file: &Path, text: &str| {
        file.starts_with("tests") && text.contains("sleep(") && text.contains("#[tokio::test]\n")
    };
    assert_eq!(files_where(sleeps), NONE);
}

/// The lint that keeps the tools in their workspace is allowed away in two files, and in tests.
#[test]
fn only_the_workspace_touches_files_and_only_process_starts_processes() {
    let open = files_where(|file, text| {
        let code = text.split("#[cfg(test)]").next().unwrap();
        let is_test = file.to_string_lossy().ends_with("tests.rs");
        file.starts_with("tools/src") && !is_test && code.contains("clippy::disallowed_methods")
    });
    let mut open: Vec<_> = open.iter().map(|file| file.to_str().unwrap()).collect();
    open.sort();
    assert_eq!(open, ["tools/src/process.rs", "tools/src/workspace.rs"]);
}
