//! Coding tools for loopwright, inside a directory they cannot leave.
//!
//! Each tool is one file: what it is told to the model, its arguments, its work, its tests. All of
//! them reach files through a [`Workspace`] and nothing else, but for [`execute_command`], whose
//! commands the kernel keeps in it; [`Commands`] says what else they may do.
//!
//! ```no_run
//! use loopwright_tools::{Workspace, coding_tools};
//!
//! let tools = coding_tools(Workspace::open(".".as_ref())?);
//! # Ok::<_, loopwright_tools::WorkspaceError>(())
//! ```

mod agents_md;
mod commands;
mod diff;
mod edit_file;
mod error;
mod execute_command;
mod glob_files;
mod list_directory;
mod pattern;
mod preview;
mod process;
mod read_file;
mod schema;
mod search_files;
mod text;
mod workspace;
mod write_file;

#[cfg(test)]
#[cfg(unix)]
mod escapes;

use std::sync::Arc;

use loopwright_core::Tool;
use loopwright_core::tool::Toolbox;

pub use agents_md::agents_md;
pub use commands::Commands;
pub use diff::diff;
pub use edit_file::edit_file;
pub use error::WorkspaceError;
pub use execute_command::execute_command;
pub use glob_files::glob_files;
pub use list_directory::list_directory;
pub use preview::preview;
pub use read_file::read_file;
pub use search_files::search_files;
pub use workspace::Workspace;
pub use write_file::write_file;

/// All coding tools, in this workspace, with commands as they are run by default: confined, without
/// network.
pub fn coding_tools(workspace: Workspace) -> Toolbox {
    coding_tools_with(workspace, Commands::new())
}

/// All coding tools, in this workspace, with commands that are run in this way.
pub fn coding_tools_with(workspace: Workspace, commands: Commands) -> Toolbox {
    let tools: [Arc<dyn Tool>; 8] = [
        Arc::new(execute_command(workspace.clone(), commands)),
        Arc::new(read_file(workspace.clone())),
        Arc::new(write_file(workspace.clone())),
        Arc::new(edit_file(workspace.clone())),
        Arc::new(list_directory(workspace.clone())),
        Arc::new(search_files(workspace.clone())),
        Arc::new(glob_files(workspace.clone())),
        Arc::new(diff(workspace)),
    ];
    tools.into_iter().collect()
}
