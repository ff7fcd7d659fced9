//! [`WorkspaceError`]: the reason why a file could not be accessed, in sentences for the model.

use std::io;

use loopwright_core::ToolError;
use loopwright_core::error::Failure;

/// The reason why a file or directory could not be accessed.
///
/// Each message says what was wrong, where, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WorkspaceError {
    /// The root itself cannot be opened. The message is for the operator of the agent.
    #[error("the workspace `{root}` cannot be opened: {why}")]
    Root {
        /// The path given as the root.
        root: String,
        /// The system's error.
        #[source]
        why: Failure,
    },
    /// The path leads out of the root.
    #[error(
        "`{path}` leads out of the workspace `{root}`. Paths must stay inside it: neither `..`, \
         nor an absolute path, nor a symbolic link may leave it. Use a path relative to the \
         workspace"
    )]
    Outside {
        /// The requested path.
        path: String,
        /// The root of the workspace.
        root: String,
    },
    /// No file can have this path.
    #[error("`{path}` is not a usable path: {why}")]
    Name {
        /// The requested path.
        path: String,
        /// The problem with the path, and what to do.
        why: &'static str,
    },
    /// The file does not exist.
    #[error("`{path}` does not exist in the workspace: list its directory to see what is there")]
    NotFound {
        /// The requested path.
        path: String,
    },
    /// The file has another kind than the call needs.
    #[error("`{path}` is {what}: {hint}")]
    Kind {
        /// The requested path.
        path: String,
        /// The kind of the file, such as "a directory".
        what: &'static str,
        /// A hint about what to do.
        hint: &'static str,
    },
    /// Another program has changed the file, and its change would be lost.
    #[error("`{path}` has changed on disk since {since}, and was left unchanged: read it again")]
    Changed {
        /// The requested path.
        path: String,
        /// The event after which the file changed, such as "it was last read".
        since: &'static str,
    },
    /// The path leads through a symbolic link to a protected file.
    #[error(
        "`{path}` leads to `{file}`, which is protected ({why}), and was left unchanged: name \
         `{file}` itself, so that the user is asked"
    )]
    Protected {
        /// The requested path.
        path: String,
        /// The protected file.
        file: String,
        /// The reason why the file is protected.
        why: &'static str,
    },
    /// The file is too large to be held in memory.
    #[error(
        "`{path}` has {bytes} bytes, but this tool works on at most {max_bytes}: use a command \
         for it"
    )]
    TooLarge {
        /// The requested path.
        path: String,
        /// The size of the file in bytes.
        bytes: u64,
        /// The maximum allowed size in bytes.
        max_bytes: u64,
    },
    /// The system failed in another way.
    #[error("`{path}` could not be {what}: {why}")]
    Io {
        /// The requested path.
        path: String,
        /// The failed operation as a participle, such as "read".
        what: &'static str,
        /// The system's error.
        #[source]
        why: Failure,
    },
}

impl From<WorkspaceError> for ToolError {
    fn from(error: WorkspaceError) -> Self {
        ToolError::failed(error)
    }
}

impl WorkspaceError {
    /// Converts an I/O error on `path`. `what` is the failed operation as a participle, such as
    /// "read".
    pub(crate) fn from_io(path: &str, root: &str, what: &'static str, error: &io::Error) -> Self {
        let path = printable(path);
        match error.kind() {
            // Returned by cap-std itself: unlike the system's errors, it has no number.
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

    /// Converts an I/O error without its own variant.
    pub(crate) fn io(path: String, what: &'static str, error: &io::Error) -> Self {
        let text = error.to_string();
        let why = Failure::new(text.split(" (os error").next().unwrap_or(&text).to_lowercase());
        // An I/O error cannot be cloned, but a system error can be built again from its number.
        let why = match error.raw_os_error() {
            Some(number) => why.with_source(io::Error::from_raw_os_error(number)),
            None => why,
        };
        WorkspaceError::Io { path, what, why }
    }
}

/// Returns a path or name in a form that fits into one line: control characters are escaped, and a
/// long name is cut.
pub(crate) fn printable(path: &str) -> String {
    const MAX_BYTES: usize = 300;
    let mut out = String::new();
    for c in path.chars() {
        if out.len() >= MAX_BYTES {
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
        assert_eq!(printable("a\nb\0c é"), "a\\nb\\u{0}c é");
        assert!(printable(&"x".repeat(10_000)).len() < 310);
    }
}
