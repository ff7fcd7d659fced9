//! [`Shell`] starts the commands of one workspace; [`RunningCommand`] is one of them.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::ToolError;
use tokio::sync::{mpsc, oneshot};

#[cfg(target_os = "linux")]
use super::bubblewrap;
use super::confinement::{Confinement, refusal};
use super::environment;
use super::exit::Finished;
#[cfg(target_os = "linux")]
use super::landlock::Sandbox;
use super::output::CommandOutput;
#[cfg(all(unix, not(target_os = "linux")))]
use super::portable;
use super::private_dir::PrivateDir;
#[cfg(target_os = "linux")]
use super::supervise;
use crate::commands::Commands;
use crate::workspace::{Workspace, stable_path};

/// The script with which the shell starts the command, its first argument.
#[cfg(target_os = "linux")]
const START_SCRIPT: &str = supervise::START_SCRIPT;
#[cfg(not(target_os = "linux"))]
const START_SCRIPT: &str = r#"exec /bin/sh -c "$1" sh"#;

/// How many chunks of live output may wait for the receiver.
const LIVE_OUTPUT_CAPACITY: usize = 8;

/// Runs the commands of a workspace. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shell(Arc<Inner>);

struct Inner {
    workspace: Workspace,
    commands: Commands,
    confinement: Confinement,
    setup: Mutex<Option<Arc<Setup>>>,
}

/// What all commands share, prepared before the first one.
struct Setup {
    /// Removed together with the shell.
    dir: PrivateDir,
    #[cfg(target_os = "linux")]
    sandbox: Option<Sandbox>,
}

/// A command in progress. Dropping it kills the command with all its processes.
pub(crate) struct RunningCommand {
    /// Its output as it is printed, in chunks; parts of very long output are left out.
    pub(crate) live: mpsc::Receiver<String>,
    finished: oneshot::Receiver<Result<Finished, ToolError>>,
    stop: Option<PipeWriter>,
}

impl Shell {
    /// Creates a shell with the best confinement that the system offers.
    pub(crate) fn new(workspace: &Workspace, commands: Commands) -> Self {
        let confinement = Confinement::detect(&commands);
        Self::with_confinement(workspace, commands, confinement)
    }

