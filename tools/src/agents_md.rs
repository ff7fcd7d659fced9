//! `AGENTS.md`: what the people of a project ask of the agents that work in it.

use crate::{Workspace, WorkspaceError};

/// The file, in the root of the workspace.
const FILE: &str = "AGENTS.md";
/// Bytes of it that are shown to the model at once.
const MOST: usize = 32 << 10;

/// The end of a system prompt with what `AGENTS.md` in the root of the workspace says; `None` if
/// there is no such file, or nothing in it. Of a file of more than 32 KiB the beginning is there,
/// and a note that it goes on.
///
/// ```
/// use loopwright_tools::{Workspace, agents_md};
///
/// let workspace = Workspace::open(".".as_ref())?;
/// let system = format!("You are a coding assistant.{}", agents_md(&workspace)?.unwrap_or_default());
/// # Ok::<_, loopwright_tools::WorkspaceError>(())
/// ```
///
/// # Errors
/// It is there and cannot be read: it leads out of the workspace, is no regular file, or the system
/// refuses.
pub fn agents_md(workspace: &Workspace) -> Result<Option<String>, WorkspaceError> {
    let Some((text, bytes)) = workspace.beginning(FILE, MOST)? else {
        return Ok(None);
    };
    if text.trim().is_empty() {
        return Ok(None);
    }
    let cut = match bytes > MOST as u64 {
        true => {
            format!(
                "\n\n[{FILE} goes on: these are its first {MOST} of {bytes} bytes. Read the rest with a tool.]"
            )
        }
        false => String::new(),
    };
    Ok(Some(format!(
        "\n\n# {FILE}\n\nThe project says this to agents that work in it. Where the user says otherwise, the user counts.\n\n{}{cut}",
        text.trim_end()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(text: impl AsRef<[u8]>) -> Option<String> {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        assert_eq!(agents_md(&workspace).unwrap(), None);
        #[allow(clippy::disallowed_methods, reason = "a test sets the file up")]
        std::fs::write(dir.path().join(FILE), text).unwrap();
        agents_md(&workspace).unwrap()
    }

    #[test]
    fn what_it_says_is_told_and_its_size_is_bounded() {
        let short = told("Use tabs.\n").unwrap();
        assert!(
            short.starts_with("\n\n# AGENTS.md\n\n") && short.ends_with("\n\nUse tabs."),
            "{short}"
        );
        assert_eq!(told(" \n\n"), None);
        let whole = told("é".repeat(MOST / 2)).unwrap();
        assert!(whole.ends_with('é') && !whole.contains("goes on"));
        let long = told(format!("a{}", "é".repeat(MOST))).unwrap();
        assert!(
            long.ends_with("first 32768 of 65537 bytes. Read the rest with a tool.]"),
            "{long}"
        );
        assert!(long.len() < MOST + 400 && !long.contains('\u{fffd}'), "no letter is cut in two");
        assert!(told(b"Latin: \xe9").unwrap().ends_with("Latin: \u{fffd}"));
    }

    #[test]
    #[cfg(unix)]
    #[allow(clippy::disallowed_methods, reason = "a test sets the files up")]
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
