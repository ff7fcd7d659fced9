//! Regular expressions that need much memory to be compiled or to search.
//!
//! In its own binary, because it measures the memory of the whole process.

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

use std::fs;

use loopwright_core::message::Content;
use loopwright_core::{Tool, ToolContext, ToolError};
use loopwright_tools::{Workspace, search_files};
use serde_json::json;

/// The limit of memory of a search: the tool's 16 MiB, and as much for everything else.
const MAX_SEARCH_BYTES: u64 = 40 << 20;
/// The limit of memory of compilation, which holds several forms of the pattern at once.
const MAX_COMPILE_BYTES: u64 = 64 << 20;

/// Returns the peak memory of this process in bytes.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1024
}

/// Returns a pseudo-random text of `a` and `b`.
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
async fn a_pattern_that_needs_much_memory_is_refused_or_bounded() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("f"), mixed(600_000) + "\naxc\n").unwrap();
    let tool = search_files(Workspace::open(dir.path()).unwrap());
    let search = async |pattern: &str| {
        let output = tool.call(&json!({ "pattern": pattern }), ToolContext::detached()).await?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok::<_, ToolError>(text.clone())
    };
    assert_eq!(search("a[x-z]c").await.unwrap(), "f:2:axc\n");

    // A small pattern, but its search has 2^20 states, and almost every letter of this text leads
    // to a new one.
    let before = peak();
    assert_eq!(
        search("a[ab]{20}[c-k]").await.unwrap(),
        "No line in `.` matches `a[ab]{20}[c-k]`.\n"
    );
    let held = peak() - before;
    println!("{held} additional bytes were used to search");
    assert!(held < MAX_SEARCH_BYTES, "{held} bytes");

    // Compiled, these patterns would have millions of states.
    let before = peak();
    for pattern in
        [r"\w{5000}", "((((a{64}){64}){64}){64}){64}", r"(\pL{1,500}\s){500}", "(?i)[^a]{900000}"]
    {
        let why = search(pattern).await.unwrap_err().to_string();
        assert!(why.contains(&format!("the pattern `{pattern}` is not usable")), "{why}");
        assert!(
            why.ends_with(
                "It would need too much memory: use fewer repetitions, or search for a part of it"
            ),
            "{why}"
        );
    }
    let held = peak() - before;
    println!("{held} additional bytes were used to compile them");
    assert!(held < MAX_COMPILE_BYTES, "{held} bytes");
}
