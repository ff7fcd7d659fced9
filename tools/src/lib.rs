//! Coding tools for loopwright, inside a directory they cannot leave.
//!
//! Each tool is one file: what it is told to the model, its arguments, its work, its tests. All of them
//! reach files through a [`Workspace`] and nothing else.
//!
//! ```no_run
//! use loopwright_tools::{Workspace, coding_tools};
//!
//! let tools = coding_tools(Workspace::open(".".as_ref())?);
//! # Ok::<_, loopwright_tools::WorkspaceError>(())
//! ```

mod diff;
mod edit_file;
mod error;
mod glob_files;
mod list_directory;
mod pattern;
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

use loopwright::Tool;

pub use diff::diff;
pub use edit_file::edit_file;
pub use error::WorkspaceError;
pub use glob_files::glob_files;
pub use list_directory::list_directory;
pub use read_file::read_file;
pub use search_files::search_files;
pub use workspace::Workspace;
pub use write_file::write_file;

/// All coding tools, for files in this workspace.
pub fn coding_tools(workspace: Workspace) -> Vec<Arc<dyn Tool>> {
    vec![
        Arc::new(read_file(workspace.clone())),
        Arc::new(write_file(workspace.clone())),
        Arc::new(edit_file(workspace.clone())),
        Arc::new(list_directory(workspace.clone())),
        Arc::new(search_files(workspace.clone())),
        Arc::new(glob_files(workspace.clone())),
        Arc::new(diff(workspace)),
    ]
}
