//! `execute_command`: runs a shell command in the workspace.

use std::fmt::Write;
use std::fs::File;
use std::path::PathBuf;
use std::time::Duration;

use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::commands::Commands;
use crate::error::printable;
use crate::process::{
    Changes, CommandOutput, Exit, Finished, MAX_SHOWN_BYTES, OUTPUT_DIR, Shell, size,
};
use crate::schema::strict;
use crate::workspace::{Retention, Workspace};

const NAME: &str = "execute_command";
const DESCRIPTION: &str = "Runs a command with `sh -c` in the workspace, and returns its exit code \
    and its output (standard output and error, interleaved). It has no input and no terminal. \
    Processes in the background are killed when it ends, so start and use a server in one command. \
    The middle of long output is left out; the result names a file with all of it.";

/// The default timeout of a call.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);
/// The maximum time of a call after its timeout, to kill the command and to save its output.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(15);
/// The number of output files that are retained per session.
const MAX_OUTPUT_FILES_PER_SESSION: usize = 16;
/// The number of output files that are retained for all sessions.
const MAX_OUTPUT_FILES: usize = 64;
/// The maximum size of all output files, as a multiple of the maximum size of one.
const OUTPUT_BYTES_FACTOR: u64 = 16;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// The command for the shell, such as `cargo test 2>&1 | tail -20`.
    command: String,
    /// The working directory, as a path relative to the workspace; defaults to the workspace
    /// itself.
    #[serde(default)]
    cwd: Option<String>,
    /// The timeout in seconds, at least 1; defaults to 30.
    #[serde(default)]
    timeout: Option<i64>,
}

#[derive(Clone)]
struct State {
    workspace: Workspace,
    shell: Shell,
}

/// Creates the tool `execute_command`, which runs shell commands in the workspace.
///
/// Commands are confined by Landlock, or by bubblewrap if the kernel has no Landlock. If neither is
/// available, each call returns an error that says what to do, unless commands may run
/// [unconfined](Commands::unconfined). The tool's description and the details of each result state
/// the mechanism. The environment of a command has `PATH`, `LANG` and a few more variables, never
/// an API key. All its processes, including daemons, are killed at the end of the call. They are
/// also killed if this process is killed (with Landlock since Linux 6.12, and with bubblewrap).
///
/// Dropping or cancelling a call kills the command. A cancelled call returns the output so far
/// ([`ToolError::CancelledWith`]).
///
/// Output that is too long for the model is saved in `.loopwright/output`, up to
/// [`Commands::max_output`] bytes per call. The last 16 files of a session and the last 64 of all
/// sessions are retained.
///
/// Each call sets close-on-exec on all descriptors of this process above 2, so that commands
/// inherit none of them.
pub fn execute_command(workspace: Workspace, commands: Commands) -> impl Tool {
    let shell = Shell::new(&workspace, commands);
    tool(State { workspace, shell })
}

fn tool(state: State) -> impl Tool {
    let max_timeout = state.shell.commands().max_timeout;
    let description = format!(
        "{DESCRIPTION} It is killed after {} seconds, or after `timeout`, which is at most {}. {}",
        DEFAULT_TIMEOUT.min(max_timeout).as_secs(),
        max_timeout.as_secs(),
        state.shell.description(),
    );
    tool_with(state, NAME, &description, execute).effect(Effect::AtMostOnce).spec(|spec| {
        strict(spec).title("Run a command").sequential().timeout(max_timeout + CLEANUP_TIMEOUT)
    })
}

async fn execute(state: State, args: Args, cx: ToolContext) -> Result<ToolOutput, ToolError> {
    let timeout = checked_timeout(&args, state.shell.commands().max_timeout)?;
    let mut running = state.shell.start(&args.command, args.cwd.as_deref(), timeout)?;
    let mut is_cancelled = false;
    let forward_output = async {
        while let Some(text) = running.live.recv().await {
            cx.update(text).await;
        }
    };
    tokio::select! { biased;
        () = cx.cancelled() => {
            running.stop();
            is_cancelled = true;
        }
        () = forward_output => {}
    }
    let mut finished = match running.finished().await {
        Err(_) if is_cancelled => return Err(ToolError::Cancelled),
        finished => finished?,
    };
    let saved = state.save(&mut finished.output, &cx).await;
    let text = report(&finished, saved.as_ref(), timeout);
    let details = details(&state, &args, &finished, saved);
    match finished.exit {
        Exit::Code(_) | Exit::Signal(_) => Ok(ToolOutput::text(text).details(details)),
        Exit::TimedOut
        | Exit::TooManyProcesses(_)
        | Exit::TooMuchMemory(_)
        | Exit::TooMuchDisk(_) => Err(ToolError::FailedWith { why: text, details }),
        Exit::Stopped => Err(ToolError::CancelledWith { output: text, details }),
    }
}

