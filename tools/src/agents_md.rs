//! `AGENTS.md`: a project's instructions to the agents that work in it.

use crate::error::WorkspaceError;
use crate::workspace::Workspace;

/// The name of the file in the root of the workspace.
const FILE: &str = "AGENTS.md";
/// The maximum size of the text in the system prompt.
const MAX_BYTES: usize = 32 << 10;

/// Returns the contents of `AGENTS.md` in the root of the workspace, as the end of a system prompt.
///
/// Returns `None` if the file does not exist or is empty. A file larger than 32 KiB is cut, with a
/// note that says so. Blocks while reading the file.
///
/// ```
/// use loopwright_tools::{Workspace, agents_md};
///
/// let workspace = Workspace::open(".".as_ref())?;
/// let instructions = agents_md(&workspace)?.unwrap_or_default();
/// let system = format!("You are a coding assistant.{instructions}");
/// # Ok::<_, loopwright_tools::WorkspaceError>(())
/// ```
///
/// # Errors
/// Returns an error if the file exists but leads out of the workspace, is not a regular file, or
/// cannot be read.
pub fn agents_md(workspace: &Workspace) -> Result<Option<String>, WorkspaceError> {
    let Some((text, bytes)) = workspace.read_start(FILE, MAX_BYTES)? else {
        return Ok(None);
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let note = match bytes > MAX_BYTES as u64 {
        true => format!(
            "\n\n[{FILE} continues: these are its first {MAX_BYTES} of {bytes} bytes. Read the \
             rest with a tool.]"
        ),
        false => String::new(),
    };
    Ok(Some(format!(
        "\n\n# {FILE}\n\nThese are the project's instructions for agents. The user's instructions \
         take precedence.\n\n{}{note}",
        text.trim_end()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prompt(text: impl AsRef<[u8]>) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        assert_eq!(agents_md(&workspace).unwrap(), None);
        #[allow(clippy::disallowed_methods, reason = "the test sets the file up")]
        std::fs::write(dir.path().join(FILE), text).unwrap();
        agents_md(&workspace).unwrap()
    }

    #[test]
    fn its_text_is_returned_and_its_size_is_bounded() {
        let short = prompt("Use tabs.\n").unwrap();
        assert!(
            short.starts_with("\n\n# AGENTS.md\n\n") && short.ends_with("\n\nUse tabs."),
            "{short}"
        );
        assert_eq!(prompt(" \n\n"), None);
        let whole = prompt("é".repeat(MAX_BYTES / 2)).unwrap();
        assert!(whole.ends_with('é') && !whole.contains("continues"));
        let long = prompt(format!("a{}", "é".repeat(MAX_BYTES))).unwrap();
        assert!(
            long.ends_with("first 32768 of 65537 bytes. Read the rest with a tool.]"),
            "{long}"
        );
        assert!(
            long.len() < MAX_BYTES + 400 && !long.contains('\u{fffd}'),
            "no character is cut in two"
        );
        assert!(prompt(b"Latin: \xe9").unwrap().ends_with("Latin: \u{fffd}"));
    }

    #[test]
    #[cfg(unix)]
    #[allow(clippy::disallowed_methods, reason = "the test sets the files up")]
    fn a_link_is_followed_inside_and_not_out() {
        let outer = tempfile::tempdir().unwrap();
        let root = outer.path().join("root");
        std::fs::create_dir(&root).unwrap();
        std::fs::write(outer.path().join("secret"), "secret").unwrap();
        std::fs::write(root.join("CLAUDE.md"), "Use tabs.").unwrap();
        let workspace = Workspace::open(&root).unwrap();
        std::os::unix::fs::symlink("../secret", root.join(FILE)).unwrap();
        let why = agents_md(&workspace).unwrap_err().to_string();
        assert!(why.contains("leads out of the workspace"), "{why}");
        std::fs::remove_file(root.join(FILE)).unwrap();
        std::os::unix::fs::symlink("CLAUDE.md", root.join(FILE)).unwrap();
        assert!(agents_md(&workspace).unwrap().unwrap().ends_with("Use tabs."));
        std::fs::remove_file(root.join(FILE)).unwrap();
        std::fs::create_dir(root.join(FILE)).unwrap();
        let why = agents_md(&workspace).unwrap_err().to_string();
        assert!(why.contains("is a directory"), "{why}");
    }
}
