//! [`Shell`], which starts the commands of a workspace, and [`RunningCommand`], a started command.

use std::ffi::OsString;
use std::io::{self, PipeReader, PipeWriter};
#[cfg(target_os = "linux")]
use std::path::PathBuf;
use std::process::{ChildStdin, Command};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use loopwright_core::ToolError;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

#[cfg(target_os = "linux")]
use super::bubblewrap::{self, Filters, View};
#[cfg(target_os = "linux")]
use super::cgroup::Cgroups;
use super::confinement::{Confinement, refusal};
use super::environment;
use super::exit::Finished;
#[cfg(target_os = "linux")]
use super::landlock::Sandbox;
#[cfg(target_os = "linux")]
use super::limits::Limits;
use super::output::CommandOutput;
use super::pipe_ends::PipeEnds;
#[cfg(all(unix, not(target_os = "linux")))]
use super::portable;
use super::private_dir::PrivateDir;
#[cfg(target_os = "linux")]
use super::protect::ProtectedFiles;
use super::random::random;
#[cfg(target_os = "linux")]
use super::supervise;
use crate::commands::Commands;
use crate::workspace::{Workspace, stable_path};

/// The script with which the shell starts the command. The command is its first argument.
#[cfg(target_os = "linux")]
const START_SCRIPT: &str = supervise::START_SCRIPT;
#[cfg(target_os = "linux")]
const PIPED_START_SCRIPT: &str = supervise::PIPED_START_SCRIPT;
#[cfg(not(target_os = "linux"))]
const START_SCRIPT: &str = r#"exec /bin/sh -c "$1" sh"#;
/// The same script: commands are not piped on these systems.
#[cfg(not(target_os = "linux"))]
const PIPED_START_SCRIPT: &str = START_SCRIPT;

/// The maximum number of chunks of live output that wait for the receiver.
const LIVE_OUTPUT_CAPACITY: usize = 8;

/// A runner for the commands of a workspace. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Shell(Arc<Inner>);

struct Inner {
    workspace: Workspace,
    commands: Commands,
    confinement: Confinement,
    #[cfg(target_os = "linux")]
    limits: Limits,
    /// The parents of control groups, or the reason why none can be created.
    #[cfg(target_os = "linux")]
    cgroups: Result<Cgroups, String>,
    setup: Mutex<Option<Arc<Setup>>>,
}

/// The resources that all commands share, prepared before the first one.
struct Setup {
    /// The temporary directory, removed together with the shell.
    dir: PrivateDir,
    #[cfg(target_os = "linux")]
    sandbox: Option<Sandbox>,
    /// The system call filters for bubblewrap.
    #[cfg(target_os = "linux")]
    filters: Option<Filters>,
}

/// A command in progress. Dropping it kills the command and all its processes.
pub(crate) struct RunningCommand {
    /// The output of the command while it is printed, in chunks. Parts of very long output are left
    /// out.
    pub(crate) live: mpsc::Receiver<String>,
    finished: oneshot::Receiver<Result<Finished, ToolError>>,
    stop: Option<PipeWriter>,
}

