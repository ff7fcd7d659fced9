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
#[cfg(feature = "commands")]
mod commands;
mod diff;
mod edit_file;
mod error;
#[cfg(feature = "commands")]
mod execute_command;
#[cfg(feature = "search")]
mod glob_files;
mod list_directory;
#[cfg(feature = "search")]
mod pattern;
mod preview;
#[cfg(feature = "commands")]
mod process;
mod read_file;
mod schema;
#[cfg(feature = "search")]
mod search_files;
mod text;
mod workspace;
mod write_file;

#[cfg(all(test, unix, feature = "commands", feature = "search"))]
mod escapes;

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
pub use preview::preview;
pub use read_file::read_file;
#[cfg(feature = "search")]
pub use search_files::search_files;
pub use workspace::Workspace;
pub use write_file::write_file;

/// Returns the coding tools that are compiled in, all for `workspace`.
///
/// Commands run with [`Commands::new`]: confined, without network.
pub fn coding_tools(workspace: Workspace) -> Toolbox {
    #[cfg(feature = "commands")]
    return coding_tools_with(workspace, Commands::new());
    #[cfg(not(feature = "commands"))]
    without_commands(workspace).collect()
}

/// Returns the coding tools that are compiled in, all for `workspace`, with commands run as
/// `commands` says.
#[cfg(feature = "commands")]
pub fn coding_tools_with(workspace: Workspace, commands: Commands) -> Toolbox {
    let execute: Arc<dyn Tool> = Arc::new(execute_command(workspace.clone(), commands));
    std::iter::once(execute).chain(without_commands(workspace)).collect()
}

fn without_commands(workspace: Workspace) -> impl Iterator<Item = Arc<dyn Tool>> {
    let tools: Vec<Arc<dyn Tool>> = vec![
        Arc::new(read_file(workspace.clone())),
        Arc::new(write_file(workspace.clone())),
        Arc::new(edit_file(workspace.clone())),
        Arc::new(list_directory(workspace.clone())),
        #[cfg(feature = "search")]
        Arc::new(search_files(workspace.clone())),
        #[cfg(feature = "search")]
        Arc::new(glob_files(workspace.clone())),
        Arc::new(diff(workspace)),
    ];
    tools.into_iter()
}
