//! The file tools under attack: links and directories that are swapped during a call, and writers
//! that are killed.
//!
//! Not part of plain `cargo test`, because it takes some minutes:
//! `cargo test --release -p loopwright-tools --test storm`.

#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "the tests act and check from outside")]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

use std::collections::BTreeMap;
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loopwright_core::{Tool, ToolContext};
use loopwright_tools::{Workspace, coding_tools, edit_file, write_file};
use serde_json::{Value, json};
use tempfile::TempDir;

/// The number of calls of each file tool with a path that is being swapped.
const FILE_TOOL_CALLS: usize = 20_000;
/// The number of commands that are run there. Each takes some milliseconds.
const COMMAND_CALLS: usize = 1_000;
/// The number of writers that are killed.
const KILLS: usize = 500;

/// Creates a directory in memory if possible, so that writes do not wait for a disk.
fn temp_dir() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Returns the contents of every file in a directory.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    entries.map(|entry| (entry.path(), fs::read(entry.path()).unwrap_or_default())).collect()
}

/// Swaps two paths: `turning`, a link that alternately points inside and outside, and `swapped`, a
/// directory that is alternately replaced by a link that leads out.
fn keep_swapping(root: &Path, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        for target in ["../outside", "sub"] {
            let _ = symlink(target, root.join("next"));
            let _ = fs::rename(root.join("next"), root.join("turning"));
        }
        let _ = fs::rename(root.join("swapped"), root.join("moved"));
        let _ = symlink("../outside", root.join("swapped"));
        let _ = fs::remove_file(root.join("swapped"));
        let _ = fs::rename(root.join("moved"), root.join("swapped"));
    }
}

