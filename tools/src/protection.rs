//! Approval of calls that change protected files.

use std::sync::Arc;

use loopwright_core::tool::Approval;
use serde_json::Value;

use crate::error::printable;
use crate::workspace::{Workspace, protection};

/// Returns a sentence that names the protected file that a call of `tool` would change, and the
/// reason for its protection. Returns `None` if the call changes no protected file.
///
/// Such a call needs approval, whatever the agent's rules are, unless the file is
/// [unprotected](Workspace::unprotected). Front ends show the sentence with the call. No file is
/// read.
///
/// ```
/// let arguments = serde_json::json!({ "path": ".git/config", "content": "" });
/// assert_eq!(
///     loopwright_tools::protected_file("write_file", &arguments).as_deref(),
///     Some("`.git/config` is a protected file: git runs the programs that it names.")
/// );
/// ```
pub fn protected_file(tool: &str, arguments: &Value) -> Option<String> {
    let path = match tool {
        "edit_file" | "write_file" => arguments.get("path")?.as_str()?,
        _ => return None,
    };
    let why = protection(path)?;
    Some(format!("`{}` is a protected file: {why}.", printable(path)))
}

/// Returns the approval rule of a tool that changes the file in its argument `path`.
pub(crate) fn approval(workspace: &Workspace) -> Approval {
    let workspace = workspace.clone();
    Approval::AlwaysIf(Arc::new(move |arguments, _| {
        let path = arguments.get("path").and_then(Value::as_str);
        path.is_some_and(|path| workspace.is_protected(path))
    }))
}

#[cfg(test)]
#[cfg(unix)]
#[allow(clippy::disallowed_methods, reason = "the test inspects its files from outside")]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use loopwright_core::{Tool, ToolContext};
    use serde_json::json;

    use super::*;
    use crate::{edit_file, write_file};

    /// Returns whether a write to `path` needs approval, and the result of the call.
    async fn write(workspace: &Workspace, path: &str) -> (bool, Result<(), String>) {
        let tool = write_file(workspace.clone());
        let arguments = json!({ "path": path, "content": "new" });
        let Approval::AlwaysIf(asks) = &tool.spec().approval else { panic!("no rule") };
        let asks = asks(&arguments, &Default::default());
        let done = tool.call(&arguments, ToolContext::detached()).await;
        (asks, done.map(|_| ()).map_err(|e| e.to_string()))
    }

    #[tokio::test]
    async fn a_protected_file_is_written_after_approval() {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        for (path, protected) in [(".git/hooks/pre-commit", true), ("src/main.rs", false)] {
            assert_eq!(write(&workspace, path).await, (protected, Ok(())), "{path}");
        }
        let open = workspace.unprotected(".git");
        assert_eq!(write(&open, ".git/hooks/pre-commit").await, (false, Ok(())));
    }

    /// An earlier call of the same turn may create the links after the approvals were checked.
    #[tokio::test]
    async fn a_link_does_not_lead_to_a_protected_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |path: &str| dir.path().join(path);
        fs::create_dir_all(at(".git/hooks")).unwrap();
        fs::write(at(".git/config"), "old").unwrap();
        symlink(".git", at("g")).unwrap();
        symlink(".git/config", at("notes")).unwrap();
        symlink(".git/hooks", at("scripts")).unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        for (path, file) in [
            ("notes", ".git/config"),
            ("g/config", ".git/config"),
            ("g/hooks/new", ".git/hooks/new"),
            ("scripts/new", ".git/hooks/new"),
            ("scripts/deep/new", ".git/hooks/deep/new"),
        ] {
            let (asks, done) = write(&workspace, path).await;
            let why = done.unwrap_err();
            assert!(
                !asks && why.contains(&format!("leads to `{file}`, which is protected")),
                "{why}"
            );
            let arguments = json!({ "path": path, "old_string": "old", "new_string": "new" });
            let edit = edit_file(workspace.clone());
            assert!(edit.call(&arguments, ToolContext::detached()).await.is_err(), "{path}");
        }
        assert_eq!(fs::read_to_string(at(".git/config")).unwrap(), "old");
        assert_eq!(fs::read_dir(at(".git/hooks")).unwrap().count(), 0);
        let open = workspace.unprotected(".git/config");
        assert_eq!(write(&open, "notes").await, (false, Ok(())));
    }
}