    /// Creates a shell with this confinement.
    pub(crate) fn with_confinement(
        workspace: &Workspace,
        commands: Commands,
        confinement: Confinement,
    ) -> Self {
        Shell(Arc::new(Inner {
            workspace: workspace.clone(),
            commands,
            confinement,
            setup: Mutex::default(),
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
        timeout: Duration,
    ) -> Result<RunningCommand, ToolError> {
        if let Confinement::Unavailable(why) = &self.0.confinement {
            return Err(ToolError::failed(refusal(why)));
        }
        let fail =
            |e: io::Error| ToolError::Failed(format!("the command could not be started: {e}"));
        let (stop, writer) = io::pipe().map_err(fail)?;
        let (to_live, live) = mpsc::channel(LIVE_OUTPUT_CAPACITY);
        let (to_finished, finished) = oneshot::channel();
        let shell = self.clone();
        let command = command.to_owned();
        let cwd = cwd.map(str::to_owned);
        // Each command needs its own thread: a thread that confined itself cannot be reused.
        let work = move || {
            let result = shell.0.run(&command, cwd.as_deref(), timeout, stop, to_live);
            drop(shell);
            let _ = to_finished.send(result); // fails if the call was dropped
        };
        std::thread::Builder::new().name("command".into()).spawn(work).map_err(fail)?;
        Ok(RunningCommand { live, finished, stop: Some(writer) })
    }
}

impl RunningCommand {
    /// Requests the end of the command. [`finished`](Self::finished) returns when it has ended.
    pub(crate) fn stop(&mut self) {
        self.stop = None;
    }

    /// Waits until the command and all processes that it started have ended.
    pub(crate) async fn finished(&mut self) -> Result<Finished, ToolError> {
        let lost =
            |_| ToolError::Failed("the command was lost: its supervisor thread ended".into());
        (&mut self.finished).await.map_err(lost)?
    }
}

impl Inner {
    /// Runs a command on this thread, which must not be used for anything else.
    fn run(
        &self,
        command: &str,
        cwd: Option<&str>,
        timeout: Duration,
        stop: PipeReader,
        live: mpsc::Sender<String>,
    ) -> Result<Finished, ToolError> {
        let fail = |e: io::Error| ToolError::Failed(format!("the command could not be run: {e}"));
        close_descriptors_on_exec();
        let setup =
            self.setup().map_err(|e| ToolError::Failed(format!("commands cannot be run: {e}")))?;
        let (cwd, path) = self.workspace.open_dir(cwd.unwrap_or_default())?;
        let output = CommandOutput::new(&self.workspace, self.commands.max_output);
        let tag = format!("LOOPWRIGHT_COMMAND={:016x}", random());
        let mut shell = self.shell(&setup, &tag);
        shell.args(["sh", command]).current_dir(stable_path(&cwd, &path));
        #[cfg(target_os = "linux")]
        return supervise::supervise(supervise::Job {
            command: shell,
            sandbox: setup.sandbox.as_ref(),
            membership: self.confinement.membership(tag),
            timeout,
            max_processes: self.commands.max_processes,
            stop,
            live,
            output,
        })
        .map_err(fail);
        #[cfg(all(unix, not(target_os = "linux")))]
        return portable::supervise(shell, timeout, stop, live, output).map_err(fail);
        #[cfg(not(unix))]
        Err(fail(io::Error::other(format!(
            "there is no shell here for {timeout:?} ({stop:?}, {live:?}, {output:?})"
        ))))
    }

    /// Returns the shell's program and environment; only the command is missing.
    fn shell(&self, setup: &Setup, tag: &str) -> Command {
        let temporary = setup.dir.path().join("tmp");
        let confined = !matches!(self.confinement, Confinement::Unconfined);
        let home = confined.then(|| setup.dir.path().join("home"));
        let mut words: Vec<OsString> = Vec::new();
        #[cfg(target_os = "linux")]
        if let Confinement::Bubblewrap(program) = &self.confinement {
            let root = self.workspace.real_root().to_owned();
            let writable: Vec<PathBuf> =
                self.writable(root).into_iter().chain([setup.dir.path().to_owned()]).collect();
            words.push(program.into());
            words.extend(bubblewrap::arguments(&self.readable(), &writable, self.commands.network));
            words.push("--".into());
        }
        words.extend(["/bin/sh", "-c", START_SCRIPT].map(OsString::from));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear();
        command.envs(environment::variables(&self.commands.env, home.as_deref(), &temporary));
        command.envs(tag.split_once('='));
        command
    }

    /// Returns what all commands share, preparing it for the first command.
    fn setup(&self) -> Result<Arc<Setup>, String> {
        let mut setup = self.setup.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(setup) = &*setup {
            return Ok(setup.clone());
        }
        let fail = |e: io::Error| format!("their temporary directory could not be created: {e}");
        let dir = PrivateDir::create().map_err(fail)?;
        #[cfg(target_os = "linux")]
        let sandbox = match &self.confinement {
            Confinement::Landlock(landlock) => {
                let sandbox = Sandbox::new(
                    *landlock,
                    &self.readable(),
                    &self.writable(self.workspace.stable_root()),
                    dir.path(),
                    self.commands.network,
                );
                Some(sandbox?)
            }
            _ => None,
        };
        let new = Arc::new(Setup {
            dir,
            #[cfg(target_os = "linux")]
            sandbox,
        });
        *setup = Some(new.clone());
        Ok(new)
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

/// Sets close-on-exec on all open descriptors of this process but the standard ones.
///
/// The standard library opens files and sockets that way, but descriptors that this process
/// inherited, or that a C library opened, may lack the flag. An inherited descriptor needs no
/// permission: a command could read and write through it.
fn close_descriptors_on_exec() {
    #[cfg(unix)]
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
}

fn random() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    RandomState::new().hash_one(0)
}
