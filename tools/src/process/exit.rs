//! [`Finished`]: the result of a command that has ended.

use std::path::PathBuf;
use std::time::Duration;

use super::output::CommandOutput;

/// The result of a command that has ended with all its processes.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) exit: Exit,
    pub(crate) output: CommandOutput,
    /// The number of processes that the command left in the background, which were killed.
    pub(crate) background_processes: usize,
    /// The number of processes that could not be killed.
    pub(crate) unkillable_processes: usize,
    /// The command's changes of protected files.
    pub(crate) changes: Changes,
    pub(crate) duration: Duration,
}

/// A command's changes of protected files, as paths relative to its workspace.
#[derive(Debug, Default)]
#[cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "changes are found on Linux only"))]
pub(crate) struct Changes {
    /// Changed files.
    pub(crate) changed: Vec<PathBuf>,
    /// Files whose changes were undone.
    pub(crate) undone: Vec<PathBuf>,
    /// The directories to which the changed versions of `undone` files were moved.
    pub(crate) moved_to: Vec<PathBuf>,
    /// Directories that became repositories, and repositories whose configuration changed.
    pub(crate) repositories: Vec<PathBuf>,
}

/// The end of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command exited with this code.
    Code(i32),
    /// The command was killed by this signal.
    Signal(i32),
    /// The command was killed because its timeout expired.
    TimedOut,
    /// The command was killed because it had this many processes at the same time.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "processes are counted on Linux only")
    )]
    TooManyProcesses(usize),
    /// The command was killed because its processes had more than this many bytes of memory.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "memory is measured on Linux only")
    )]
    TooMuchMemory(u64),
    /// The command was killed because the free space of a disk shrank by more than this many bytes.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "disks are measured on Linux only")
    )]
    TooMuchDisk(u64),
    /// The command was killed because the call was cancelled.
    Stopped,
}

#[cfg(unix)]
impl From<std::process::ExitStatus> for Exit {
    fn from(status: std::process::ExitStatus) -> Self {
        use std::os::unix::process::ExitStatusExt;
        match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Code(code),
            (None, signal) => Exit::Signal(signal.unwrap_or_default()),
        }
    }
}

/// Formats a number of bytes, such as `18 GiB`.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        _ if bytes >= 10 << 30 => format!("{} GiB", bytes >> 30),
        _ if bytes >= 1 << 30 => format!("{:.1} GiB", bytes as f64 / f64::from(1 << 30)),
        _ if bytes >= 1 << 20 => format!("{} MiB", bytes >> 20),
        _ => format!("{bytes} bytes"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_short() {
        let sizes = [18 << 30, (3 << 30) / 2, 700 << 20, 12].map(size);
        assert_eq!(sizes, ["18 GiB", "1.5 GiB", "700 MiB", "12 bytes"]);
    }
}
