//! [`Shell`]: runs commands, each confined, watched, and ended with all that it started. No other
//! file here starts a process.

#![allow(clippy::disallowed_methods, reason = "this is the file that the lint sends everyone to")]

mod confinement;
mod environment;
mod output;
mod private;

#[cfg(target_os = "linux")]
mod bubblewrap;
#[cfg(target_os = "linux")]
mod confine;
#[cfg(target_os = "linux")]
mod members;
#[cfg(all(unix, not(target_os = "linux")))]
#[path = "process/elsewhere.rs"]
mod supervise;
#[cfg(target_os = "linux")]
mod supervise;
#[cfg(target_os = "linux")]
mod system;
#[cfg(target_os = "linux")]
mod watchdog;

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::ToolError;
use tokio::sync::{mpsc, oneshot};

pub(crate) use confinement::Confinement;
pub(crate) use output::{KEPT, Output, SHOWN};

use crate::commands::Commands;
use crate::workspace::{Workspace, here};

/// What the shell does with the command, which is its first argument.
#[cfg(target_os = "linux")]
const START: &str = supervise::START;
#[cfg(not(target_os = "linux"))]
const START: &str = r#"exec /bin/sh -c "$1" sh"#;

/// Live output that may wait to be told.
const AHEAD: usize = 8;

/// Where the commands of a workspace run. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shell(Arc<Inner>);

struct Inner {
    workspace: Workspace,
    commands: Commands,
    confinement: Confinement,
    den: Mutex<Option<Arc<Den>>>,
}

/// What all commands have in common that must be made first.
struct Den {
    /// Gone with the shell.
    dir: private::Private,
    #[cfg(target_os = "linux")]
    fence: Option<confine::Fence>,
}

/// A command that runs. Dropped, it is ended with all that it started.
pub(crate) struct Running {
    /// Its output as it comes, in pieces to be joined; not all of it where there is much.
    pub(crate) live: mpsc::Receiver<String>,
    ended: oneshot::Receiver<Result<Ended, ToolError>>,
    stop: Option<PipeWriter>,
}

/// A command that has ended, with all its processes.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) how: How,
    pub(crate) output: Output,
    /// Processes that were left when it ended, and were ended too.
    pub(crate) left: usize,
    /// Processes that could not be ended.
    pub(crate) undead: usize,
    pub(crate) took: Duration,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum How {
    /// By itself, with this code.
    Exited(i32),
    /// By this signal.
    Signalled(i32),
    /// Its time was up.
    TimedOut,
    /// It had too many processes, so many.
    #[cfg_attr(
        not(target_os = "linux"),
        allow(dead_code, reason = "they are counted on Linux only")
    )]
    Multiplied(usize),
    /// Nobody wants it any more.
    Stopped,
}

impl Shell {
    pub(crate) fn new(workspace: &Workspace, commands: Commands) -> Self {
        let confinement = Confinement::find(&commands);
        Self::with(workspace, commands, confinement)
    }

    pub(crate) fn with(
        workspace: &Workspace,
        commands: Commands,
        confinement: Confinement,
    ) -> Self {
        Shell(Arc::new(Inner {
            workspace: workspace.clone(),
            commands,
            confinement,
            den: Mutex::default(),
        }))
    }

    pub(crate) fn commands(&self) -> &Commands {
        &self.0.commands
    }

    pub(crate) fn confinement(&self) -> &Confinement {
        &self.0.confinement
    }

    /// Starts a command in a directory of the workspace.
    pub(crate) fn start(
        &self,
        command: &str,
        cwd: Option<&str>,
        time: Duration,
    ) -> Result<Running, ToolError> {
        if let Confinement::Missing(why) = &self.0.confinement {
            return Err(ToolError::failed(confinement::refusal(why)));
        }
        let fail =
            |e: io::Error| ToolError::Failed(format!("the command could not be started: {e}"));
        let (stop, writer) = io::pipe().map_err(fail)?;
        let (to_live, live) = mpsc::channel(AHEAD);
        let (to_ended, ended) = oneshot::channel();
        let (shell, command, cwd) = (self.clone(), command.to_owned(), cwd.map(str::to_owned));
        // A thread that confines itself is of no use afterwards, so each command has one.
        let work = move || {
            let done = shell.0.run(&command, cwd.as_deref(), time, stop, to_live);
            drop(shell);
            let _ = to_ended.send(done); // nobody may be waiting
        };
        std::thread::Builder::new().name("command".into()).spawn(work).map_err(fail)?;
        Ok(Running { live, ended, stop: Some(writer) })
    }
}

