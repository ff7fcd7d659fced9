//! [`preview`]: what a call would do to a file, found out by the code that would do it.

use loopwright_core::ToolError;
use serde_json::Value;

use crate::edit_file;
use crate::text::Unified;
use crate::workspace::Workspace;
use crate::write_file;

/// The longest diff, in bytes: whoever is to say yes to it reads all of it.
const LONGEST: usize = 1024 * 1024;

/// The text of a file, and what it would be.
pub(crate) struct Becomes {
    pub(crate) path: String,
    pub(crate) old: String,
    pub(crate) new: String,
}

/// What the call of this tool, with these arguments, would do to a file of the workspace now: a
/// unified diff with all of the change, empty if there is none; `None` of a tool that changes no
/// file. Nothing is written. It reads and judges with the same code as the tool, but for the guard
/// of a workspace that is [`guarded`](Workspace::guarded): what it has read is its own.
///
/// Blocks while it reads the file.
///
/// # Errors
/// Why the call would fail, or why what it does cannot be shown, as a sentence for the user.
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
    let becomes = match tool {
        "edit_file" => edit_file::dry_run(workspace, arguments),
        "write_file" => write_file::dry_run(workspace, arguments),
        _ => return Ok(None),
    };
    let Becomes { path, old, new } = becomes.map_err(|why| sentence(&why))?;
    let diff = Unified::up_to(LONGEST, (&path, &old), (&path, &new));
    if diff.cut {
        let Unified { added, removed, .. } = diff;
        return Err(format!("The diff is too long to be shown: {added} lines come, {removed} go."));
    }
    Ok(Some(diff.text))
}

fn sentence(why: &ToolError) -> String {
    format!("What it would do cannot be shown: {why}.")
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test looks at its files from outside")]
mod tests {
    use std::fs;

    use loopwright_core::{Tool, ToolContext};
    use serde_json::json;

    use super::*;

    /// What is foretold, and what the tool then does: how the file became another, or why it
    /// failed.
    async fn both(
        dir: &tempfile::TempDir,
        tool: &str,
        arguments: Value,
    ) -> (Result<String, String>, Result<(), String>) {
        let workspace = Workspace::open(dir.path()).unwrap();
        let foretold = preview(&workspace, tool, &arguments).map(Option::unwrap);
        let context = ToolContext::detached();
        let done = match tool {
            "edit_file" => crate::edit_file(workspace).call(&arguments, context).await,
            _ => crate::write_file(workspace).call(&arguments, context).await,
        };
        (foretold, done.map(drop).map_err(|why| why.to_string()))
    }

    fn edit(old: &str, new: &str) -> Value {
        json!({ "path": "f", "old_string": old, "new_string": new })
    }

    #[tokio::test]
    async fn what_is_foretold_is_what_is_done() {
        let table: [(&[u8], &str, Value, &str); 8] = [
            (b"a\nb\n", "edit_file", edit("b", "B"), "@@ -1,2 +1,2 @@\n a\n-b\n+B\n"),
            (b"a\r\nb\r\n", "edit_file", edit("a\nb", "x"), "@@ -1,2 +1 @@\n-a\r\n-b\r\n+x\r\n"),
            (b"\xef\xbb\xbfa\n", "edit_file", edit("a", "b"), "@@ -1 +1 @@\n-a\n+b\n"),
            (b"x\nnew text\n", "edit_file", edit("old text", "new text"), ""),
            (b"a\n", "write_file", json!({ "path": "f", "content": "a\n" }), ""),
            (
                b"a\r\n",
                "write_file",
                json!({ "path": "f", "content": "a\n" }),
                "@@ -1 +1 @@\n-a\r\n+a\n",
            ),
            (
                b"\xef\xbb\xbfa",
                "write_file",
                json!({ "path": "f", "content": "a" }),
                "-\u{feff}a\n",
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
            let (foretold, done) = both(&dir, tool, arguments.clone()).await;
            let foretold = foretold.unwrap();
            assert!(foretold.contains(wanted), "{arguments}: {foretold:?}");
            assert_eq!(foretold.is_empty(), wanted.is_empty(), "{arguments}");
            assert_eq!(done, Ok(()));
            let same = fs::read(dir.path().join("f")).unwrap() == file;
            assert_eq!(same, foretold.is_empty() || arguments["path"] != "f", "{arguments}");
        }
    }

    #[cfg(unix)]
    #[tokio::test]
    async fn what_would_fail_fails_with_the_same_words() {
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
            let (foretold, done) = both(&dir, tool, arguments.clone()).await;
            let (foretold, done) = (foretold.unwrap_err(), done.unwrap_err());
            assert!(
                foretold.contains(wanted) && foretold.contains(&done),
                "{arguments}: {foretold} / {done}"
            );
        }
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4, "nothing was made");
    }

    #[test]
    fn what_cannot_be_compared_is_said() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("zero"), "a\0b").unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        let write = |path: &str, content: &str| {
            preview(&workspace, "write_file", &json!({ "path": path, "content": content }))
        };
        assert!(write("zero", "x").unwrap_err().contains("is a binary file"));
        assert!(
            write("long", &"line\n".repeat(300_000)).unwrap_err().contains("300000 lines come")
        );
        assert!(!dir.path().join("long").exists());
        assert_eq!(preview(&workspace, "read_file", &json!({ "path": "zero" })), Ok(None));
        assert!(
            preview(&workspace, "edit_file", &json!({ "path": "zero" }))
                .unwrap_err()
                .contains("do not fit")
        );
    }
}
