//! The calls that `run` executes without approval, and the calls that stay pending.

use std::fs;

use loopwright_test_support::model_server::Server;
use loopwright_test_support::process::{Exit, project};
use serde_json::json;

use crate::BIN;

const WRITE: &str = "Create a.txt with \"hi\"";

#[test]
fn a_tool_that_writes_waits_and_nothing_is_written() {
    for more in [&[][..], &["--approve", "read-only"], &["--approve", "read_file"]] {
        let project = project();
        let exit = BIN.run(&project, &[&["run", "--model", "offline", WRITE], more].concat());
        assert_eq!(exit.code, 3, "{exit:?}");
        assert!(!project.path().join("a.txt").exists());
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
        let exit = BIN.run(&project, &[&["run", "--model", "offline", WRITE], approve].concat());
        assert_eq!(exit.code, 0, "{exit:?}");
        assert!(exit.err.contains("✓ write_file: Created `a.txt`"), "{exit:?}");
        assert_eq!(fs::read_to_string(project.path().join("a.txt")).unwrap(), "hi");
    }
}

/// Runs an agent that writes a file, with everything approved.
fn write(path: &str, more: &[&str]) -> (Exit, bool) {
    let (server, project) = (Server::start(), project());
    fs::create_dir(project.path().join(".git")).unwrap();
    let options = ["run", "--model", "openai/x", "--base-url", &server.url, "--approve", "all"];
    let run = BIN.start(&project, &[&options[..], more, &["Go"]].concat());
    server.request().call(&[("write_file", json!({ "path": path, "content": "x" }))]);
    if !more.is_empty() {
        server.request().say("Done.");
    }
    let exit = run.end();
    (exit, project.path().join(path).exists())
}

#[test]
fn a_file_that_the_users_tools_run_is_asked_for_whatever_is_approved() {
    for path in [".git/config", ".git/hooks/pre-commit", ".envrc", "sub/.vscode/tasks.json"] {
        let (exit, exists) = write(path, &[]);
        assert_eq!((exit.code, exists), (3, false), "{path}: {exit:?}");
        let named = format!("`{path}` is a protected file: ");
        assert!(exit.err.contains(&named), "{path}: {exit:?}");
    }
}

#[test]
fn the_user_can_lift_the_protection_and_a_project_cannot() {
    let (exit, exists) = write(".git/config", &["--unprotected", ".git/config"]);
    assert_eq!((exit.code, exists), (0, true), "{exit:?}");
    let (exit, exists) = write("sub/.vscode/tasks.json", &["--unprotected", "."]);
    assert_eq!((exit.code, exists), (0, true), "{exit:?}");
    let project = project();
    let exit = BIN.run(&project, &["run", "--unprotected", "src", "Go"]);
    assert!(exit.code == 2 && exit.err.contains("it is not protected"), "{exit:?}");
    for setting in ["unprotected = \".\"", "max_memory = 1000", "max_disk = 1000"] {
        fs::write(project.path().join("loopwright.toml"), setting).unwrap();
        let exit = BIN.run(&project, &["run", "--model", "offline", "Go"]);
        assert!(exit.code == 2 && exit.err.contains("a project's file may not set"), "{exit:?}");
    }
}
