//! A file of a gigabyte: its last lines are read without the rest of it.
//!
//! A program of its own, since it looks at what the whole process reads and holds.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "the file is made, and the process looked at, from outside"
)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

use std::fs::{self, File};
use std::io::{Seek, SeekFrom, Write};

use loopwright_core::message::Content;
use loopwright_core::{Tool, ToolContext};
use loopwright_tools::{Workspace, read_file};
use serde_json::json;

const GIGABYTE: u64 = 1 << 30;

/// A number that the system tells of this process, by the name before it.
fn told(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn the_last_lines_of_a_gigabyte_are_read_alone() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::create(dir.path().join("huge.log")).unwrap();
    file.write_all("begins as text\n".repeat(1_000).as_bytes()).unwrap();
    // A hole: as long as a gigabyte to whoever reads it, and no room on the disk.
    file.seek(SeekFrom::Start(GIGABYTE)).unwrap();
    let last: String = (0..500).map(|n| format!("\nnear the end {n}")).collect();
    file.write_all(last.as_bytes()).unwrap();
    let (read, held) = (told("/proc/self/io", "rchar:"), told("/proc/self/status", "VmHWM:"));

    let tool = read_file(Workspace::open(dir.path()).unwrap());
    let arguments = json!({ "path": "huge.log", "offset": -3 });
    let output = tool.call(&arguments, ToolContext::detached()).await.unwrap();

    let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
    assert!(
        text.starts_with(
            "    -3\tnear the end 497\n    -2\tnear the end 498\n    -1\tnear the end 499\n"
        ),
        "{text}"
    );
    let read = told("/proc/self/io", "rchar:") - read;
    let held = told("/proc/self/status", "VmHWM:") - held;
    println!("{read} bytes read, {held} KiB more held at once");
    assert!(read < 1 << 20, "{read} bytes were read");
    assert!(held < 16 << 10, "{held} KiB more were held");
}
