//! Which calls `run` executes without approval, and which stay pending.

use std::fs;

use crate::process::{Process, loopwright, project};

const WRITE: &str = "Create a.txt with \"hi\"";

#[test]
fn a_tool_that_writes_waits_and_nothing_is_written() {
    for more in [&[][..], &["--approve", "read-only"], &["--approve", "read_file"]] {
        let project = project();
        let exit = loopwright(&project, &[&["run", "--model", "offline", WRITE], more].concat());
        assert_eq!(exit.code, 3, "{exit:?}");
        assert!(!Process::file(&project, "a.txt").exists());
    }
}

#[test]
fn an_approved_tool_writes() {
    for approve in [
        &["--approve", "write_file"][..],
        &["--approve", "all"],
        &["--approve", "read-only", "--approve", "all"],
    ] {
        let project = project();
        let exit = loopwright(&project, &[&["run", "--model", "offline", WRITE], approve].concat());
        assert_eq!(exit.code, 0, "{exit:?}");
        assert!(exit.err.contains("✓ write_file: Created `a.txt`"), "{exit:?}");
        assert_eq!(fs::read_to_string(Process::file(&project, "a.txt")).unwrap(), "hi");
    }
}
