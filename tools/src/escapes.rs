//! Attempts to leave the workspace, each made with each tool.

#![allow(clippy::disallowed_methods, reason = "a test looks at the workspace from outside")]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use loopwright::{Tool, ToolContext, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Workspace, coding_tools};

const SECRET: &str = "the secret";
const PLANTED: &str = "planted by the model";

/// `outer/secret.txt` and other things outside, `outer/root` with every trap inside.
struct Trap {
    outer: TempDir,
    tools: Vec<Arc<dyn Tool>>,
}

impl Trap {
    fn set() -> Self {
        let outer = tempfile::tempdir().unwrap();
        let out = outer.path();
        let root = out.join("root");
        for dir in ["root/sub/deep", "outside", "root-evil"] {
            fs::create_dir_all(out.join(dir)).unwrap();
        }
        for file in ["secret.txt", "outside/secret.txt", "root-evil/secret.txt"] {
            fs::write(out.join(file), SECRET).unwrap();
        }
        fs::write(root.join("inner.txt"), "inner").unwrap();
        let absolute = out.join("secret.txt");
        for (target, link) in [
            (Path::new("../secret.txt"), "link_file"),
            (&absolute, "link_file_absolute"),
            (Path::new("../outside"), "link_dir"),
            (&out.join("outside"), "link_dir_absolute"),
            (Path::new("chain2"), "chain1"),
            (Path::new("sub/chain3"), "chain2"),
            (Path::new("../../secret.txt"), "sub/chain3"),
            (Path::new(".."), "link_up"),
            (Path::new("/"), "link_slash"),
            (Path::new("../not_yet.txt"), "dangling_out"),
            (Path::new("loop2"), "loop1"),
            (Path::new("loop1"), "loop2"),
            (Path::new("/dev/zero"), "zero"),
            (Path::new("/proc/self/root"), "proc_root"),
            (Path::new("/proc/self/cwd"), "proc_cwd"),
        ] {
            symlink(target, root.join(link)).unwrap();
        }
        let made = std::process::Command::new("mkfifo").arg(root.join("fifo")).status().unwrap();
        assert!(made.success());
        symlink("fifo", root.join("link_fifo")).unwrap();
        let tools = coding_tools(Workspace::open(&root).unwrap());
        Trap { outer, tools }
    }

    async fn call(&self, tool: &str, arguments: Value) -> Result<String, ToolError> {
        let tool = self.tools.iter().find(|t| &*t.spec().name == tool).unwrap();
        let output = tool.call(&arguments, ToolContext::detached()).await?;
        Ok(serde_json::to_string(&output).unwrap())
    }

    /// Every path outside of the root, with what is in it.
    fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let (mut found, mut dirs) = (BTreeMap::new(), vec![self.outer.path().to_owned()]);
        while let Some(dir) = dirs.pop() {
            for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
                let path = entry.path();
                if path.is_dir() {
                    found.insert(path.clone(), Vec::new());
                    dirs.extend((!path.ends_with("root")).then_some(path));
                } else {
                    found.insert(path.clone(), fs::read(&path).unwrap());
                }
            }
        }
        found
    }

    fn attempts(&self) -> Vec<String> {
        let out = self.outer.path().display().to_string();
        let plain = [
            "..",
            "../",
            "../secret.txt",
            "../outside",
            "../outside/secret.txt",
            "./../secret.txt",
            "sub/../../secret.txt",
            "sub/deep/../../../secret.txt",
            "sub//..//..//secret.txt",
            "new/../../secret.txt",
            "new/../../made.txt",
            "../root-evil/secret.txt",
            "../../../../../../../../etc/passwd",
            "/etc/passwd",
            "/",
            "//etc/passwd",
            "/proc/self/root/etc/passwd",
            "/proc/self/environ",
            "/dev/zero",
            "/dev/stdin",
            "~",
            "~/.ssh/id_rsa",
            "~root/.bashrc",
            "link_file",
            "link_file/",
            "link_file_absolute",
            "link_dir",
            "link_dir/secret.txt",
            "link_dir/made.txt",
            "link_dir/new/made.txt",
            "link_dir/../secret.txt",
            "link_dir_absolute/secret.txt",
            "link_dir_absolute/made.txt",
            "chain1",
            "chain2",
            "sub/chain3",
            "link_up",
            "link_up/secret.txt",
            "link_up/root/../secret.txt",
            "link_slash/etc/passwd",
            "dangling_out",
            "loop1",
            "loop1/x",
            "zero",
            "proc_root",
            "proc_root/etc/passwd",
            "proc_cwd/Cargo.toml",
            "fifo",
            "fifo/",
            "link_fifo",
            "inner.txt/",
            "inner.txt/x",
            "inner.txt/../../secret.txt",
            "nul\0.txt",
            "../secret.txt\0.png",
        ];
        let made = [
            format!("{out}/secret.txt"),
            format!("{out}/root/../secret.txt"),
            format!("{out}/root/sub/../../secret.txt"),
            format!("{out}/root/link_file"),
            format!("{out}/root-evil/secret.txt"),
            format!("/proc/self/root{out}/secret.txt"),
            format!("/proc/self/root{out}/root/inner.txt"),
            "x".repeat(300),
            "x/".repeat(3_000),
            format!("{}secret.txt", "../".repeat(2_000)),
        ];
        plain.into_iter().map(String::from).chain(made).collect()
    }
}