/// Checks the arguments and returns the timeout.
fn checked_timeout(args: &Args, max: Duration) -> Result<Duration, ToolError> {
    let bad = |why: &str| Err(ToolError::Failed(why.into()));
    if args.command.trim().is_empty() {
        return bad("`command` is empty: give a command for the shell");
    }
    if args.command.contains('\0') {
        return bad("`command` contains a NUL character, which no command can contain: remove it");
    }
    let default = DEFAULT_TIMEOUT.min(max);
    let Some(requested) = args.timeout else {
        return Ok(default);
    };
    match u64::try_from(requested) {
        Ok(0) => bad("`timeout` is 0: give at least 1 second"),
        Ok(seconds) if Duration::from_secs(seconds) > max => bad(&format!(
            "`timeout` is {requested} seconds, but at most {} are allowed: use a shorter one, or \
             split the command",
            max.as_secs()
        )),
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => bad(&format!(
            "`timeout` is {requested}, but must be a number of seconds: give at least 1, or omit \
             it for {}",
            default.as_secs()
        )),
    }
}

/// The outcome of saving output that is too long for the model.
enum SavedOutput {
    /// The output is in this file, without `lost` bytes from its middle.
    File { path: String, lost: u64 },
    /// The output could not be saved, for this reason.
    Failed(String),
}

impl State {
    /// Saves output that is too long for the model to a new file in the workspace.
    async fn save(&self, output: &mut CommandOutput, cx: &ToolContext) -> Option<SavedOutput> {
        let mut long = match output.take_long()? {
            Ok(long) => long,
            Err(why) => return Some(SavedOutput::Failed(why)),
        };
        let lost = long.lost;
        let series = file_name(cx.session_id());
        let retention = Retention {
            max_files_per_series: MAX_OUTPUT_FILES_PER_SESSION,
            max_files: MAX_OUTPUT_FILES,
            max_bytes: self.shell.commands().max_output.saturating_mul(OUTPUT_BYTES_FACTOR),
        };
        let work = move |workspace: &Workspace| {
            let fill = |file: &mut File| long.write_to(file);
            Ok(workspace.add_numbered(OUTPUT_DIR, &series, fill, retention)?)
        };
        Some(match self.workspace.unguarded().off_thread(work).await {
            Ok(path) => SavedOutput::File { path, lost },
            Err(why) => SavedOutput::Failed(why.to_string()),
        })
    }
}

/// Converts a session id to a part of a file name.
fn file_name(session: &str) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }
    };
    session.chars().map(legal).take(64).collect()
}

/// Returns the command's end and its output, as text for the model.
fn report(finished: &Finished, saved: Option<&SavedOutput>, timeout: Duration) -> String {
    let mut text = match finished.exit {
        Exit::Code(code) => format!("Exit code {code}."),
        Exit::Signal(signal) => format!("Killed by signal {signal}{}.", signal_name(signal)),
        Exit::TimedOut => format!(
            "The command was killed because its timeout of {} s expired. If it needs more time, \
             set a larger `timeout`; if it waits for input or is a server, run it differently.",
            timeout.as_secs()
        ),
        Exit::TooManyProcesses(count) => format!(
            "The command was killed because it had too many processes at the same time: {count}. \
             Make it start fewer."
        ),
        Exit::TooMuchMemory(limit) => format!(
            "The command was killed because its processes had more than {} of memory, its limit. \
             Make it use less, for example with fewer processes at the same time.",
            size(limit)
        ),
        Exit::TooMuchDisk(limit) => format!(
            "The command was killed because the free space of a disk shrank by more than {} while \
             it ran, its limit. Remove what it wrote and is not needed.",
            size(limit)
        ),
        Exit::Stopped => "The command was killed.".into(),
    };
    // Writing to a String cannot fail.
    let _ = match finished.background_processes {
        0 => Ok(()),
        1 => write!(text, " A process that it left in the background was killed."),
        count => write!(text, " {count} processes that it left in the background were killed."),
    };
    if finished.unkillable_processes > 0 {
        let _ = write!(
            text,
            " {} of its processes could not be killed and may still run.",
            finished.unkillable_processes
        );
    }
    text.push_str(&changes(&finished.changes));
    let excerpt = finished.output.excerpt(MAX_SHOWN_BYTES);
    match saved {
        _ if finished.output.total() == 0 => text.push_str(" It printed nothing."),
        None => {
            let _ = write!(text, "\n{}", excerpt.head);
        }
        Some(saved) => {
            let left_out = excerpt.left_out;
            let total = finished.output.total();
            let note = match saved {
                SavedOutput::File { path, lost: 0 } => format!("all of it is in `{path}`"),
                SavedOutput::File { path, lost } => {
                    format!("`{path}` has all of it except {lost} bytes in the middle")
                }
                SavedOutput::Failed(why) => format!("it could not be saved: {why}"),
            };
            let _ = write!(
                text,
                "\n{}\n[… {left_out} of {total} bytes are left out here; {note} …]\n{}",
                excerpt.head, excerpt.tail
            );
        }
    }
    text
}

