//! The file tools under attack: links and directories that are swapped while a tool is at work, and
//! writers that are killed.
//!
//! Not part of plain `cargo test`, since it takes two minutes: `cargo test -p loopwright-tools
//! --test storm`.

#![cfg(unix)]
#![allow(clippy::disallowed_methods, reason = "an attacker and a judge are outside")]
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

/// How often each file tool tries to be led out.
const TRIES: usize = 20_000;
/// How often commands try: each takes some milliseconds, and its directory is found as the file
/// tools' are.
const COMMANDS: usize = 1_000;
/// How often a writer is killed.
const KILLS: usize = 500;

/// A directory in memory where there is one: a write to it need not wait for a disk.
fn room() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

/// Every file in a directory, with what is in it.
fn contents(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().flatten();
    entries.map(|entry| (entry.path(), fs::read(entry.path()).unwrap_or_default())).collect()
}

/// While a tool works in `turning` and `swapped`, the first is a link that points in and out by
/// turns, and the second a directory that gives way to a link out.
fn turn(root: &Path, done: &AtomicBool) {
    while !done.load(Ordering::Relaxed) {
        for target in ["../outside", "sub"] {
            let _ = symlink(target, root.join("next"));
            let _ = fs::rename(root.join("next"), root.join("turning"));
        }
        let _ = fs::rename(root.join("swapped"), root.join("aside"));
        let _ = symlink("../outside", root.join("swapped"));
        let _ = fs::remove_file(root.join("swapped"));
        let _ = fs::rename(root.join("aside"), root.join("swapped"));
    }
}

#[test]
fn no_race_leads_out_in_thousands_of_tries_of_each_tool() {
    let outer = room();
    let (root, outside) = (outer.path().join("root"), outer.path().join("outside"));
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
        move || turn(&root, &done)
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for tool in tools
        .tools()
        .filter(|tool| tool.spec().schema.to_string().contains("relative to the workspace"))
    {
        let name = &*tool.spec().name;
        let tries = match name {
            "execute_command" if cfg!(target_os = "linux") => COMMANDS,
            "execute_command" => continue,
            _ => TRIES,
        };
        let (mut reached, mut refused) = (0, 0);
        for n in 0..tries {
            let dir = ["turning", "swapped"][n % 2];
            let (file, tree) = (format!("{dir}/f"), [dir, "."][n / 2 % 2]);
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
                    let told = serde_json::to_string(&output).unwrap();
                    assert!(
                        !told.contains("the secret") && !told.contains("only-outside"),
                        "{name}: {told}"
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
            reached > tries / 100 && refused > tries / 100,
            "{name}: there was no race: {reached} {refused}"
        );
    }
    done.store(true, Ordering::Relaxed);
    attacker.join().unwrap();
}

/// What a writer puts into the file in its `n`th round.
fn version(n: usize) -> String {
    let letter = char::from(b'a' + (n % 26) as u8);
    format!("version {n}\n{}\nend of {n}\n", letter.to_string().repeat(400_000 + n * 50_000))
}

fn edited(state: char) -> String {
    format!("state {state}\n{}", "a line that stays\n".repeat(5_000))
}

/// Not a test of its own: what the killed process does. Writes or edits `f` until it is killed.
#[test]
fn writer() {
    let (Ok(dir), Ok(way)) = (std::env::var("STORM_DIR"), std::env::var("STORM_WAY")) else {
        return;
    };
    let workspace = Workspace::open(Path::new(&dir)).unwrap();
    let (write, edit) = (write_file(workspace.clone()), edit_file(workspace));
    // Made beforehand, so that most of the time goes into the file.
    let rounds: Vec<Value> = match way.as_str() {
        "write" => (0..4).map(|n| json!({ "path": "f", "content": version(n) })).collect(),
        _ => [("state A", "state B"), ("state B", "state A")]
            .map(|(old, new)| json!({ "path": "f", "old_string": old, "new_string": new }))
            .into(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    for (n, arguments) in rounds.iter().cycle().enumerate() {
        match way.as_str() {
            "write" => runtime.block_on(write.call(arguments, ToolContext::detached())).unwrap(),
            _ => runtime.block_on(edit.call(arguments, ToolContext::detached())).unwrap(),
        };
        if n == 0 {
            println!("\nat work");
        }
    }
}

/// Keeps the processor busy for a time that nobody knows, so that a kill comes at any moment of a
/// write.
fn wait_for_some_moment() {
    let time = Duration::from_micros(RandomState::new().hash_one(0) % 15_000);
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

#[test]
fn a_killed_writer_leaves_the_old_file_or_the_new_one() {
    // On a disk, where a write takes its time.
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let left_over = || contents(dir.path()).keys().filter(|path| !path.ends_with("f")).count();
    let (mut in_the_middle, mut versions) = (0, BTreeMap::new());
    for kill in 0..KILLS {
        let way = ["write", "edit"][kill % 2];
        if way == "edit" {
            fs::write(dir.path().join("f"), edited('A')).unwrap();
        }
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["writer", "--exact", "--nocapture"])
            .envs([("STORM_DIR", dir.path().as_os_str()), ("STORM_WAY", way.as_ref())])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        assert!(
            lines.map_while(Result::ok).any(|line| line == "at work"),
            "the writer ended by itself"
        );
        wait_for_some_moment();
        child.kill().unwrap();
        child.wait().unwrap();

        let content = fs::read_to_string(dir.path().join("f")).unwrap();
        if way == "write" {
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
    let (write, end) = (
        write_file(Workspace::open(dir.path()).unwrap()),
        json!({ "path": "f", "content": "end" }),
    );
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(write.call(&end, ToolContext::detached())).unwrap();
    assert_eq!(left_over(), 0, "the next write removes what was left over");
}