#[tokio::test]
async fn no_attempt_gets_out() {
    let trap = Trap::set();
    let before = trap.outside();
    let attempts = trap.attempts();
    for path in &attempts {
        for tool in ["read_file", "list_directory", "write_file"] {
            let told = trap.call(tool, json!({ "path": path, "content": PLANTED })).await;
            let Err(ToolError::Failed(why)) = told else { panic!("{tool} took {path:?}: {told:?}") };
            assert!(!why.contains(SECRET) && !why.contains("os error 1)"), "{tool} {path:?}: {why}");
            assert!(why.contains('`') && why.len() < 900 && !why.contains(['\0', '\n']), "{tool} {path:?}: {why}");
        }
        assert_eq!(trap.outside(), before, "after {path:?}");
    }
    assert_eq!(fs::read_to_string(trap.outer.path().join("root/inner.txt")).unwrap(), "inner");
    assert!(!trap.outer.path().join("root/new").exists(), "half of a refused path was made");
    assert!(attempts.len() >= 25);
}

#[tokio::test]
async fn a_refusal_says_what_where_and_what_to_do() {
    let trap = Trap::set();
    let root = trap.outer.path().join("root").display().to_string();
    let read = async |path: &str| trap.call("read_file", json!({ "path": path })).await.unwrap_err().to_string();
    let outside = read("../secret.txt").await;
    assert!(outside.starts_with(&format!("`../secret.txt` leads out of the workspace `{root}`")), "{outside}");
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
    for path in ["inner.txt", "./inner.txt", "sub/../inner.txt", "sub/link_in", "link_sub/link_in", &absolute] {
        let told = trap.call("read_file", json!({ "path": path })).await.unwrap();
        assert!(told.contains("inner"), "{path}: {told}");
    }
    for path in ["", ".", "./", "sub/..", root.to_str().unwrap()] {
        let told = trap.call("list_directory", json!({ "path": path })).await.unwrap();
        assert!(told.contains("inner.txt"), "{path}: {told}");
    }
    trap.call("write_file", json!({ "path": "link_sub/link_in", "content": "through" })).await.unwrap();
    assert_eq!(fs::read_to_string(root.join("inner.txt")).unwrap(), "through");
    assert!(root.join("sub/link_in").is_symlink());
    trap.call("write_file", json!({ "path": "./~tilde", "content": "" })).await.unwrap();
    assert!(root.join("~tilde").is_file());
}

/// Another process turns a link to and fro, so that a path that was checked leads elsewhere when it is used.
#[tokio::test]
async fn a_link_that_is_swapped_meanwhile_does_not_lead_out() {
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
    let (mut reached, mut refused) = (0, 0);
    while reached < 500 || refused < 500 {
        let _ = trap.call("write_file", json!({ "path": "turning/made.txt", "content": PLANTED })).await;
        match trap.call("read_file", json!({ "path": "turning/secret.txt" })).await {
            Ok(told) => {
                assert!(told.contains("inner") && !told.contains(SECRET), "{told}");
                reached += 1;
            }
            Err(_) => refused += 1,
        }
    }
    done.store(true, Ordering::Relaxed);
    turning.join().unwrap();
    assert_eq!(trap.outside().keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_root_that_is_a_link_is_known_by_both_names() {
    let trap = Trap::set();
    let (real, link) = (trap.outer.path().join("root"), trap.outer.path().join("by_link"));
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
