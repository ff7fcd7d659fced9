//! [`Commands`]: the operator's settings for commands.

use std::path::PathBuf;
use std::time::Duration;

#[cfg(target_os = "linux")]
use crate::process::system::System;

/// Settings of [`execute_command`](crate::execute_command): what commands may do.
///
/// By default commands are confined, have no network access, and run for at most ten minutes. Each
/// may have 512 processes, three quarters of the machine's memory, and 32 GiB of new data on disk.
///
/// The system's support for confinement is detected when the first tool is created with this value
/// or one of its clones.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_tools::Commands;
///
/// let commands = Commands::new()
///     .network()
///     .max_timeout(Duration::from_secs(60))
///     .readable("/srv/toolchain");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commands {
    pub(crate) network: bool,
    pub(crate) unconfined: bool,
    pub(crate) max_timeout: Duration,
    pub(crate) max_processes: usize,
    /// The limit of memory; `None` for a share of the machine's memory.
    pub(crate) max_memory: Option<u64>,
    /// The limit of disk space; `None` for the default.
    pub(crate) max_disk: Option<u64>,
    pub(crate) max_output: u64,
    pub(crate) readable: Vec<PathBuf>,
    pub(crate) writable: Vec<PathBuf>,
    pub(crate) env: Vec<String>,
    /// The detected support of the system for confinement.
    #[cfg(target_os = "linux")]
    pub(crate) system: System,
}

impl Default for Commands {
    fn default() -> Self {
        Commands {
            network: false,
            unconfined: false,
            max_timeout: Duration::from_secs(600),
            max_processes: 512,
            max_memory: None,
            max_disk: None,
            max_output: 64 * 1024 * 1024,
            readable: Vec::new(),
            writable: Vec::new(),
            env: Vec::new(),
            #[cfg(target_os = "linux")]
            system: System::default(),
        }
    }
}

impl Commands {
    /// Returns the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// Gives commands access to the network of this machine.
    ///
    /// This includes the sockets of local services. A command that can connect to such a service,
    /// for instance a container daemon, can do everything that the service can.
    pub fn network(mut self) -> Self {
        self.network = true;
        self
    }

    /// Runs commands without confinement: they can do everything that the user of this process can.
    ///
    /// On a system that cannot confine commands, this is the only way to run them.
    pub fn unconfined(mut self) -> Self {
        self.unconfined = true;
        self
    }

    /// Sets the longest timeout that a call may request; defaults to ten minutes.
    ///
    /// A call without a timeout gets 30 seconds, or this limit if it is shorter.
    pub fn max_timeout(mut self, time: Duration) -> Self {
        self.max_timeout = time;
        self
    }

    /// Returns the longest timeout that a call may request.
    pub fn longest_timeout(&self) -> Duration {
        self.max_timeout
    }

    /// Sets how many processes a command may have at the same time; defaults to 512.
    ///
    /// A command that exceeds the limit is killed with all its processes.
    pub fn max_processes(mut self, count: usize) -> Self {
        self.max_processes = count;
        self
    }

    /// Sets how many bytes of memory the processes of a command may have together; defaults to
    /// three quarters of the machine's memory, or of the limit of this process's control group.
    ///
    /// A command that exceeds the limit is killed with all its processes. `u64::MAX` means no
    /// limit. Applies on Linux only.
    pub fn max_memory(mut self, bytes: u64) -> Self {
        self.max_memory = Some(bytes);
        self
    }

    /// Sets by how many bytes the free space of a disk may shrink while a command runs; defaults to
    /// 32 GiB, and is at most nine tenths of the free space.
    ///
    /// A command that exceeds the limit is killed with all its processes. The limit applies to the
    /// disks of the workspace, of the other writable directories, and of the temporary directory.
    /// Data that other programs write counts, too. No single file may be larger than the limit.
    /// `u64::MAX` means no limit. Applies on Linux only.
    pub fn max_disk(mut self, bytes: u64) -> Self {
        self.max_disk = Some(bytes);
        self
    }

    /// Sets how many bytes of a command's output are saved in a file of the workspace; defaults to
    /// 64 MiB.
    ///
    /// Of longer output the start and the end (up to 1 MiB) are saved. All these files together
    /// have at most 16 times this size.
    pub fn max_output(mut self, bytes: u64) -> Self {
        self.max_output = bytes;
        self
    }

    /// Adds a file or directory, with everything below it, that commands may read and execute.
    ///
    /// The workspace and the system's directories are always readable, home directories are not.
    pub fn readable(mut self, path: impl Into<PathBuf>) -> Self {
        self.readable.push(path.into());
        self
    }

    /// Adds a file or directory, with everything below it, that commands may read and write.
    pub fn writable(mut self, path: impl Into<PathBuf>) -> Self {
        self.writable.push(path.into());
        self
    }

    /// Passes an environment variable of this process on to commands.
    ///
    /// By default they get only a few variables, so that API keys are not exposed to them.
    pub fn env(mut self, name: impl Into<String>) -> Self {
        self.env.push(name.into());
        self
    }
}