#[test]
fn no_race_leads_out_in_thousands_of_calls_of_each_tool() {
    let outer = temp_dir();
    let root = outer.path().join("root");
    let outside = outer.path().join("outside");
    for dir in [&root.join("sub"), &root.join("swapped"), &outside] {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("f"), "inner A\n").unwrap();
    }
    fs::write(outside.join("f"), "the secret\ninner A\n").unwrap();
    fs::write(outside.join("only-outside"), "the secret").unwrap();
    symlink("sub", root.join("turning")).unwrap();
    let before = contents(&outside);
    let tools = coding_tools(Workspace::open(&root).unwrap());
    let done = Arc::new(AtomicBool::new(false));
    let attacker = std::thread::spawn({
        let (root, done) = (root.clone(), done.clone());
        move || keep_swapping(&root, &done)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for tool in tools
        .tools()
        .filter(|tool| tool.spec().schema.to_string().contains("relative to the workspace"))
    {
        let name = &*tool.spec().name;
        let calls = match name {
            "execute_command" if cfg!(target_os = "linux") => COMMAND_CALLS,
            "execute_command" => continue,
            _ => FILE_TOOL_CALLS,
        };
        let mut reached = 0;
        let mut refused = 0;
        for n in 0..calls {
            let dir = ["turning", "swapped"][n % 2];
            let file = format!("{dir}/f");
            let tree = [dir, "."][n / 2 % 2];
            let arguments = match name {
                "execute_command" => json!({ "command": "cat f", "cwd": dir }),
                "list_directory" => json!({ "path": dir }),
                "search_files" => json!({ "pattern": "secret|inner", "path": tree }),
                "glob_files" => json!({ "pattern": "**", "path": tree }),
                "diff" => json!({ "file_a": file, "file_b": "sub/f" }),
                "edit_file" => match n / 2 % 2 {
                    0 => json!({ "path": file, "old_string": "inner A", "new_string": "inner B" }),
                    _ => json!({ "path": file, "old_string": "inner B", "new_string": "inner A" }),
                },
                "write_file" => json!({ "path": file, "content": "inner A\n" }),
                _ => json!({ "path": file }),
            };
            match runtime.block_on(tool.call(&arguments, ToolContext::detached())) {
                Ok(output) => {
                    let text = serde_json::to_string(&output).unwrap();
                    assert!(
                        !text.contains("the secret") && !text.contains("only-outside"),
                        "{name}: {text}"
                    );
                    reached += 1;
                }
                Err(e) => {
                    assert!(!e.to_string().contains("the secret"), "{name}: {e}");
                    refused += 1;
                }
            }
        }
        println!("{name}: {reached} calls reached the inside, {refused} were refused, 0 got out");
        assert_eq!(contents(&outside), before, "{name}");
        assert!(
            reached > calls / 100 && refused > calls / 100,
            "{name}: there was no race: {reached} {refused}"
        );
    }
    done.store(true, Ordering::Relaxed);
    attacker.join().unwrap();
}

/// Returns the content of a writer's `n`th round.
fn version(n: usize) -> String {
    let letter = char::from(b'a' + (n % 26) as u8);
    format!("version {n}\n{}\nend of {n}\n", letter.to_string().repeat(400_000 + n * 50_000))
}

fn edited(state: char) -> String {
    format!("state {state}\n{}", "a line that stays\n".repeat(5_000))
}

/// Not a test, but the process that is killed: writes or edits `f` until then.
#[test]
fn writer() {
    let (Ok(dir), Ok(mode)) = (std::env::var("STORM_DIR"), std::env::var("STORM_MODE")) else {
        return;
    };
    let workspace = Workspace::open(Path::new(&dir)).unwrap();
    let write = write_file(workspace.clone());
    let edit = edit_file(workspace);
    // Created in advance, so that most of the time is spent writing the file.
    let rounds: Vec<Value> = match mode.as_str() {
        "write" => (0..4).map(|n| json!({ "path": "f", "content": version(n) })).collect(),
        _ => [("state A", "state B"), ("state B", "state A")]
            .map(|(old, new)| json!({ "path": "f", "old_string": old, "new_string": new }))
            .into(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (n, arguments) in rounds.iter().cycle().enumerate() {
        match mode.as_str() {
            "write" => runtime.block_on(write.call(arguments, ToolContext::detached())).unwrap(),
            _ => runtime.block_on(edit.call(arguments, ToolContext::detached())).unwrap(),
        };
        if n == 0 {
            println!("\nat work");
        }
    }
}

/// Spins for a random time, so that the kill can hit any point of a write.
fn spin_for_random_time() {
    let time = Duration::from_micros(RandomState::new().hash_one(0) % 15_000);
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_killed_writer_leaves_the_old_file_or_the_new_one() {
    // On a disk, where a write takes longer.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let left_over = || contents(dir.path()).keys().filter(|path| !path.ends_with("f")).count();
    let mut in_the_middle = 0;
    let mut versions = BTreeMap::new();
    for kill in 0..KILLS {
        let mode = ["write", "edit"][kill % 2];
        if mode == "edit" {
            fs::write(dir.path().join("f"), edited('A')).unwrap();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["writer", "--exact", "--nocapture"])
            .envs([("STORM_DIR", dir.path().as_os_str()), ("STORM_MODE", mode.as_ref())])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            lines.map_while(Result::ok).any(|line| line == "at work"),
            "the writer ended early"
        );
        spin_for_random_time();
        child.kill().unwrap();
        child.wait().unwrap();

        let content = fs::read_to_string(dir.path().join("f")).unwrap();
        if mode == "write" {
            let n: usize = content
                .lines()
                .next()
                .and_then(|line| line.strip_prefix("version ")?.parse().ok())
                .unwrap();
            assert!(content == version(n), "kill {kill}: a part of version {n}");
            *versions.entry(n).or_insert(0) += 1;
        } else {
            assert!(
                content == edited('A') || content == edited('B'),
                "kill {kill}: neither the old nor the new text"
            );
        }
        let left = left_over();
        assert!(left <= 1, "kill {kill}: {left} files are left over");
        in_the_middle += left;
    }
    println!(
        "{KILLS} kills, {in_the_middle} in the middle of a write, after {} different versions",
        versions.len()
    );
    assert!(
        in_the_middle > KILLS / 50,
        "hardly a kill came in the middle of a write: {in_the_middle}"
    );
    let write = write_file(Workspace::open(dir.path()).unwrap());
    let end = json!({ "path": "f", "content": "end" });
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(write.call(&end, ToolContext::detached())).unwrap();
    assert_eq!(left_over(), 0, "the next write removes abandoned files");
}