impl Running {
    /// Ends it soon.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }

    /// Waits until it and all that it started have ended.
    pub(crate) async fn ended(&mut self) -> Result<Ended, ToolError> {
        let lost =
            |_| ToolError::Failed("the command was lost: the thread that watched it ended".into());
        (&mut self.ended).await.map_err(lost)?
    }
}

impl Inner {
    /// Runs a command on this thread, which is its own.
    fn run(
        &self,
        command: &str,
        cwd: Option<&str>,
        time: Duration,
        stop: PipeReader,
        live: mpsc::Sender<String>,
    ) -> Result<Ended, ToolError> {
        let fail = |e: io::Error| ToolError::Failed(format!("the command could not be run: {e}"));
        keep_descriptors();
        let den =
            self.den().map_err(|e| ToolError::Failed(format!("commands cannot be run: {e}")))?;
        let (cwd, path) = self.workspace.open_dir(cwd.unwrap_or_default())?;
        let output = Output::new(&self.workspace, self.commands.max_output);
        let tag = format!("LOOPWRIGHT_COMMAND={:016x}", random());
        let mut shell = self.shell(&den, &tag);
        shell.args(["sh", command]).current_dir(here(&cwd, &path));
        #[cfg(target_os = "linux")]
        return supervise::supervise(supervise::Job {
            command: shell,
            fence: den.fence.as_ref(),
            mark: self.confinement.mark(tag),
            time,
            max_processes: self.commands.max_processes,
            stop,
            live,
            output,
        })
        .map_err(fail);
        #[cfg(all(unix, not(target_os = "linux")))]
        return supervise::supervise(shell, time, stop, live, output).map_err(fail);
        #[cfg(not(unix))]
        Err(fail(io::Error::other(format!(
            "there is no shell here for {time:?} ({stop:?}, {live:?}, {output:?})"
        ))))
    }

    /// A shell with everything but the command.
    fn shell(&self, den: &Den, tag: &str) -> Command {
        let (temporary, home) = (den.dir.path().join("tmp"), den.dir.path().join("home"));
        let confined = !matches!(self.confinement, Confinement::Unconfined);
        let home = confined.then_some(home);
        let mut words: Vec<OsString> = Vec::new();
        #[cfg(target_os = "linux")]
        if let Confinement::Bubblewrap(program) = &self.confinement {
            let root = self.workspace.real_root().to_owned();
            let writable: Vec<PathBuf> =
                self.writable(root).into_iter().chain([den.dir.path().to_owned()]).collect();
            words.push(program.into());
            words.extend(bubblewrap::arguments(&self.readable(), &writable, self.commands.network));
            words.push("--".into());
        }
        words.extend(["/bin/sh", "-c", START].map(OsString::from));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear();
        command.envs(environment::variables(&self.commands.env, home.as_deref(), &temporary));
        command.envs(tag.split_once('='));
        command
    }

    /// The directories that must be there, made at the first command.
    fn den(&self) -> Result<Arc<Den>, String> {
        let mut den = self.den.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(den) = &*den {
            return Ok(den.clone());
        }
        let fail = |e: io::Error| format!("no temporary directory could be made for them: {e}");
        let dir = private::Private::make().map_err(fail)?;
        #[cfg(target_os = "linux")]
        let fence = match &self.confinement {
            Confinement::Landlock(landlock) => {
                let rules = confine::Fence::new(
                    *landlock,
                    &self.readable(),
                    &self.writable(self.workspace.root_here()),
                    dir.path(),
                    self.commands.network,
                );
                Some(rules.map_err(|e| format!("Landlock refused the rules for them: {e}"))?)
            }
            _ => None,
        };
        let made = Arc::new(Den {
            dir,
            #[cfg(target_os = "linux")]
            fence,
        });
        *den = Some(made.clone());
        Ok(made)
    }

    #[cfg(target_os = "linux")]
    fn readable(&self) -> Vec<PathBuf> {
        environment::readable().into_iter().chain(self.commands.readable.iter().cloned()).collect()
    }

    #[cfg(target_os = "linux")]
    fn writable(&self, root: PathBuf) -> Vec<PathBuf> {
        [root].into_iter().chain(self.commands.writable.iter().cloned()).collect()
    }
}

/// Marks all open files and sockets of this process but the standard ones as not to be inherited,
/// which changes nothing for itself. Its own are so anyway; what it was given by whoever started
/// it, and what a library in C has opened, need not be, and whoever has one open needs no leave: a
/// command could read and write by it.
fn keep_descriptors() {
    #[cfg(unix)]
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
}

fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
