//! `glob_files`: finds files whose paths match a glob.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;

use crate::error::printable;
use crate::path_pattern::PathPattern;
use crate::schema::strict;
use crate::workspace::{Workspace, path_text};

const NAME: &str = "glob_files";
const DESCRIPTION: &str = "Finds files of the workspace by name, in all directories below `path`, \
    and returns their paths, sorted. Hidden files are included; `.git` and files that a .gitignore \
    ignores are skipped, unless `path` is inside them.";

/// The maximum number of paths in a result.
const MAX_FILES: usize = 1_000;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// A glob such as `*.rs`, `src/**/*.{ts,tsx}` or `**/test_*`. Without `/` it is matched against
    /// file names in every directory, with `/` against paths below `path`.
    pattern: String,
    /// The directory to search, as a path relative to the workspace; defaults to the whole
    /// workspace.
    path: Option<String>,
}

/// Creates the tool `glob_files`, which finds files of the workspace by name.
pub fn glob_files(workspace: Workspace) -> impl Tool {
    tool_with(
        workspace,
        NAME,
        DESCRIPTION,
        async |workspace: Workspace, args: Args, cx: ToolContext| {
            workspace.off_thread(move |workspace| glob(workspace, &args, &cx)).await
        },
    )
    .effect(Effect::ReadOnly)
    .spec(|spec| strict(spec).title("Find files"))
}

/// The first matching paths, and the number of all matches.
#[derive(Default)]
struct Matches {
    first: BTreeSet<PathBuf>,
    total: usize,
}

