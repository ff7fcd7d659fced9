//! [`Trap`]: a workspace with links and files that lead out of it, and paths to try.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use loopwright_core::tool::Toolbox;
use loopwright_core::{Tool, ToolContext, ToolError};
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::{Workspace, coding_tools};

pub(super) const SECRET: &str = "the secret";
pub(super) const PLANTED: &str = "planted by the model";

/// A workspace in `outer/root`, with secrets outside of it in `outer`.
pub(super) struct Trap {
    pub(super) outer: TempDir,
    pub(super) tools: Toolbox,
}

impl Trap {
    /// Creates the directories, files and links.
    pub(super) fn set() -> Self {
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
        let status = std::process::Command::new("mkfifo").arg(root.join("fifo")).status().unwrap();
        assert!(status.success());
        symlink("fifo", root.join("link_fifo")).unwrap();
        fs::write(root.join(OsStr::from_bytes(b"sub/not \xff utf8")), "inner").unwrap();
        let tools = coding_tools(Workspace::open(&root).unwrap());
        Trap { outer, tools }
    }

    pub(super) async fn call(&self, tool: &str, arguments: Value) -> Result<String, ToolError> {
        let tool = self.tools.tool(tool).unwrap();
        let output = tool.call(&arguments, ToolContext::detached()).await?;
        Ok(serde_json::to_string(&output).unwrap())
    }

    /// Calls each tool with this path, in every argument for paths, and returns the results.
    pub(super) async fn call_each(
        &self,
        path: &str,
    ) -> Vec<(&'static str, Result<String, ToolError>)> {
        let calls = [
            ("read_file", json!({ "path": path })),
            ("read_file", json!({ "path": path, "offset": -1 })),
            ("list_directory", json!({ "path": path })),
            ("search_files", json!({ "path": path, "pattern": "secret|root:" })),
            ("glob_files", json!({ "path": path, "pattern": "**" })),
            ("diff", json!({ "file_a": path, "file_b": "inner.txt" })),
            ("diff", json!({ "file_a": "inner.txt", "file_b": path })),
            ("edit_file", json!({ "path": path, "old_string": SECRET, "new_string": PLANTED })),
            ("write_file", json!({ "path": path, "content": PLANTED })),
            (
                "execute_command",
                json!({ "cwd": path, "command": "cat secret.txt; echo x > made.txt" }),
            ),
        ];
        let mut results = Vec::new();
        for (tool, arguments) in calls {
            results.push((tool, self.call(tool, arguments).await));
        }
        let taking = self
            .tools
            .tools()
            .filter(|tool| tool.spec().schema.to_string().contains("relative to the workspace"));
        let called =
            |tool: &Arc<dyn Tool>| results.iter().any(|(name, _)| *name == &*tool.spec().name);
        assert!(taking.into_iter().all(called), "a tool that takes a path is missing here");
        results
    }

    /// Returns every path outside of the root, with its contents.
    pub(super) fn outside(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut dirs = vec![self.outer.path().to_owned()];
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

    /// Returns paths that lead out of the workspace, or that no file can have.
    pub(super) fn attempts(&self) -> Vec<String> {
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
            "./././../secret.txt",
            "sub/./../.././secret.txt",
            "link_dir/./../outside/secret.txt",
            "link_dir//secret.txt",
            "link_up/outside/secret.txt",
            "link_up/root/link_up/secret.txt",
            "sub/../link_file",
            "link_slash/proc/self/environ",
            "/proc/self/fd/0",
            "/dev/fd/0",
            "/sys/kernel",
            "zero/",
            "fifo/x",
            "dangling_out/x",
            "~/",
            "~nobody/x",
            "nul\0.txt",
            "\0",
            "\0/../../secret.txt",
            "../secret.txt\0.png",
        ];
        let generated = [
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
        plain.into_iter().map(String::from).chain(generated).collect()
    }
}
