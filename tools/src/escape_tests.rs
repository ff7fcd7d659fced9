//! Attempts to leave the workspace, each with every tool.

#![allow(clippy::disallowed_methods, reason = "the tests inspect the workspace from outside")]

mod trap;

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use loopwright_core::ToolError;
use serde_json::{Value, json};

use self::trap::{PLANTED, SECRET, Trap};
use crate::Workspace;

#[tokio::test]
async fn no_attempt_leaves_the_workspace() {
    let trap = Trap::set();
    let before = trap.outside();
    let attempts = trap.attempts();
    for path in &attempts {
        for (tool, result) in trap.call_each(path).await {
            let Err(ToolError::Failed(why)) = result else {
                panic!("{tool} accepted {path:?}: {result:?}")
            };
            assert!(
                !why.contains(SECRET) && !why.contains("os error 1)"),
                "{tool} {path:?}: {why}"
            );
            assert!(
                why.contains('`') && why.len() < 900 && !why.contains(['\0', '\n']),
                "{tool} {path:?}: {why}"
            );
        }
        assert_eq!(trap.outside(), before, "after {path:?}");
    }
    assert_eq!(fs::read_to_string(trap.outer.path().join("root/inner.txt")).unwrap(), "inner");
    assert!(!trap.outer.path().join("root/new").exists(), "a part of a refused path was created");
    assert!(attempts.len() >= 80, "{}", attempts.len());
}

/// Paths that lead out in other systems or programs are ordinary names here.
#[tokio::test]
async fn unusual_names_are_ordinary_names() {
    let trap = Trap::set();
    let before = trap.outside();
    let names = [
        "..\\secret.txt",
        "..\\..\\secret.txt",
        "C:\\secret.txt",
        "\\\\?\\C:\\secret.txt",
        "%2e%2e/secret.txt",
        "..%2fsecret.txt",
        "%252e%252e%252fsecret.txt",
        "....//secret.txt",
        ".../secret.txt",
        "..;/secret.txt",
        ".. /secret.txt",
        " ../secret.txt",
        "..\t/secret.txt",
        "\u{ff0e}\u{ff0e}/secret.txt",
        "\u{2025}/secret.txt",
        "..\u{200b}/secret.txt",
        "..\u{2215}secret.txt",
        "\u{202e}txt.terces/..",
        "file:///etc/passwd",
        "file://localhost/etc/passwd",
        "$HOME/.bashrc",
        "${PWD}/../secret.txt",
        "$(cat ../secret.txt)",
        "`cat ../secret.txt`",
        "-rf",
        "--",
        "|cat ../secret.txt",
        "INNER.TXT",
        "inner.txt.",
        "inner.txt ",
        "inner.txt::$DATA",
        "sub.",
        "sub/not \u{fffd} utf8",
        "con",
        "nul",
        "ROOT/../secret.txt",
        "../ROOT/inner.txt\0",
        "\n../secret.txt",
    ];
    for path in names {
        for (tool, result) in trap.call_each(path).await {
            let text = result.unwrap_or_else(|e| e.to_string());
            assert!(!text.contains(SECRET) && !text.contains("root:"), "{tool} {path:?}: {text}");
        }
        assert_eq!(trap.outside(), before, "after {path:?}");
    }
    assert!(trap.outer.path().join("root/..\\secret.txt").is_file());
}

/// The search visits every link, pipe and unusual name, and follows none.
#[tokio::test]
async fn a_search_of_everything_stays_inside() {
    let trap = Trap::set();
    for pattern in [
        "**",
        "**/*",
        "*",
        "**/secret.txt",
        "secret.txt",
        "link_dir/**",
        "link_up/**",
        "{..,sub}*/**",
    ] {
        let output = trap.call("glob_files", json!({ "pattern": pattern })).await;
        let output: Value = serde_json::from_str(&output.unwrap()).unwrap();
        let files = output["details"]["files"].as_array().unwrap();
        let inside = |file: &Value| file.as_str().is_some_and(|file| !file.ends_with("secret.txt"));
        assert!(
            files.iter().all(inside) && output["details"]["total"] == files.len(),
            "{pattern}: {output}"
        );
        let arguments = json!({ "pattern": "secret|root:|inner", "include": pattern });
        let text = trap.call("search_files", arguments).await.unwrap_or_else(|e| e.to_string());
        assert!(!text.contains(SECRET) && !text.contains("root:x"), "{pattern}: {text}");
    }
    let text = trap.call("search_files", json!({ "pattern": "inner" })).await.unwrap();
    assert!(text.contains("inner.txt") && text.contains("sub/not \u{fffd} utf8"), "{text}");
    for pattern in ["../**", "/etc/*", "sub/../../*"] {
        assert!(trap.call("glob_files", json!({ "pattern": pattern })).await.is_err());
        assert!(
            trap.call("search_files", json!({ "pattern": "x", "include": pattern })).await.is_err()
        );
    }
}

