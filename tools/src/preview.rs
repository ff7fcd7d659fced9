//! [`preview`]: the change that a call would make, computed by the tool's own code.

use serde_json::Value;

use crate::edit_file;
use crate::file_diff;
use crate::workspace::Workspace;
use crate::write_file;

/// Returns the change that a call of `tool` would make to a file, as a unified diff.
///
/// The diff is complete, and empty if the call would change no line. Returns `None` if the tool
/// changes no files. No file is written. The preview uses the tool's own code, except that the
/// guard of a [`guarded`](Workspace::guarded) workspace is not checked.
///
/// Blocks while reading the file.
///
/// # Errors
/// Returns a sentence for the user if the call would fail, or if the diff would be too long.
///
/// ```
/// # let dir = tempfile::tempdir().unwrap();
/// let workspace = loopwright_tools::Workspace::open(dir.path())?;
/// let arguments = serde_json::json!({ "path": "a.txt", "content": "hello\n" });
/// let diff = loopwright_tools::preview(&workspace, "write_file", &arguments).unwrap();
/// assert_eq!(diff.as_deref(), Some("--- a.txt\n+++ a.txt\n@@ -0,0 +1 @@\n+hello\n"));
/// # Ok::<_, loopwright_tools::WorkspaceError>(())
/// ```
pub fn preview(
    workspace: &Workspace,
    tool: &str,
    arguments: &Value,
) -> Result<Option<String>, String> {
    let change = match tool {
        "edit_file" => edit_file::dry_run(workspace, arguments),
        "write_file" => write_file::dry_run(workspace, arguments),
        _ => return Ok(None),
    };
    file_diff::of(change).map(Some)
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test inspects its files from outside")]
mod tests {
    use std::fs;

    use loopwright_core::{Tool, ToolContext};
    use serde_json::json;

    use super::*;

    /// Returns the preview of the call, and the result of the call itself.
    async fn both(
        dir: &tempfile::TempDir,
        tool: &str,
        arguments: Value,
    ) -> (Result<String, String>, Result<(), String>) {
        let workspace = Workspace::open(dir.path()).unwrap();
        let previewed = preview(&workspace, tool, &arguments).map(Option::unwrap);
        let context = ToolContext::detached();
        let done = match tool {
            "edit_file" => edit_file::edit_file(workspace).call(&arguments, context).await,
            _ => write_file::write_file(workspace).call(&arguments, context).await,
        };
        (previewed, done.map(drop).map_err(|why| why.to_string()))
    }

    fn edit(old: &str, new: &str) -> Value {
        json!({ "path": "f", "old_string": old, "new_string": new })
    }

    #[tokio::test]
    async fn the_preview_is_the_change_that_the_tool_makes() {
        let table: [(&[u8], &str, Value, &str); 8] = [
            (b"a\nb\n", "edit_file", edit("b", "B"), "@@ -1,2 +1,2 @@\n a\n-b\n+B\n"),
            (b"a\r\nb\r\n", "edit_file", edit("a\nb", "x"), "@@ -1,2 +1 @@\n-a\r\n-b\r\n+x\r\n"),
            (b"\xef\xbb\xbfa\n", "edit_file", edit("a", "b"), "@@ -1 +1 @@\n-a\n+b\n"),
            (b"x\nnew text\n", "edit_file", edit("old text", "new text"), ""),
            (b"a\n", "write_file", json!({ "path": "f", "content": "a\n" }), ""),
            (
                b"a\r\n",
                "write_file",
                json!({ "path": "f", "content": "b\n" }),
                "@@ -1 +1 @@\n-a\r\n+b\r\n",
            ),
            (
                b"\xef\xbb\xbfa",
                "write_file",
                json!({ "path": "f", "content": "b" }),
                "@@ -1 +1 @@\n-a\n",
            ),
            (
                b"",
                "write_file",
                json!({ "path": "new/g", "content": "g\n" }),
                "+++ new/g\n@@ -0,0 +1 @@\n+g\n",
            ),
        ];
        for (file, tool, arguments, wanted) in table {
            let dir = tempfile::tempdir().unwrap();
            fs::write(dir.path().join("f"), file).unwrap();
            let (previewed, done) = both(&dir, tool, arguments.clone()).await;
            let previewed = previewed.unwrap();
            assert!(previewed.contains(wanted), "{arguments}: {previewed:?}");
            assert_eq!(previewed.is_empty(), wanted.is_empty(), "{arguments}");
            assert_eq!(done, Ok(()));
            let same = fs::read(dir.path().join("f")).unwrap() == file;
            assert_eq!(same, previewed.is_empty() || arguments["path"] != "f", "{arguments}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn a_call_that_would_fail_is_previewed_with_the_same_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f"), "a a\n").unwrap();
        fs::write(dir.path().join("zero"), "a\0b").unwrap();
        fs::create_dir(dir.path().join("d")).unwrap();
        std::os::unix::fs::symlink("/", dir.path().join("up")).unwrap();
        let edit = |path: &str, old: &str| {
            ("edit_file", json!({ "path": path, "old_string": old, "new_string": "x" }))
        };
        let write = |path: &str| ("write_file", json!({ "path": path, "content": "x" }));
        let table = [
            (edit("../gone", "a"), "leads out of the workspace"),
            (edit("/gone/away", "a"), "leads out of the workspace"),
            (write("../gone"), "leads out of the workspace"),
            (write("/gone/away"), "leads out of the workspace"),
            (write("up/gone"), "leads out of the workspace"),
            (write("f/g"), "leads through a file"),
            (write("f/g/h"), "leads through a file"),
            (write("gone/../../h"), "does not exist"),
            (write("d"), "is a directory"),
            (edit("gone", "a"), "does not exist"),
            (edit("zero", "a"), "is a binary file"),
            (edit("f", "a"), "occurs 2 times"),
            (edit("f", ""), "old_string is empty"),
            (edit("f", "b"), "does not occur"),
        ];
        for ((tool, arguments), wanted) in table {
            let (previewed, done) = both(&dir, tool, arguments.clone()).await;
            let (previewed, done) = (previewed.unwrap_err(), done.unwrap_err());
            assert!(
                previewed.contains(wanted) && previewed.contains(&done),
                "{arguments}: {previewed} / {done}"
            );
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "no file was created");
    }

    #[test]
    fn a_change_without_a_diff_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("zero"), "a\0b").unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let write = |path: &str, content: &str| {
            preview(&workspace, "write_file", &json!({ "path": path, "content": content }))
        };
        assert!(write("zero", "x").unwrap_err().contains("is a binary file"));
        assert!(
            write("long", &"line\n".repeat(300_000)).unwrap_err().contains("it adds 300000 lines")
        );
        assert!(!dir.path().join("long").exists());
        assert_eq!(preview(&workspace, "read_file", &json!({ "path": "zero" })), Ok(None));
        assert!(
            preview(&workspace, "edit_file", &json!({ "path": "zero" }))
                .unwrap_err()
                .contains("are invalid")
        );
    }
}
