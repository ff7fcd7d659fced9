//! [`Confined`]: starts MCP servers in the same confinement as the agent's own commands.

use std::io;

use async_trait::async_trait;
use loopwright_mcp::{CommandLine, Launch, Pipes};
use loopwright_tools::Workspace;

/// A launcher of commands that can write only in a workspace, and have no network unless their
/// settings allow it.
pub(super) struct Confined {
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "only Linux confines commands")
    )]
    workspace: Workspace,
}

impl Confined {
    pub(super) fn new(workspace: &Workspace) -> Self {
        Confined { workspace: workspace.clone() }
    }
}

#[async_trait]
impl Launch for Confined {
    #[cfg(target_os = "linux")]
    async fn launch(&self, command: &CommandLine) -> io::Result<Pipes> {
        use loopwright_tools::{Commands, PipedCommand, piped_command};

        let root = self.workspace.root();
        let mut commands = Commands::new();
        if command.network {
            commands = commands.network();
        }
        let commands = command.env.iter().fold(commands, Commands::env);
        let below_root = |path: &String| root.join(path); // an absolute path stays as it is
        let commands = command.readable.iter().map(below_root).fold(commands, Commands::readable);
        let commands = command.writable.iter().map(below_root).fold(commands, Commands::writable);
        let started = piped_command(&self.workspace, commands, &command.program, &command.args);
        let PipedCommand { stdin, stdout, guard } = started.await.map_err(io::Error::other)?;
        Ok(Pipes {
            stdout: Box::new(stdout),
            stdin: Box::new(stdin),
            guard: Box::new(std::sync::Mutex::new(guard)),
        })
    }

    #[cfg(not(target_os = "linux"))]
    async fn launch(&self, _: &CommandLine) -> io::Result<Pipes> {
        Err(io::Error::other(
            "only Linux can confine it; `unconfined = true` in its settings starts it without",
        ))
    }
}
