//! A file of a gigabyte, whose last lines are read without reading the rest.
//!
//! In its own binary, because it measures the I/O and memory of the whole process.

#![cfg(target_os = "linux")]
#![allow(
    clippy::disallowed_methods,
    reason = "the test creates the file and inspects the process from outside"
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

/// Returns the number after `name` in a file of `/proc`.
fn counter(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    line.split_whitespace().next().unwrap().parse().unwrap()
}

#[tokio::test]
async fn only_the_last_lines_of_a_gigabyte_are_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut file = File::create(dir.path().join("huge.log")).unwrap();
    file.write_all("begins as text\n".repeat(1_000).as_bytes()).unwrap();
    // A hole: a reader sees a gigabyte, but it uses no disk space.
    file.seek(SeekFrom::Start(GIGABYTE)).unwrap();
    let last: String = (0..500).map(|n| format!("\nnear the end {n}")).collect();
    file.write_all(last.as_bytes()).unwrap();
    let read = counter("/proc/self/io", "rchar:");
    let held = counter("/proc/self/status", "VmHWM:");

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
    let read = counter("/proc/self/io", "rchar:") - read;
    let held = counter("/proc/self/status", "VmHWM:") - held;
    println!("{read} bytes read, {held} KiB of additional memory");
    assert!(read < 1 << 20, "{read} bytes were read");
    assert!(held < 16 << 10, "{held} KiB of additional memory were used");
}
