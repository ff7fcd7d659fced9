//! Coding tools for loopwright, confined to one directory.
//!
//! Each tool is one file: its description for the model, its arguments, its code, its tests. All
//! tools access files only through a [`Workspace`], except `execute_command`. The kernel confines
//! its commands to the workspace, and `Commands` configures what else they may do.
//!
//! ```no_run
//! use loopwright_tools::{Workspace, coding_tools};
//!
//! let tools = coding_tools(Workspace::open(".".as_ref())?);
//! # Ok::<_, loopwright_tools::WorkspaceError>(())
//! ```
//!
//! | tool | feature |
//! |---|---|
//! | `read_file`, `write_file`, `edit_file`, `list_directory`, `diff` | always included |
//! | `execute_command` | `commands` (default) |
//! | `search_files`, `glob_files` | `search` (default) |

#![cfg_attr(docsrs, feature(doc_cfg))]

/// The README, whose examples run as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;

mod agents_md;
#[cfg(feature = "commands")]
mod commands;
mod diff;
mod edit_file;
mod error;
#[cfg(feature = "commands")]
mod execute_command;
mod file_diff;
mod glob;
#[cfg(feature = "search")]
mod glob_files;
mod list_directory;
#[cfg(feature = "search")]
mod path_pattern;
#[cfg(all(feature = "commands", target_os = "linux"))]
mod piped_command;
mod preview;
#[cfg(feature = "commands")]
#[cfg_attr(not(unix), allow(dead_code, reason = "commands run on Unix only"))]
mod process;
mod protection;
mod read_file;
mod schema;
#[cfg(feature = "search")]
mod search_files;
mod text;
mod workspace;
mod write_file;

#[cfg(test)]
#[cfg(all(unix, feature = "commands", feature = "search"))]
mod escape_tests;

use std::sync::Arc;

use loopwright_core::Tool;
use loopwright_core::tool::Toolbox;

pub use agents_md::agents_md;
#[cfg(feature = "commands")]
pub use commands::Commands;
pub use diff::diff;
pub use edit_file::edit_file;
pub use error::WorkspaceError;
#[cfg(feature = "commands")]
pub use execute_command::execute_command;
#[cfg(feature = "search")]
pub use glob_files::glob_files;
pub use list_directory::list_directory;
#[cfg(all(feature = "commands", target_os = "linux"))]
pub use piped_command::{CommandGuard, PipedCommand, piped_command};
pub use preview::preview;
pub use protection::protected_file;
pub use read_file::read_file;
#[cfg(feature = "search")]
pub use search_files::search_files;
pub use workspace::{Workspace, protected_paths};
pub use write_file::write_file;

/// Returns all compiled-in coding tools for `workspace`.
///
/// Commands run with the defaults of `Commands`: confined and without network access.
///
/// ```
/// use loopwright_tools::{Workspace, coding_tools};
///
/// # let dir = tempfile::tempdir().unwrap();
/// let tools = coding_tools(Workspace::open(dir.path())?);
/// assert!(tools.tool("edit_file").is_some());
/// # Ok::<_, loopwright_tools::WorkspaceError>(())
/// ```
pub fn coding_tools(workspace: Workspace) -> Toolbox {
    #[cfg(feature = "commands")]
    return coding_tools_with(workspace, Commands::new());
    #[cfg(not(feature = "commands"))]
    file_tools(workspace).into_iter().collect()
}

/// Returns all compiled-in coding tools for `workspace`. Commands run as configured.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_tools::{Commands, Workspace, coding_tools_with};
///
/// # let dir = tempfile::tempdir().unwrap();
/// let commands = Commands::new().max_timeout(Duration::from_secs(60));
/// let tools = coding_tools_with(Workspace::open(dir.path())?, commands);
/// assert!(tools.tool("execute_command").is_some());
/// # Ok::<_, loopwright_tools::WorkspaceError>(())
/// ```
#[cfg(feature = "commands")]
pub fn coding_tools_with(workspace: Workspace, commands: Commands) -> Toolbox {
    let execute: Arc<dyn Tool> = Arc::new(execute_command(workspace.clone(), commands));
    std::iter::once(execute).chain(file_tools(workspace)).collect()
}

/// Returns all tools except `execute_command`.
fn file_tools(workspace: Workspace) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read_file(workspace.clone())),
        Arc::new(write_file(workspace.clone())),
        Arc::new(edit_file(workspace.clone())),
        Arc::new(list_directory(workspace.clone())),
        #[cfg(feature = "search")]
        Arc::new(search_files(workspace.clone())),
        #[cfg(feature = "search")]
        Arc::new(glob_files(workspace.clone())),
        Arc::new(diff(workspace)),
    ]
}
