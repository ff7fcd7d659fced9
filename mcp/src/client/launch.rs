//! [`Launch`]: the start of a server's command.

use std::any::Any;
use std::io;
use std::path::PathBuf;
use std::process::Stdio;

use async_trait::async_trait;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;

use super::config::CommandLine;

/// A launcher for the commands of servers.
///
/// The embedding program implements it to confine commands. [`Unconfined`] starts them without
/// confinement.
#[async_trait]
pub trait Launch: Send + Sync {
    /// Starts a command.
    ///
    /// # Errors
    ///
    /// Fails if the command cannot be started.
    async fn launch(&self, command: &CommandLine) -> io::Result<Pipes>;
}

/// The pipes of a running command.
pub struct Pipes {
    /// The command's standard output.
    pub stdout: Box<dyn AsyncRead + Send + Unpin>,
    /// The command's standard input.
    pub stdin: Box<dyn AsyncWrite + Send + Unpin>,
    /// A guard that kills the command and all its processes when dropped.
    pub guard: Box<dyn Any + Send + Sync>,
}

/// A launcher without confinement: commands can do everything that the user of this process can.
///
/// A command gets `PATH`, `HOME`, the variables that its settings name, and the ones with values.
/// It is killed when the server is dropped, but the processes that it has started are not. Its
/// standard error is discarded. By default it runs in the directory of this process.
#[derive(Debug, Clone, Default)]
pub struct Unconfined {
    directory: Option<PathBuf>,
}

impl Unconfined {
    /// Returns a launcher of commands that run in this directory. Launching fails if it does not
    /// exist.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        Unconfined { directory: Some(directory.into()) }
    }
}

/// The environment variables that each command gets.
const INHERITED: [&str; 6] = ["PATH", "HOME", "USER", "LANG", "TMPDIR", "TZ"];

#[async_trait]
impl Launch for Unconfined {
    async fn launch(&self, command: &CommandLine) -> io::Result<Pipes> {
        let names = INHERITED.iter().copied().chain(command.env.iter().map(String::as_str));
        let mut started = Command::new(&command.program);
        if let Some(directory) = &self.directory {
            started.current_dir(directory);
        }
        let mut child = started
            .args(&command.args)
            .env_clear()
            .envs(names.filter_map(|name| Some((name, std::env::var_os(name)?))))
            .envs(&command.variables)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        let pipes = (child.stdout.take(), child.stdin.take());
        let (Some(stdout), Some(stdin)) = pipes else {
            return Err(io::Error::other("the command has no pipes"));
        };
        Ok(Pipes {
            stdout: Box::new(stdout),
            stdin: Box::new(stdin),
            guard: Box::new(std::sync::Mutex::new(child)),
        })
    }
}
