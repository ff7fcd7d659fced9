//! Patterns that would take much memory, to be made or while they search.
//!
//! A program of its own, since it looks at what the whole process holds.

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

use std::fs;

use loopwright_core::message::Content;
use loopwright_core::{Tool, ToolContext, ToolError};
use loopwright_tools::{Workspace, search_files};
use serde_json::json;

/// What a search may take: the tool's limit of 16 MiB, and more than as much again for all else.
const MOST: u64 = 40 << 20;
/// What making a pattern may take: several forms of it are there at the same time.
const MADE: u64 = 64 << 20;

/// The most memory that this process has had, in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// A text of `a` and `b` in which few stretches come twice.
fn mixed(length: usize) -> String {
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        if state >> 63 == 0 { 'a' } else { 'b' }
    };
    (0..length).map(|_| next()).collect()
}

#[tokio::test]
async fn a_pattern_that_would_take_much_memory_is_refused_or_held() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), mixed(600_000) + "\naxc\n").unwrap();
    let tool = search_files(Workspace::open(dir.path()).unwrap());
    let search = async |pattern: &str| {
        let output = tool.call(&json!({ "pattern": pattern }), ToolContext::detached()).await?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok::<_, ToolError>(text.clone())
    };
    assert_eq!(search("a[x-z]c").await.unwrap(), "f:2:axc\n");

    // Small as it stands; but where it can be in a text are 2^20 states, of which this text shows a
    // new one with almost each letter.
    let before = peak();
    assert_eq!(
        search("a[ab]{20}[c-k]").await.unwrap(),
        "No line in `.` matches `a[ab]{20}[c-k]`.\n"
    );
    let held = peak() - before;
    println!("{held} bytes more were held to search");
    assert!(held < MOST, "{held} bytes");

    // Made, these would be of millions of parts.
    let before = peak();
    for pattern in
        [r"\w{5000}", "((((a{64}){64}){64}){64}){64}", r"(\pL{1,500}\s){500}", "(?i)[^a]{900000}"]
    {
        let why = search(pattern).await.unwrap_err().to_string();
        assert!(why.contains(&format!("the pattern `{pattern}` is not usable")), "{why}");
        assert!(
            why.ends_with(
                "It would take too much memory: repeat less in it, or search for a part of it"
            ),
            "{why}"
        );
    }
    let held = peak() - before;
    println!("{held} bytes more were held to make them");
    assert!(held < MADE, "{held} bytes");
}
