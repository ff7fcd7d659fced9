//! [`Workspace`]: a directory that its users cannot leave. Only the files in this folder access the
//! file system.
//!
//! `cap-std` resolves each path in the kernel (`openat2` with `RESOLVE_BENEATH`), relative to the
//! open root. Neither `..` nor a symbolic link leads out, even if the link is swapped during the
//! call. This module adds the rules for a model's paths, and ensures that only regular files are
//! read and replaced.

#![allow(clippy::disallowed_methods, reason = "the lint directs all file access to this module")]

#[cfg(unix)]
mod attributes;
mod directory;
#[cfg(all(feature = "commands", target_os = "linux"))]
mod git_files;
#[cfg(unix)]
mod hard_links;
#[cfg(feature = "search")]
mod ignore_rules;
mod listing;
#[cfg(feature = "commands")]
mod numbered;
mod protected;
mod protected_list;
mod read;
mod root;
mod stamp;
mod temp_file;
#[cfg(feature = "search")]
mod walk;
mod write;

#[cfg(feature = "commands")]
pub(crate) use self::directory::stable_path;
#[cfg(all(feature = "commands", target_os = "linux"))]
pub(crate) use self::git_files::{GitFile, WITH_REPOSITORIES, git_file};
pub(crate) use self::listing::{Entry, EntryKind, Listing};
#[cfg(feature = "commands")]
pub(crate) use self::numbered::Retention;
pub use self::protected::protected_paths;
pub(crate) use self::protected::protection;
#[cfg(all(feature = "commands", target_os = "linux"))]
pub(crate) use self::protected::{matches, names};
pub(crate) use self::read::OpenFile;
pub use self::root::Workspace;
pub(crate) use self::stamp::Stamp;
#[cfg(feature = "search")]
pub(crate) use self::walk::{SkippedPaths, WalkEntry, path_text};
pub(crate) use self::write::Written;
