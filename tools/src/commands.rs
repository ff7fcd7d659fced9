//! [`Commands`]: what commands may do, as whoever starts the agent decides it.

use std::path::PathBuf;
use std::time::Duration;

/// How [`execute_command`](crate::execute_command) runs commands.
///
/// Without a change: confined, without network, at most ten minutes and 512 processes each.
///
/// ```
/// use std::time::Duration;
/// use loopwright_tools::Commands;
///
/// let commands = Commands::new().network().max_timeout(Duration::from_secs(60)).readable("/srv/toolchain");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    pub(crate) network: bool,
    pub(crate) unconfined: bool,
    pub(crate) max_timeout: Duration,
    pub(crate) max_processes: usize,
    pub(crate) max_output: u64,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) env: Vec<String>,
}

impl Default for Commands {
    fn default() -> Self {
        Commands {
            network: false,
            unconfined: false,
            max_timeout: Duration::from_secs(600),
            max_processes: 512,
            max_output: 64 * 1024 * 1024,
            readable: Vec::new(),
            writable: Vec::new(),
            env: Vec::new(),
        }
    }
}

impl Commands {
    /// Confined, without network, at most ten minutes and 512 processes each.
    pub fn new() -> Self {
        Self::default()
    }

    /// With the network of this machine, sockets that local services listen on included: whoever
    /// can talk to such a service, a container daemon for instance, can do what it does.
    pub fn network(mut self) -> Self {
        self.network = true;
        self
    }

    /// Without confinement: commands can do all that the user can who runs the agent. Where the
    /// system cannot confine, nothing else makes them run.
    pub fn unconfined(mut self) -> Self {
        self.unconfined = true;
        self
    }

    /// The most time that a call may ask for; ten minutes otherwise. What is left out is 30
    /// seconds, or this if it is less.
    pub fn max_timeout(mut self, time: Duration) -> Self {
        self.max_timeout = time;
        self
    }

    /// The most processes that a command may have at the same time; 512 otherwise. With more, all
    /// of them are ended.
    pub fn max_processes(mut self, count: usize) -> Self {
        self.max_processes = count;
        self
    }

    /// The most bytes that are kept of one command's output, in a file of the workspace; 64 MiB
    /// otherwise. Of more the beginning and, up to a MiB, the end are kept. All such files together
    /// have at most 16 times as many.
    pub fn max_output(mut self, bytes: u64) -> Self {
        self.max_output = bytes;
        self
    }

    /// One more file or directory, with all below it, that commands may read and run programs from.
    /// The workspace and the system's directories are readable anyway, home directories are not.
    pub fn readable(mut self, path: impl Into<PathBuf>) -> Self {
        self.readable.push(path.into());
        self
    }

    /// One more file or directory, with all below it, that commands may read and write.
    pub fn writable(mut self, path: impl Into<PathBuf>) -> Self {
        self.writable.push(path.into());
        self
    }

    /// One more variable of this process's environment that commands are given. They are given few
    /// otherwise, so that keys stay here.
    pub fn env(mut self, name: impl Into<String>) -> Self {
        self.env.push(name.into());
        self
    }
}
