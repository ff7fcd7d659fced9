//! [`piped_command`]: starts a confined command whose input and output belong to the caller.

use std::os::fd::OwnedFd;
use std::process::ChildStdout as StdChildStdout;

use loopwright_core::ToolError;
use tokio::process::{ChildStdin, ChildStdout};

use crate::commands::Commands;
use crate::process::{RunningCommand, Shell};
use crate::workspace::Workspace;

/// The maximum amount of standard error that is kept.
const MAX_OUTPUT_BYTES: u64 = 1 << 20;

/// A confined command that runs until it exits or is dropped. Dropping it kills the command and all
/// processes that it has started.
pub struct PipedCommand {
    /// The command's standard input.
    pub stdin: ChildStdin,
    /// The command's standard output.
    pub stdout: ChildStdout,
    /// The guard, which kills the command when dropped.
    pub guard: CommandGuard,
}

/// A guard that kills the command of a [`PipedCommand`] and all its processes when dropped.
pub struct CommandGuard {
    _running: RunningCommand,
}

/// Starts a program in the directory of a workspace, with the confinement, limits and variables of
/// `commands`, but without a time limit. It is meant for servers on standard input and output, such
/// as MCP servers. Exists on Linux only.
///
/// # Errors
///
/// Fails if commands cannot be confined here, or if the program's supervisor cannot be started. If
/// the program does not exist, its output is closed.
///
/// ```
/// use loopwright_tools::{Commands, Workspace, piped_command};
/// use tokio::io::{AsyncReadExt, AsyncWriteExt};
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// # let dir = tempfile::tempdir().unwrap();
/// let workspace = Workspace::open(dir.path()).unwrap();
/// let commands = Commands::new();
/// # let commands = commands.unconfined();
/// let mut cat = piped_command(&workspace, commands, "cat", &[]).await.unwrap();
/// cat.stdin.write_all(b"hello").await.unwrap();
/// drop(cat.stdin);
/// let mut output = String::new();
/// cat.stdout.read_to_string(&mut output).await.unwrap();
/// assert_eq!(output, "hello");
/// # }
/// ```
pub async fn piped_command(
    workspace: &Workspace,
    commands: Commands,
    program: &str,
    args: &[String],
) -> Result<PipedCommand, ToolError> {
    let words: Vec<String> =
        std::iter::once(program).chain(args.iter().map(String::as_str)).map(quoted).collect();
    let (workspace, commands) = (workspace.clone(), commands.max_output(MAX_OUTPUT_BYTES));
    let command = format!("exec {}", words.join(" "));
    let start = move || Shell::new(&workspace, commands).start_piped(&command);
    let started = tokio::task::spawn_blocking(start).await;
    let lost = |_| ToolError::Failed("the command could not be started: the program ends".into());
    let (mut running, stdout, stdin) = started.map_err(lost)??;
    let failed = |why| ToolError::Failed(format!("the command has no pipes: {why}"));
    let Ok(stdin) = stdin.await else {
        running.finished().await?;
        return Err(failed("it has not started".to_owned()));
    };
    let stdout = StdChildStdout::from(OwnedFd::from(stdout));
    Ok(PipedCommand {
        stdin: ChildStdin::from_std(stdin).map_err(|why| failed(why.to_string()))?,
        stdout: ChildStdout::from_std(stdout).map_err(|why| failed(why.to_string()))?,
        guard: CommandGuard { _running: running },
    })
}

/// Quotes a word for a shell.
fn quoted(word: &str) -> String {
    format!("'{}'", word.replace('\'', r"'\''"))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "the test looks from outside")]
mod tests {
    use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};

    use super::*;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let dir = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(dir.path()).unwrap();
        (dir, workspace)
    }

    fn shell(script: &str) -> [String; 2] {
        ["-c".into(), script.into()]
    }

    /// C348: A piped command is confined like other commands, and ends when it is dropped.
    #[tokio::test]
    async fn a_piped_command_is_confined() {
        let (dir, workspace) = workspace();
        let outside = tempfile::NamedTempFile::new().unwrap();
        let script = format!(
            "echo inside >made; read line; echo \"it's $line\"; cat {} || echo denied; \
             (echo no >{}) 2>/dev/null || echo denied; sleep 1000",
            outside.path().display(),
            outside.path().display()
        );
        let command = piped_command(&workspace, Commands::new(), "sh", &shell(&script)).await;
        let PipedCommand { mut stdin, stdout, guard } = command.unwrap();
        stdin.write_all(b"here\n").await.unwrap();
        let mut lines = BufReader::new(stdout).lines();
        for expected in ["it's here", "denied", "denied"] {
            assert_eq!(lines.next_line().await.unwrap().as_deref(), Some(expected));
        }
        assert_eq!(std::fs::read_to_string(dir.path().join("made")).unwrap(), "inside\n");
        drop(guard);
        assert_eq!(lines.next_line().await.unwrap(), None);
    }

    #[tokio::test]
    async fn a_program_that_does_not_exist_closes_its_output() {
        let (_dir, workspace) = workspace();
        let command = piped_command(&workspace, Commands::new(), "no such program", &[]).await;
        let mut output = String::new();
        command.unwrap().stdout.read_to_string(&mut output).await.unwrap();
        assert_eq!(output, "");
    }
}