/// A command changes a path inside the workspace so that it leads out.
#[tokio::test]
async fn a_path_that_a_command_changes_does_not_lead_out() {
    let trap = Trap::set();
    let root = trap.outer.path().join("root");
    let before = trap.outside();
    let make = "mkdir -p made && echo 'the inner' > made/secret.txt";
    for (command, path) in [
        ("rm -r made && ln -s ../outside made", "made/secret.txt"),
        ("rm made/secret.txt && ln -s ../../secret.txt made/secret.txt", "made/secret.txt"),
        ("mv made kept && ln -s $(dirname $PWD)/outside made", "made/secret.txt"),
        ("mv made/secret.txt made/kept && ln -s ../link_file made/secret.txt", "made/secret.txt"),
        ("rm made/secret.txt && mkfifo made/secret.txt", "made/secret.txt"),
        ("rm made/secret.txt && ln -s /proc/self/environ made/secret.txt", "made/secret.txt"),
        ("rm -r made && ln -s /proc/self/root made", "made/etc/passwd"),
    ] {
        let shell = |command| {
            std::process::Command::new("sh")
                .args(["-ec", command])
                .current_dir(&root)
                .status()
                .unwrap()
        };
        assert!(shell("rm -rf made kept").success() && shell(make).success());
        let read = trap.call("read_file", json!({ "path": "made/secret.txt" })).await.unwrap();
        assert!(read.contains("the inner"), "{read}");
        assert!(shell(command).success());
        for (tool, result) in trap.call_each(path).await {
            assert!(result.is_err(), "{tool} after {command}: {result:?}");
        }
        assert_eq!(trap.outside(), before, "after {command}");
    }
}

/// A hard link looks like an ordinary file, but no write goes through one.
#[tokio::test]
async fn no_write_goes_through_a_hard_link() {
    let trap = Trap::set();
    let before = trap.outside();
    fs::hard_link(trap.outer.path().join("secret.txt"), trap.outer.path().join("root/hard"))
        .unwrap();
    trap.call("edit_file", json!({ "path": "hard", "old_string": SECRET, "new_string": PLANTED }))
        .await
        .unwrap();
    assert_eq!(trap.outside(), before);
    fs::remove_file(trap.outer.path().join("root/hard")).unwrap();
    for name in ["hard", ".loopwright-0.tmp"] {
        fs::hard_link(
            trap.outer.path().join("secret.txt"),
            trap.outer.path().join("root").join(name),
        )
        .unwrap();
    }
    trap.call("write_file", json!({ "path": "hard", "content": PLANTED })).await.unwrap();
    assert_eq!(trap.outside(), before);
}

#[tokio::test]
async fn a_refusal_states_what_where_and_what_to_do() {
    let trap = Trap::set();
    let root = trap.outer.path().join("root").display().to_string();
    let read = async |path: &str| {
        trap.call("read_file", json!({ "path": path })).await.unwrap_err().to_string()
    };
    let outside = read("../secret.txt").await;
    assert!(
        outside.starts_with(&format!("`../secret.txt` leads out of the workspace `{root}`")),
        "{outside}"
    );
    assert!(outside.ends_with("Use a path relative to the workspace"), "{outside}");
    for same in ["/etc/passwd", "link_file", "chain1", "zero", "link_dir_absolute/secret.txt"] {
        assert_eq!(read(same).await, outside.replace("../secret.txt", same));
    }
    assert!(read("~/x").await.contains("`~` is not expanded"));
    assert!(read("fifo").await.contains("is a named pipe"));
    assert!(read("sub").await.contains("is a directory"));
    assert!(read("nothing").await.contains("does not exist"));
    assert!(read("inner.txt/x").await.contains("leads through a file as if it were one"));
    assert_eq!(read("loop1").await, "`loop1` could not be read: too many levels of symbolic links");
    assert!(read(&"x".repeat(300)).await.contains("too long"));
}

