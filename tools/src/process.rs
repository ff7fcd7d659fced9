//! [`Shell`]: runs commands, each confined, supervised, and killed together with all processes that
//! it started. No other module of this crate starts processes.

#![allow(clippy::disallowed_methods, reason = "the lint directs all processes to this module")]

mod confinement;
mod environment;
mod exit;
mod live_output;
mod output;
mod pipe_ends;
#[cfg(target_os = "linux")]
mod priority;
mod private_dir;
mod shell;

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod cgroup;
#[cfg(target_os = "linux")]
mod landlock;
#[cfg(target_os = "linux")]
mod limits;
#[cfg(target_os = "linux")]
mod namespace;
#[cfg(all(unix, not(target_os = "linux")))]
mod portable;
#[cfg(target_os = "linux")]
mod process_set;
#[cfg(target_os = "linux")]
mod protect;
mod random;
mod remove_tree;
#[cfg(target_os = "linux")]
mod supervise;
#[cfg(target_os = "linux")]
pub(crate) mod system;
#[cfg(target_os = "linux")]
mod system_calls;
#[cfg(target_os = "linux")]
mod system_paths;
#[cfg(target_os = "linux")]
mod watchdog;

#[cfg(all(test, target_os = "linux"))]
pub(crate) use confinement::Confinement;
pub(crate) use exit::{Changes, Exit, Finished, size};
pub(crate) use output::{CommandOutput, MAX_SHOWN_BYTES, OUTPUT_DIR};
#[cfg(target_os = "linux")]
pub(crate) use shell::RunningCommand;
pub(crate) use shell::Shell;
