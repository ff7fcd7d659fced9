//! `execute_command`: runs a shell command in the workspace.

use std::fmt::Write;
use std::time::Duration;

use loopwright_core::tool::Effect;
use loopwright_core::{Tool, ToolContext, ToolError, ToolOutput, tool_with};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::commands::Commands;
use crate::process::{Ended, How, KEPT, Output, SHOWN, Shell};
use crate::schema::strict;
use crate::workspace::{Most, Workspace};

const NAME: &str = "execute_command";
const DESCRIPTION: &str = "Runs a command with `sh -c` in the workspace, and returns what it prints, standard output \
    and standard error as they come, with its exit code. It has no input and no terminal. Processes that it leaves in \
    the background are ended with it, so a server must be started and used in one command. Of long output the middle \
    is left out, and the answer names a file with the whole.";

/// Time for a command unless the model asks for another.
const TIME: Duration = Duration::from_secs(30);
/// More than a command may take: ending it, and writing what it printed.
const AFTERWARDS: Duration = Duration::from_secs(15);
/// For how many calls of a session long output is kept, of all sessions together, and how often the
/// most for one call.
const KEPT_CALLS: usize = 16;
const KEPT_IN_ALL: usize = 64;
const KEPT_TIMES: u64 = 16;

#[derive(Deserialize, JsonSchema)]
struct Args {
    /// What the shell shall run, such as `cargo test 2>&1 | tail -20`.
    command: String,
    /// The directory to run it in, as a path relative to the workspace; the workspace itself if
    /// left out.
    #[serde(default)]
    cwd: Option<String>,
    /// Seconds after which it is ended, at least 1; 30 if left out.
    #[serde(default)]
    timeout: Option<i64>,
}

#[derive(Clone)]
struct State {
    workspace: Workspace,
    shell: Shell,
}

/// The tool that runs commands in this workspace.
///
/// Landlock confines them, or bubblewrap where the kernel has no Landlock; where neither is there
/// each call fails with a sentence that says what to do, unless [`Commands::unconfined`] says
/// otherwise. Which it is stands in the tool's description and in the details of each result. A
/// command's environment has `PATH`, `LANG` and a few more, never a key. All its processes end with
/// the call, daemons included, and if this process is killed too (with Landlock from Linux 6.12 on,
/// and with bubblewrap).
///
/// Output that is too long for the model is kept whole in `.loopwright/output`, each in a file of
/// its own: up to [`Commands::max_output`], the last 16 of a session, and the last 64 of all
/// sessions together; older ones are removed.
///
/// Each call marks all descriptors of this process above 2 as close-on-exec, so that commands
/// inherit none; a program that this process starts in another way gets one only if it is handed
/// over on purpose.
pub fn execute_command(workspace: Workspace, commands: Commands) -> impl Tool {
    let shell = Shell::new(&workspace, commands);
    tool(State { workspace, shell })
}

fn tool(state: State) -> impl Tool {
    let most = state.shell.commands().max_timeout;
    let description = format!(
        "{DESCRIPTION} A command is ended after {} seconds unless `timeout` says otherwise; it can be up to {}. {}",
        TIME.min(most).as_secs(),
        most.as_secs(),
        state.shell.confinement().told(state.shell.commands()),
    );
    tool_with(state, NAME, &description, execute)
        .effect(Effect::AtMostOnce)
        .spec(|spec| strict(spec).title("Run a command").sequential().timeout(most + AFTERWARDS))
}

async fn execute(state: State, args: Args, cx: ToolContext) -> Result<ToolOutput, ToolError> {
    let time = checked(&args, state.shell.commands().max_timeout)?;
    let mut running = state.shell.start(&args.command, args.cwd.as_deref(), time)?;
    let told = async {
        while let Some(text) = running.live.recv().await {
            cx.update(text).await;
        }
    };
    tokio::select! { biased;
        () = cx.cancelled() => {
            running.stop();
            let _ = running.ended().await; // whatever it was
            return Err(ToolError::Cancelled);
        }
        () = told => {}
    }
    let mut ended = running.ended().await?;
    let kept = state.keep(&mut ended.output, &cx).await;
    let text = text(&ended, kept.as_ref(), time);
    match ended.how {
        How::Exited(_) | How::Signalled(_) => {
            Ok(ToolOutput::text(text).details(details(&state, &args, &ended, kept)))
        }
        How::TimedOut | How::Multiplied(_) => {
            Err(ToolError::FailedWith { why: text, details: details(&state, &args, &ended, kept) })
        }
        How::Stopped => Err(ToolError::Cancelled),
    }
}