/// Returns sentences about changes of protected files.
fn changes(changes: &Changes) -> String {
    let list = |paths: &[PathBuf]| {
        let names: Vec<String> = shown(paths).map(|path| format!("`{path}`")).collect();
        names.join(", ")
    };
    let Changes { changed, undone, moved_to, repositories } = changes;
    let mut text = String::new();
    // Writing to a String cannot fail.
    if !undone.is_empty() {
        let undone = list(undone);
        let _ = write!(text, " It changed files that the user's own tools run: {undone}. ");
        text.push_str("These changes were undone.");
    }
    if !moved_to.is_empty() {
        let _ = write!(text, " What it wrote is in {}.", list(moved_to));
    }
    if !changed.is_empty() {
        let changed = list(changed);
        let _ =
            write!(text, " While it ran, files changed that the user's own tools run: {changed}.");
    }
    if !repositories.is_empty() {
        let repositories = list(repositories);
        let _ = write!(
            text,
            " Git takes a directory for a repository since then, or obeys another \
            configuration in it: {repositories}."
        );
    }
    if !text.is_empty() {
        text.push_str(" Tell the user.");
    }
    text
}

/// Returns paths as text.
fn shown(paths: &[PathBuf]) -> impl Iterator<Item = String> {
    let name = |path: &PathBuf| match path.as_os_str().is_empty() {
        true => ".".into(),
        false => printable(&path.display().to_string()),
    };
    paths.iter().map(name)
}

/// Returns the end of the command as JSON, for a user interface.
fn details(state: &State, args: &Args, finished: &Finished, saved: Option<SavedOutput>) -> Value {
    let (exit_code, signal) = match finished.exit {
        Exit::Code(code) => (Some(code), None),
        Exit::Signal(signal) => (None, Some(signal)),
        _ => (None, None),
    };
    let (output_file, lost) = match saved {
        Some(SavedOutput::File { path, lost }) => (Some(path), Some(lost)),
        _ => (None, None),
    };
    json!({
        "command": args.command,
        "exit_code": exit_code,
        "signal": signal,
        "milliseconds": finished.duration.as_millis() as u64,
        "output_bytes": finished.output.total(),
        "output_file": output_file,
        "output_file_left_out": lost,
        "processes_ended": finished.background_processes,
        "protected_files_changed": shown(&finished.changes.changed).collect::<Vec<_>>(),
        "protected_files_undone": shown(&finished.changes.undone).collect::<Vec<_>>(),
        "repositories_changed": shown(&finished.changes.repositories).collect::<Vec<_>>(),
        "confinement": state.shell.details(),
    })
}

fn signal_name(signal: i32) -> &'static str {
    match signal {
        1 => " (SIGHUP)",
        2 => " (SIGINT)",
        3 => " (SIGQUIT)",
        4 => " (SIGILL)",
        6 => " (SIGABRT)",
        8 => " (SIGFPE)",
        9 => " (SIGKILL)",
        11 => " (SIGSEGV)",
        13 => " (SIGPIPE)",
        15 => " (SIGTERM)",
        25 => " (SIGXFSZ: it wrote a file larger than the limit)",
        31 => {
            " (SIGSYS: a system call was refused, by the confinement or because it is a 32-bit \
             program)"
        }
        _ => "",
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
