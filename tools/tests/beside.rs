//! Comparison of `search_files` with `rg`, and of `glob_files` with `fd`, on the sources of every
//! crate in cargo's registry: the same matches, in at most one and a half times their time.
//!
//! Not part of plain `cargo test`, because it needs both programs. Times are only checked in
//! release builds: `cargo test --release -p loopwright-tools --test beside`.

#![allow(
    clippy::disallowed_methods,
    reason = "the test creates the tree, and other programs search it, from outside"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use loopwright_core::{Tool, ToolContext, ToolOutput};
use loopwright_tools::{Workspace, glob_files, search_files};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The limit of our time, as a multiple of the other program's time.
const MAX_RATIO: f64 = 1.5;
/// The number of alternating measurements of each program.
const ROUNDS: usize = 9;

/// Creates a repository with the crates' sources, and ignores some of them.
fn tree() -> TempDir {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(Path::new(&std::env::var_os("HOME")?).join(".cargo"))).unwrap();
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for registry in
        fs::read_dir(home.join("registry/src")).expect("cargo has fetched crates").flatten()
    {
        copy(&registry.path(), dir.path());
    }
    fs::create_dir(dir.path().join(".git")).unwrap();
    fs::write(dir.path().join(".gitignore"), "/serde*\n*.lock\n!serde_json*\n").unwrap();
    dir
}

fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).unwrap().flatten() {
        let path = entry.path();
        let to = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            let _ = fs::create_dir(&to);
            copy(&path, &to);
        } else if fs::hard_link(&path, &to).is_err() {
            let _ = fs::copy(&path, &to);
        }
    }
}

/// Returns the output of another program, run in the tree. Panics if it is not installed.
fn output(dir: &Path, programs: &[&str], arguments: &[&str]) -> Vec<u8> {
    for program in programs {
        if let Ok(output) = Command::new(program).args(arguments).current_dir(dir).output() {
            assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
            return output.stdout;
        }
    }
    panic!(
        "none of {programs:?} is installed: Debian has them in the packages ripgrep and fd-find"
    );
}

fn rg(dir: &Path, pattern: &str, path: &str) -> Vec<u8> {
    let arguments = ["--no-config", "--hidden", "--glob=!.git", "--no-ignore-global", "--crlf"];
    let format =
        ["-n", "-0", "--no-heading", "--with-filename", "--color=never", "-e", pattern, "--", path];
    output(dir, &["rg"], &[&arguments[..], &format].concat())
}

fn fd(dir: &Path, pattern: &str) -> Vec<u8> {
    let arguments = ["--hidden", "--exclude=.git", "--no-global-ignore-file", "--color=never"];
    output(
        dir,
        &["fd", "fdfind"],
        &[&arguments[..], &["--type=f", "--type=l", "--glob", pattern]].concat(),
    )
}

/// Returns the paths and line numbers of the matches of `rg`, without its notes on binary files.
fn matches(printed: &[u8]) -> BTreeSet<(PathBuf, u64)> {
    let lines = printed.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    let matches = lines.filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let (path, rest) = line.split_once('\0')?;
        let number = rest.split_once(':')?.0.parse().ok()?;
        Some((PathBuf::from(path.strip_prefix("./").unwrap_or(path)), number))
    });
    matches.collect()
}

fn call(tool: &impl Tool, arguments: &Value) -> ToolOutput {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(tool.call(arguments, ToolContext::detached())).unwrap()
}

/// Returns the median times of alternating measurements, and their ratio.
fn times(ours: impl Fn(), theirs: impl Fn()) -> (Duration, Duration, f64) {
    let time = |work: &dyn Fn()| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    let (mut a, mut b): (Vec<_>, Vec<_>) =
        (0..ROUNDS).map(|_| (time(&ours), time(&theirs))).unzip();
    a.sort();
    b.sort();
    let a = a[ROUNDS / 2];
    let b = b[ROUNDS / 2];
    (a, b, a.as_secs_f64() / b.as_secs_f64())
}

/// Prints the times, and checks their ratio in release builds.
fn check_ratio(what: &str, (ours, theirs, ratio): (Duration, Duration, f64)) {
    println!("{what}: {ours:.1?} beside {theirs:.1?}, ratio {ratio:.2}");
    assert!(cfg!(debug_assertions) || ratio <= MAX_RATIO, "{what} takes {ratio:.2} times as long");
}