#[tokio::test]
async fn harmless_paths_of_every_form_work() {
    let trap = Trap::set();
    let root = trap.outer.path().join("root");
    symlink("../inner.txt", root.join("sub/link_in")).unwrap();
    symlink("sub", root.join("link_sub")).unwrap();
    let absolute = root.join("inner.txt").display().to_string();
    for path in [
        "inner.txt",
        "./inner.txt",
        "sub/../inner.txt",
        "sub/link_in",
        "link_sub/link_in",
        &absolute,
    ] {
        let text = trap.call("read_file", json!({ "path": path })).await.unwrap();
        assert!(text.contains("inner"), "{path}: {text}");
    }
    for path in ["", ".", "./", "sub/..", root.to_str().unwrap()] {
        let text = trap.call("list_directory", json!({ "path": path })).await.unwrap();
        assert!(text.contains("inner.txt"), "{path}: {text}");
    }
    trap.call("write_file", json!({ "path": "link_sub/link_in", "content": "through" }))
        .await
        .unwrap();
    assert_eq!(fs::read_to_string(root.join("inner.txt")).unwrap(), "through");
    assert!(root.join("sub/link_in").is_symlink());
    trap.call("write_file", json!({ "path": "./~tilde", "content": "" })).await.unwrap();
    assert!(root.join("~tilde").is_file());
}

/// Another thread keeps retargeting a link, so that a path leads out between check and use.
/// `tests/storm.rs` repeats this 20,000 times with each tool.
#[tokio::test]
async fn a_link_that_is_swapped_concurrently_does_not_lead_out() {
    let trap = Trap::set();
    let root = trap.outer.path().join("root");
    fs::write(root.join("sub/secret.txt"), "inner").unwrap();
    symlink("sub", root.join("turning")).unwrap();
    let before = trap.outside();
    let done = Arc::new(AtomicBool::new(false));
    let turning = std::thread::spawn({
        let (root, done) = (root.clone(), done.clone());
        move || {
            for target in ["../outside", "sub"].iter().cycle() {
                symlink(target, root.join("next")).unwrap();
                fs::rename(root.join("next"), root.join("turning")).unwrap();
                if done.load(Ordering::Relaxed) {
                    break;
                }
            }
        }
    });
    let mut reached = 0;
    let mut refused = 0;
    let start = Instant::now();
    // On a busy machine the link may be swapped rarely.
    while (reached < 100 || refused < 100) && start.elapsed() < Duration::from_secs(30) {
        let _ = trap
            .call("write_file", json!({ "path": "turning/made.txt", "content": PLANTED }))
            .await;
        match trap.call("read_file", json!({ "path": "turning/secret.txt" })).await {
            Ok(text) => {
                assert!(text.contains("inner") && !text.contains(SECRET), "{text}");
                reached += 1;
            }
            Err(_) => refused += 1,
        }
    }
    done.store(true, Ordering::Relaxed);
    turning.join().unwrap();
    assert!(
        reached > 0 && refused > 0,
        "{reached} reached, {refused} refused: the link was not swapped in between"
    );
    assert_eq!(trap.outside().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_root_that_is_a_link_is_accessible_by_both_names() {
    let trap = Trap::set();
    let real = trap.outer.path().join("root");
    let link = trap.outer.path().join("by_link");
    symlink(&real, &link).unwrap();
    let workspace = Workspace::open(&link).unwrap();
    assert_eq!(workspace.root(), link);
    for name in [real, link] {
        assert!(workspace.open_file(name.join("inner.txt").to_str().unwrap()).is_ok());
    }
}

#[test]
fn a_root_must_be_a_directory() {
    let trap = Trap::set();
    for bad in ["nothing", "secret.txt"] {
        let why = Workspace::open(&trap.outer.path().join(bad)).unwrap_err().to_string();
        assert!(why.contains("cannot be opened"), "{why}");
    }
}
