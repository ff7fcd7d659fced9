//! What goes wrong in a workspace, in sentences for the model that asked.

use std::io;

use loopwright_core::ToolError;

/// A file or directory could not be reached. Each text says what was wrong, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The root itself cannot be opened. For whoever starts the agent.
    #[error("the workspace `{root}` cannot be opened: {why}")]
    Root {
        /// The directory that was to be the root.
        root: String,
        /// What the system said.
        why: String,
    },
    /// The path leads out of the root.
    #[error(
        "`{path}` leads out of the workspace `{root}`, which nothing here may leave: neither by `..`, nor by an \
         absolute path, nor through a symbolic link. Use a path relative to the workspace"
    )]
    Outside {
        /// The path that was asked for.
        path: String,
        /// The root.
        root: String,
    },
    /// The path is none that a file can have here.
    #[error("`{path}` is not a usable path: {why}")]
    Name {
        /// The path that was asked for.
        path: String,
        /// What is wrong with it, and what to do.
        why: &'static str,
    },
    /// There is nothing of that name.
    #[error("`{path}` does not exist in the workspace: list its directory to see what is there")]
    NotFound {
        /// The path that was asked for.
        path: String,
    },
    /// It is there, but of another kind.
    #[error("`{path}` is {what}: {hint}")]
    Kind {
        /// The path that was asked for.
        path: String,
        /// What it is.
        what: &'static str,
        /// What to do.
        hint: &'static str,
    },
    /// Someone else changed the file, and what they did would be lost.
    #[error("`{path}` has changed on disk since {since}, and was left as it is: read it again")]
    Changed {
        /// The path that was asked for.
        path: String,
        /// Since when, as in "since it was last read".
        since: &'static str,
    },
    /// The file is larger than what is held in memory at once.
    #[error(
        "`{path}` has {bytes} bytes, more than the {largest} that can be worked on here: use a command for it"
    )]
    TooLarge {
        /// The path that was asked for.
        path: String,
        /// Its size in bytes.
        bytes: u64,
        /// The largest size in bytes.
        largest: u64,
    },
    /// The system refused or failed.
    #[error("`{path}` could not be {what}: {why}")]
    Io {
        /// The path that was asked for.
        path: String,
        /// What was to be done with it, as in "could not be read".
        what: &'static str,
        /// What the system said.
        why: String,
    },
}

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        ToolError::failed(error)
    }
}

impl WorkspaceError {
    /// The error for what the system said about `path` while it was to be `what`.
    pub(crate) fn from_io(path: &str, root: &str, what: &'static str, error: &io::Error) -> Self {
        let path = shown(path);
        match error.kind() {
            // cap-std's own refusal: unlike the system's, it has no number.
            io::ErrorKind::PermissionDenied if error.raw_os_error().is_none() => {
                WorkspaceError::Outside { path, root: root.to_owned() }
            }
            io::ErrorKind::NotFound => WorkspaceError::NotFound { path },
            io::ErrorKind::NotADirectory | io::ErrorKind::AlreadyExists => WorkspaceError::Kind {
                path,
                what: "not a directory, or leads through a file as if it were one",
                hint: "list the directories above it to see what is there",
            },
            io::ErrorKind::InvalidFilename => {
                WorkspaceError::Name { path, why: "a name in it is too long" }
            }
            _ => WorkspaceError::io(path, what, error),
        }
    }

    /// A failure of which no more is known than what the system said.
    pub(crate) fn io(path: String, what: &'static str, error: &io::Error) -> Self {
        let said = error.to_string();
        let why = said.split(" (os error").next().unwrap_or(&said).to_lowercase();
        WorkspaceError::Io { path, what, why }
    }
}

/// A path or name as it can stand in a line of text: no control characters, not endlessly long.
pub(crate) fn shown(path: &str) -> String {
    const LONGEST: usize = 300;
    let mut out = String::new();
    for c in path.chars() {
        if out.len() >= LONGEST {
            out.push('…');
            break;
        }
        if c.is_control() { out.extend(c.escape_default()) } else { out.push(c) }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_in_its_line() {
        assert_eq!(shown("a\nb\0c é"), "a\\nb\\u{0}c é");
        assert!(shown(&"x".repeat(10_000)).len() < 310);
    }
}