/// One test, because creating the tree takes long, and measurements must not overlap.
#[test]
fn the_searches_find_what_rg_and_fd_find_about_as_fast() {
    let dir = tree();
    search_files_finds_what_rg_finds(dir.path());
    search_files_is_about_as_fast_as_rg(dir.path());
    glob_files_finds_what_fd_finds_about_as_fast(dir.path());
}

fn search_files_finds_what_rg_finds(dir: &Path) {
    let tool = search_files(Workspace::open(dir).unwrap());
    // The whole tree: all matches shown, and the totals.
    for pattern in [
        r"unsafe fn",
        r"fn \w+_test\(",
        r"(?i)hack",
        r"^#!\[",
        r"[a-z]+\d{3}x",
        "no such words",
        "ü",
        "x",
    ] {
        let theirs = matches(&rg(dir, pattern, "."));
        let details = call(&tool, &json!({ "pattern": pattern })).details.unwrap();
        let listed = details["matches"].as_array().unwrap();
        let ours = listed
            .iter()
            .map(|m| (PathBuf::from(m["path"].as_str().unwrap()), m["line"].as_u64().unwrap()));
        let ours: Vec<_> = ours.collect();
        println!("{pattern}: {} lines in {} files", details["total_lines"], details["total_files"]);
        assert_eq!(details["total_lines"], theirs.len(), "{pattern}");
        let files: BTreeSet<_> = theirs.iter().map(|(path, _)| path).collect();
        assert_eq!(details["total_files"], files.len(), "{pattern}");
        assert!(
            ours.iter().eq(theirs.iter().take(ours.len())),
            "{pattern}: other matches, or in another order"
        );
        assert!(ours.len() == theirs.len() || ours.len() >= 50, "{pattern}");
    }
    // Each crate: every match of a pattern that is not too frequent.
    let mut compared = 0;
    let mut total = 0;
    for krate in fs::read_dir(dir).unwrap().flatten().filter(|entry| entry.path().is_dir()) {
        let name = krate.file_name().into_string().unwrap();
        let details =
            call(&tool, &json!({ "pattern": "unsafe|panic!", "path": name })).details.unwrap();
        let listed = details["matches"].as_array().unwrap();
        if details["total_lines"] == listed.len() {
            let ours = listed
                .iter()
                .map(|m| (m["path"].as_str().unwrap().into(), m["line"].as_u64().unwrap()));
            assert_eq!(
                ours.collect::<BTreeSet<_>>(),
                matches(&rg(dir, "unsafe|panic!", &name)),
                "{name}"
            );
            compared += 1;
            total += listed.len();
        }
    }
    println!("{total} matches in {compared} crates are the same");
    assert!(compared > 100 && total > 1_000, "{compared} {total}");
}

fn search_files_is_about_as_fast_as_rg(dir: &Path) {
    let tool = search_files(Workspace::open(dir).unwrap());
    for pattern in [r"unsafe fn", r"fn \w+_test\(", r"(?i)hack", "no such words"] {
        let arguments = json!({ "pattern": pattern });
        let ours = || drop(call(&tool, &arguments));
        check_ratio(
            &format!("search_files {pattern}"),
            times(ours, || drop(rg(dir, pattern, "."))),
        );
    }
}

fn glob_files_finds_what_fd_finds_about_as_fast(dir: &Path) {
    let tool = glob_files(Workspace::open(dir).unwrap());
    for pattern in ["*.rs", "*.{toml,yml}", "build.rs", "[A-Z]*.md", "no-such-*"] {
        let printed = String::from_utf8(fd(dir, pattern)).unwrap();
        let theirs: BTreeSet<_> =
            printed.lines().map(|path| PathBuf::from(path.trim_start_matches("./"))).collect();
        let arguments = json!({ "pattern": pattern });
        let details = call(&tool, &arguments).details.unwrap();
        let files = details["files"].as_array().unwrap();
        assert_eq!(details["total"], theirs.len(), "{pattern}");
        assert!(
            files
                .iter()
                .map(|file| Path::new(file.as_str().unwrap()))
                .eq(theirs.iter().take(files.len()))
        );
        assert_eq!(files.len(), theirs.len().min(1_000));
        let what = format!("glob_files {pattern}, {} files", theirs.len());
        check_ratio(&what, times(|| drop(call(&tool, &arguments)), || drop(fd(dir, pattern))));
    }
}