impl Shell {
    /// Creates a shell with the best confinement that the system offers.
    pub(crate) fn new(workspace: &Workspace, commands: Commands) -> Self {
        let protects = workspace.protects_files();
        let confinement = Confinement::detect(&commands, protects);
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
            #[cfg(target_os = "linux")]
            limits: Limits::of(&commands),
            #[cfg(target_os = "linux")]
            cgroups: commands.system.cgroups(),
            commands,
            confinement,
            setup: Mutex::default(),
        }))
    }

    /// Creates a shell as on a system that allows no control groups.
    #[cfg(all(test, target_os = "linux"))]
    pub(crate) fn without_cgroups(workspace: &Workspace, commands: Commands) -> Self {
        let protects = workspace.protects_files();
        Shell(Arc::new(Inner {
            workspace: workspace.clone(),
            limits: Limits::of(&commands),
            cgroups: Err("this is a test".into()),
            confinement: Confinement::detect(&commands, protects),
            commands,
            setup: Mutex::default(),
        }))
    }

    pub(crate) fn commands(&self) -> &Commands {
        &self.0.commands
    }

    /// Returns sentences for the model about what commands can do.
    pub(crate) fn description(&self) -> String {
        #[allow(unused_mut, reason = "there are no limits on other systems")]
        let mut text = self.0.confinement.description(&self.0.commands, self.0.protects());
        #[cfg(target_os = "linux")]
        if !matches!(self.0.confinement, Confinement::Unavailable(_)) {
            text.push_str(&self.0.limits.description(&self.0.cgroups));
        }
        text
    }

    /// Returns the same as JSON, for a user interface.
    pub(crate) fn details(&self) -> Value {
        #[allow(unused_mut, reason = "there are no limits on other systems")]
        let mut details = self.0.confinement.details(&self.0.commands, self.0.protects());
        #[cfg(target_os = "linux")]
        if let Some(details) = details.as_object_mut() {
            details.insert("limits".into(), self.0.limits.details(&self.0.cgroups));
        }
        details
    }

    /// Starts a command in a directory of the workspace.
    pub(crate) fn start(
        &self,
        command: &str,
        cwd: Option<&str>,
        timeout: Duration,
    ) -> Result<RunningCommand, ToolError> {
        self.start_with(command, cwd, timeout, None)
    }

    /// Starts a command in the workspace that ends when it is dropped. Returns it with its standard
    /// output, and the receiver of the end that writes its input.
    #[cfg(target_os = "linux")]
    pub(crate) fn start_piped(
        &self,
        command: &str,
    ) -> Result<(RunningCommand, PipeReader, oneshot::Receiver<ChildStdin>), ToolError> {
        let fail =
            |e: io::Error| ToolError::Failed(format!("the command could not be started: {e}"));
        let (reader, stdout) = io::pipe().map_err(fail)?;
        let (stdin, receiver) = oneshot::channel();
        let ends = PipeEnds { stdout, stdin };
        let running = self.start_with(command, None, Duration::MAX, Some(ends))?;
        Ok((running, reader, receiver))
    }

    fn start_with(
        &self,
        command: &str,
        cwd: Option<&str>,
        timeout: Duration,
        piped: Option<PipeEnds>,
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
        // Each command needs its own thread: a thread that has confined itself cannot be reused.
        let work = move || {
            let result = shell.0.run(&command, cwd.as_deref(), timeout, stop, to_live, piped);
            drop(shell);
            let _ = to_finished.send(result); // fails if the call was dropped
        };
        std::thread::Builder::new().name("command".into()).spawn(work).map_err(fail)?;
        Ok(RunningCommand { live, finished, stop: Some(writer) })
    }
}

impl RunningCommand {
    /// Requests the end of the command. [`finished`](Self::finished) then returns.
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
    /// Returns whether the workspace has protected files.
    fn protects(&self) -> bool {
        self.workspace.protects_files()
    }