fn glob(workspace: &Workspace, args: &Args, cx: &ToolContext) -> Result<ToolOutput, ToolError> {
    let pattern = PathPattern::new(&args.pattern)?;
    let path = args.path.as_deref().unwrap_or(".");
    let matches = Mutex::new(Matches::default());
    let skipped = workspace.walk(path, cx, || {
        |entry| {
            if pattern.matches(entry.below) && entry.exists() {
                let mut matches = matches.lock().unwrap_or_else(PoisonError::into_inner);
                matches.total += 1;
                if matches.first.len() < MAX_FILES
                    || matches.first.last().is_some_and(|last| entry.path < last)
                {
                    matches.first.insert(entry.path.to_owned());
                }
                if matches.first.len() > MAX_FILES {
                    matches.first.pop_last();
                }
            }
        }
    })?;
    let Matches { first, total } = matches.into_inner().unwrap_or_else(PoisonError::into_inner);
    let files: Vec<String> = first.iter().map(|path| path_text(path)).collect();
    let mut text: String = files.iter().flat_map(|file| [file, "\n"]).collect();
    if total == 0 {
        text =
            format!("No file in `{}` matches `{}`.\n", printable(path), printable(&args.pattern));
    } else if total > MAX_FILES {
        text.push_str(&format!(
            "… the first {MAX_FILES} of {total} files: narrow it with `path` or a longer pattern\n"
        ));
    }
    text.push_str(&skipped.report(total == 0));
    let details = json!({ "path": path, "pattern": args.pattern, "files": files, "total": total });
    Ok(ToolOutput::text(text).details(details))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test creates its files from outside")]
mod tests {
    use std::fs;

    use loopwright_core::message::Content;
    use serde_json::Value;

    use super::*;

    async fn glob(dir: &tempfile::TempDir, arguments: Value) -> Result<(String, Value), String> {
        let tool = glob_files(Workspace::open(dir.path()).unwrap());
        let output =
            tool.call(&arguments, ToolContext::detached()).await.map_err(|e| e.to_string())?;
        let [Content::Text { text }] = &output.content[..] else { panic!("{output:?}") };
        Ok((text.clone(), output.details.unwrap()))
    }

    fn tree(files: &[&str]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for file in files {
            let path = dir.path().join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        dir
    }

    #[tokio::test]
    async fn paths_come_from_the_root_and_sorted() {
        let dir = tree(&[
            "src/b.rs",
            "src/a.rs",
            "src/deep/c.rs",
            "top.rs",
            "src/a.txt",
            ".hidden/x.rs",
            ".git/y.rs",
        ]);
        let (text, details) = glob(&dir, json!({ "pattern": "*.rs" })).await.unwrap();
        assert_eq!(text, ".hidden/x.rs\nsrc/a.rs\nsrc/b.rs\nsrc/deep/c.rs\ntop.rs\n");
        assert_eq!((&details["total"], &details["files"][1]), (&json!(5), &json!("src/a.rs")));
        let (text, _) = glob(&dir, json!({ "pattern": "*/*.rs", "path": "src" })).await.unwrap();
        assert_eq!(text, "src/deep/c.rs\n");
        let (text, _) = glob(&dir, json!({ "pattern": "*.rs", "path": ".git" })).await.unwrap();
        assert_eq!(text, ".git/y.rs\n");
        let (text, _) = glob(&dir, json!({ "pattern": "*.py", "path": "src" })).await.unwrap();
        assert_eq!(text, "No file in `src` matches `*.py`.\n");
    }

    #[tokio::test]
    async fn ignored_files_are_skipped_unless_the_search_starts_in_them() {
        let dir = tree(&[
            "target/a.o",
            "a.o",
            "src/b.o",
            "src/keep.o",
            "src/sub/keep.o",
            "docs/out/x.o",
            "src/c.o",
        ]);
        fs::write(dir.path().join(".gitignore"), "target/\n*.o\n/docs/out\n").unwrap();
        fs::write(dir.path().join("src/.gitignore"), "!keep.o\n").unwrap();
        fs::write(dir.path().join("src/.ignore"), "!c.o\n").unwrap();
        let (text, _) = glob(&dir, json!({ "pattern": "*.o" })).await.unwrap();
        assert_eq!(text, "src/c.o\nsrc/keep.o\nsrc/sub/keep.o\n");
        // Rules above `path` also apply below it.
        let (text, _) = glob(&dir, json!({ "pattern": "*.o", "path": "src/sub" })).await.unwrap();
        assert_eq!(text, "src/sub/keep.o\n");
        fs::write(dir.path().join(".gitignore"), "target/\n").unwrap();
        let (text, _) = glob(&dir, json!({ "pattern": "*.o", "path": "target" })).await.unwrap();
        assert_eq!(text, "target/a.o\n");
    }

    #[tokio::test]
    async fn the_exclude_file_of_git_is_honoured() {
        let dir = tree(&["a.txt", "b.txt", "sub/a.txt"]);
        fs::create_dir_all(dir.path().join(".git/info")).unwrap();
        fs::write(dir.path().join(".git/info/exclude"), "a.txt\n").unwrap();
        assert_eq!(glob(&dir, json!({ "pattern": "*.txt" })).await.unwrap().0, "b.txt\n");
        let (text, _) = glob(&dir, json!({ "pattern": "*.txt", "path": "sub" })).await.unwrap();
        assert_eq!(
            text,
            "No file in `sub` matches `*.txt`.\n… not searched: 1 file, ignored by a .gitignore or \
             similar file. To search there, give one as `path`, such as `sub/a.txt`\n"
        );
    }

    #[tokio::test]
    async fn only_the_first_of_many_files_are_shown_with_the_total() {
        let names: Vec<String> = (0..MAX_FILES + 7).rev().map(|n| format!("f{n:05}")).collect();
        let dir = tree(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let (text, details) = glob(&dir, json!({ "pattern": "**" })).await.unwrap();
        assert!(text.starts_with("f00000\nf00001\n"));
        assert!(text.ends_with(
            "f00999\n… the first 1000 of 1007 files: narrow it with `path` or a longer pattern\n"
        ));
        assert_eq!(
            (details["files"].as_array().unwrap().len(), &details["total"]),
            (1_000, &json!(1_007))
        );
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn links_are_listed_and_not_followed() {
        let dir = tree(&["real/f"]);
        std::os::unix::fs::symlink("real", dir.path().join("link")).unwrap();
        std::os::unix::fs::symlink("/etc", dir.path().join("out")).unwrap();
        let (text, _) = glob(&dir, json!({ "pattern": "**" })).await.unwrap();
        assert_eq!(text, "link\nout\nreal/f\n");
        assert_eq!(
            glob(&dir, json!({ "pattern": "*", "path": "link" })).await.unwrap().0,
            "real/f\n"
        );
    }

    /// Ignore rules are only read from regular files: not from a link that leads out, a pipe or a
    /// device.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_gitignore_that_is_no_file_is_not_read() {
        let dir = tree(&["a/f", "b/f", "c/f"]);
        std::os::unix::fs::symlink("/dev/zero", dir.path().join("a/.gitignore")).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(dir.path().join("b/.gitignore"))
                .status()
                .unwrap()
                .success()
        );
        fs::create_dir(dir.path().join("c/.gitignore")).unwrap();
        assert_eq!(glob(&dir, json!({ "pattern": "f" })).await.unwrap().0, "a/f\nb/f\nc/f\n");
    }

    #[tokio::test]
    async fn a_cancelled_call_stops() {
        let dir = tree(&["a"]);
        let cx = ToolContext::detached();
        cx.cancellation().cancel();
        let tool = glob_files(Workspace::open(dir.path()).unwrap());
        assert_eq!(tool.call(&json!({ "pattern": "*" }), cx).await, Err(ToolError::Cancelled));
    }

    #[test]
    fn it_needs_no_approval() {
        let dir = tempfile::tempdir().unwrap();
        let tool = glob_files(Workspace::open(dir.path()).unwrap());
        let spec = tool.spec();
        assert_eq!((spec.effect, spec.sequential), (Effect::ReadOnly, false));
        assert_eq!(spec.schema["required"], json!(["pattern"]));
    }
}