fn checked(args: &Args, most: Duration) -> Result<Duration, ToolError> {
    let bad = |why: &str| Err(ToolError::Failed(why.into()));
    if args.command.trim().is_empty() {
        return bad("`command` is empty: write what the shell shall run");
    }
    if args.command.contains('\0') {
        return bad(
            "`command` has a NUL character in it, which no command can have: write it without",
        );
    }
    let Some(asked) = args.timeout else {
        return Ok(TIME.min(most));
    };
    match u64::try_from(asked) {
        Ok(0) => bad("`timeout` is 0, in which nothing can be done: give at least 1 second"),
        Ok(seconds) if Duration::from_secs(seconds) > most => {
            let most = most.as_secs();
            bad(&format!(
                "`timeout` is {asked} seconds, but {most} are the most: ask for less, or split up what is to be done"
            ))
        }
        Ok(seconds) => Ok(Duration::from_secs(seconds)),
        Err(_) => bad(&format!(
            "`timeout` is {asked}, but it is a number of seconds: give at least 1, or leave it out for {}",
            TIME.min(most).as_secs()
        )),
    }
}

/// Output that is longer than what the model is shown.
enum Kept {
    /// It is in this file.
    In { path: String, lost: u64 },
    /// It could not be kept; why.
    Lost(String),
}

impl State {
    /// Puts output that is too long into a new file of the workspace.
    async fn keep(&self, output: &mut Output, cx: &ToolContext) -> Option<Kept> {
        let mut long = match output.take_kept()? {
            Ok(long) => long,
            Err(why) => return Some(Kept::Lost(why)),
        };
        let (lost, series) = (long.lost, name(cx.session_id()));
        let bytes = self.shell.commands().max_output.saturating_mul(KEPT_TIMES);
        let most = Most { of_series: KEPT_CALLS, of_all: KEPT_IN_ALL, bytes };
        let work = move |workspace: &Workspace| {
            Ok(workspace.add_numbered(KEPT, &series, |file| long.put(file), most)?)
        };
        Some(match self.workspace.unguarded().off_thread(work).await {
            Ok(path) => Kept::In { path, lost },
            Err(why) => Kept::Lost(why.to_string()),
        })
    }
}

/// A session's id as a part of a file's name.
fn name(session: &str) -> String {
    let legal = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '_' }
    };
    session.chars().map(legal).take(64).collect()
}

fn text(ended: &Ended, kept: Option<&Kept>, time: Duration) -> String {
    let mut text = match ended.how {
        How::Exited(code) => format!("Exit code {code}."),
        How::Signalled(signal) => format!("Ended by signal {signal}{}.", signal_name(signal)),
        How::TimedOut => format!(
            "The command was ended because its time of {} s was up. If it needs more, call it again with a \
             larger `timeout`; if it waits for input or serves without end, call it in another way.",
            time.as_secs()
        ),
        How::Multiplied(count) => format!(
            "The command was ended because it had {count} processes at the same time, which are too many: make it \
             start fewer."
        ),
        How::Stopped => "The command was ended.".into(),
    };
    // Writing to a String cannot fail.
    let _ = match ended.left {
        0 => Ok(()),
        1 => write!(text, " A process that it left in the background was ended."),
        left => write!(text, " {left} processes that it left in the background were ended."),
    };
    if ended.undead > 0 {
        let _ = write!(
            text,
            " {} of its processes could not be ended and may still run.",
            ended.undead
        );
    }
    let shown = ended.output.shown(SHOWN);
    match kept {
        _ if ended.output.total() == 0 => text.push_str(" It printed nothing."),
        None => {
            let _ = write!(text, "\n{}", shown.head);
        }
        Some(kept) => {
            let (left_out, total) = (shown.left_out, ended.output.total());
            let word = match kept {
                Kept::In { path, lost: 0 } => format!("all of it is in `{path}`"),
                Kept::In { path, lost } => {
                    format!(
                        "`{path}` has all of it but {lost} bytes in the middle, which were too many to keep"
                    )
                }
                Kept::Lost(why) => format!("it could not be kept: {why}"),
            };
            let _ = write!(
                text,
                "\n{}\n[… {left_out} of {total} bytes are left out here; {word} …]\n{}",
                shown.head, shown.tail
            );
        }
    }
    text
}

fn details(state: &State, args: &Args, ended: &Ended, kept: Option<Kept>) -> Value {
    let (exit_code, signal) = match ended.how {
        How::Exited(code) => (Some(code), None),
        How::Signalled(signal) => (None, Some(signal)),
        _ => (None, None),
    };
    let (output_file, lost) = match kept {
        Some(Kept::In { path, lost }) => (Some(path), Some(lost)),
        _ => (None, None),
    };
    json!({
        "command": args.command,
        "exit_code": exit_code,
        "signal": signal,
        "milliseconds": ended.took.as_millis() as u64,
        "output_bytes": ended.output.total(),
        "output_file": output_file,
        "output_file_left_out": lost,
        "processes_ended": ended.left,
        "confinement": state.shell.confinement().details(state.shell.commands()),
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
        31 => {
            " (SIGSYS: a system call was refused, by the confinement or because it is a 32-bit program)"
        }
        _ => "",
    }
}

#[cfg(test)]
#[cfg(target_os = "linux")]
mod tests;