    /// Runs a command on this thread, which must not be used for anything else.
    fn run(
        &self,
        command: &str,
        cwd: Option<&str>,
        timeout: Duration,
        stop: PipeReader,
        live: mpsc::Sender<String>,
        piped: Option<PipeEnds>,
    ) -> Result<Finished, ToolError> {
        let fail = |e: io::Error| ToolError::Failed(format!("the command could not be run: {e}"));
        close_descriptors_on_exec();
        let setup =
            self.setup().map_err(|e| ToolError::Failed(format!("commands cannot be run: {e}")))?;
        let (cwd, path) = self.workspace.open_dir(cwd.unwrap_or_default())?;
        let output = CommandOutput::new(&self.workspace, self.commands.max_output);
        let tag = format!("LOOPWRIGHT_COMMAND={:016x}", random());
        #[cfg(target_os = "linux")]
        let mut protected = self.protected().map_err(fail)?;
        let mut shell = self.shell(
            &setup,
            &tag,
            if piped.is_some() { PIPED_START_SCRIPT } else { START_SCRIPT },
            #[cfg(target_os = "linux")]
            &mut protected,
        );
        let path = stable_path(&cwd, &path);
        shell.args(["sh", command]).current_dir(&path);
        #[cfg(target_os = "linux")]
        return supervise::supervise(supervise::Job {
            command: shell,
            piped,
            sandbox: setup.sandbox.as_ref(),
            cwd: (cwd, path),
            protected,
            membership: self.confinement.membership(tag),
            ends_together: matches!(self.confinement, Confinement::Bubblewrap(_)),
            timeout,
            limits: self.limits,
            cgroups: self.cgroups.as_ref().ok(),
            directories: self
                .writable(self.workspace.real_root().to_owned())
                .into_iter()
                .chain([setup.dir.path().to_owned()])
                .collect(),
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

    /// Returns the shell's program and environment, without the command.
    fn shell(
        &self,
        setup: &Setup,
        tag: &str,
        script: &str,
        #[cfg(target_os = "linux")] protected: &mut ProtectedFiles,
    ) -> Command {
        let temporary = setup.dir.path().join("tmp");
        let confined = !matches!(self.confinement, Confinement::Unconfined);
        let home = confined.then(|| setup.dir.path().join("home"));
        let mut words: Vec<OsString> = Vec::new();
        #[cfg(target_os = "linux")]
        if let (Confinement::Bubblewrap(program), Some(filters)) =
            (&self.confinement, &setup.filters)
        {
            let stable = self.workspace.stable_root();
            let root = std::fs::canonicalize(&stable).unwrap_or(stable);
            let mut writable = self.writable(root);
            // Without the directory itself: commands must not write the filters in it.
            writable.extend(["tmp", "home"].map(|name| setup.dir.path().join(name)));
            let (fixed, read_only) = protected.show_read_only();
            let view = View { readable: self.readable(), writable, fixed, read_only };
            words.extend(filters.start(program));
            words.extend(bubblewrap::arguments(&view, self.commands.network));
            words.push("--".into());
        }
        words.extend(["/bin/sh", "-c", script].map(OsString::from));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env_clear();
        command.envs(environment::variables(&self.commands.env, home.as_deref(), &temporary));
        command.envs(tag.split_once('='));
        command
    }

    /// Returns the protected files of the directories that a command can write. Returns none if
    /// commands are not confined.
    #[cfg(target_os = "linux")]
    fn protected(&self) -> io::Result<ProtectedFiles> {
        let mut protected = ProtectedFiles::default();
        if matches!(self.confinement, Confinement::Unconfined) {
            return Ok(protected);
        }
        for dir in self.writable(self.workspace.stable_root()) {
            // A directory that does not exist is not writable.
            let added = protected.add(&dir, &self.workspace, &self.commands.writable);
            if added.is_err_and(|e| e.kind() != io::ErrorKind::NotFound) {
                return Err(io::Error::other(format!("{} cannot be looked at", dir.display())));
            }
        }
        Ok(protected)
    }

    /// Returns the shared resources, and prepares them for the first command.
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
        #[cfg(target_os = "linux")]
        let filters = match &self.confinement {
            Confinement::Bubblewrap(_) => Some(Filters::create(dir.path(), self.commands.network)?),
            _ => None,
        };
        let new = Arc::new(Setup {
            dir,
            #[cfg(target_os = "linux")]
            sandbox,
            #[cfg(target_os = "linux")]
            filters,
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

/// Sets close-on-exec on all open descriptors of this process except the standard ones.
///
/// The standard library opens files and sockets with this flag. Descriptors that this process
/// inherited, or that a C library opened, may lack it. An inherited descriptor needs no permission:
/// a command could read and write through it.
fn close_descriptors_on_exec() {
    #[cfg(unix)]
    close_fds::set_fds_cloexec_threadsafe(3, &[]);
}
