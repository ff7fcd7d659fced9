//! [`Finished`]: a command that has ended, and how.

use std::time::Duration;

use super::output::CommandOutput;

/// A command that has ended, with all its processes.
#[derive(Debug)]
pub(crate) struct Finished {
    pub(crate) exit: Exit,
    pub(crate) output: CommandOutput,
    /// Processes that the command left in the background, and that were killed.
    pub(crate) background_processes: usize,
    /// Processes that could not be killed.
    pub(crate) unkillable_processes: usize,
    pub(crate) duration: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Exit {
    /// It exited with this code.
    Code(i32),
    /// It was killed by this signal.
    Signal(i32),
    /// It was killed because its timeout expired.
    TimedOut,
    /// It was killed because it had this many processes at the same time.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "processes are counted on Linux only")
    )]
    TooManyProcesses(usize),
    /// It was killed because the call was cancelled.
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
