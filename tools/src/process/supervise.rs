//! Supervision of one command, from its start to the end of its last process, on a separate thread.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use cap_std::fs::Dir;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, pidfd_open, prlimit};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::cgroup::{Cgroup, Cgroups};
use super::exit::{Exit, Finished};
use super::landlock::Sandbox;
use super::limits::{Limits, Usage};
use super::live_output::LiveOutput;
use super::namespace::{Directory, Namespace};
use super::output::CommandOutput;
use super::pipe_ends::PipeEnds;
use super::priority;
use super::process_set::{Membership, ProcessSet};
use super::protect::ProtectedFiles;
use super::watchdog::Watchdog;

/// The maximum time for reading output after the command has exited, while a background process
/// keeps it open.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);
/// The maximum time limit. A longer one, such as `Duration::MAX`, has no effect.
const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 365 * 24 * 60 * 60);
/// The maximum time in which their number does not fall while all are killed. A killed process
/// needs the processor once more to end, and hundreds of them need seconds on a busy machine.
const KILL_TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout for the exit status of a killed command.
const REAP_TIMEOUT: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
/// The interval for offering live output that was not accepted, and for reading the number of
/// processes in the system. Short, because a fork bomb starts many processes in this time.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// The interval for counting the command's processes, however many the system has.
const COUNT_INTERVAL: Duration = Duration::from_millis(500);
/// The additional likelihood, of 1,000, that the command is killed if memory runs out.
const OOM_SCORE: &str = "500";
/// The maximum number of blocks of output that are read before other events are handled.
const MAX_BLOCKS_PER_READ: usize = 16;

/// The script of a supervised shell: waits for a line on its input, then runs its first argument.
pub(super) const START_SCRIPT: &str = r#"read -r _ || exit; exec /bin/sh -c "$1" sh </dev/null"#;

/// The same script for a command that reads the caller's input after that line.
pub(super) const PIPED_START_SCRIPT: &str = r#"read -r _ || exit; exec /bin/sh -c "$1" sh"#;

/// A command to run.
pub(super) struct Job<'a> {
    /// A shell that runs [`START_SCRIPT`], or [`PIPED_START_SCRIPT`] if it is piped.
    pub(super) command: Command,
    /// The ends of the pipes of a command whose caller reads and writes. Only its standard error is
    /// then its output.
    pub(super) piped: Option<PipeEnds>,
    pub(super) sandbox: Option<&'a Sandbox>,
    /// The open working directory, and its path.
    pub(super) cwd: (Dir, PathBuf),
    pub(super) protected: ProtectedFiles,
    pub(super) membership: Membership,
    /// `true` if the kernel kills all processes with the first one, so that none is left behind.
    pub(super) ends_together: bool,
    pub(super) timeout: Duration,
    pub(super) limits: Limits,
    pub(super) cgroups: Option<&'a Cgroups>,
    /// The directories that the command can write. Their disks are measured.
    pub(super) directories: Vec<PathBuf>,
    /// The end of a pipe. Closing its other end stops the command.
    pub(super) stop: PipeReader,
    pub(super) live: mpsc::Sender<String>,
    pub(super) output: CommandOutput,
}

/// Runs the command on this thread, which must not be used for anything else afterwards.
pub(super) fn supervise(mut job: Job<'_>) -> io::Result<Finished> {
    let mut namespace = None;
    job.command.current_dir(&job.cwd.1);
    if let Some(mounts) = job.sandbox.and_then(Sandbox::mounts)
        && job.protected.exist()
    {
        let fail =
            |e| io::Error::other(format!("the protected files cannot be made read-only: {e}"));
        let views = job.protected.views().map_err(fail)?;
        let cwd = Directory::of(&job.cwd.0).map_err(fail)?;
        namespace = Some(Namespace::create(mounts, views, cwd).map_err(fail)?);
    } else if job.sandbox.is_some_and(|sandbox| sandbox.mounts().is_none()) && job.piped.is_none() {
        // Not copied for a piped command: it may run for days, and the user may change the files
        // then.
        let fail = |e| io::Error::other(format!("the protected files cannot be copied: {e}"));
        job.protected.copy().map_err(fail)?;
    }
    job.protected.record();
    // If another process removes the parent, no group is created, and the limits are measured.
    let create = |cgroups: &Cgroups| cgroups.create(job.limits.tasks(), job.limits.memory).ok();
    let cgroup = job.cgroups.and_then(create);
    let groups: Vec<PathBuf> = cgroup.iter().flat_map(Cgroup::dirs).map(Path::to_owned).collect();
    let enter = |sandbox: &Sandbox| sandbox.enter_supervisor_domain(&groups);
    let watchdog = job.sandbox.map(enter).transpose()?.flatten();
    let finished = run(job, namespace, watchdog.as_ref().map(Watchdog::pid), cgroup);
    if let Some(watchdog) = watchdog {
        watchdog.dismiss();
    }
    finished
}

fn run(
    mut job: Job<'_>,
    namespace: Option<Namespace>,
    watchdog: Option<Pid>,
    cgroup: Option<Cgroup>,
) -> io::Result<Finished> {
    let started = Instant::now();
    let deadline = started + job.timeout.min(MAX_TIMEOUT);
    let usage = Usage::start(std::mem::take(&mut job.directories));
    let max_system_processes = system_process_count() + job.limits.processes;
    let (out, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&out, true)?;
    let (stdout, to_caller) = match job.piped.take() {
        Some(PipeEnds { stdout, stdin }) => (stdout, Some(stdin)),
        None => (writer.try_clone()?, None),
    };
    job.command.stdin(Stdio::piped()).stdout(stdout).stderr(writer).process_group(0);
    let mut child = match job.sandbox {
        Some(sandbox) => sandbox.spawn(&mut job.command, namespace)?,
        None => job.command.spawn()?,
    };
    drop(job.command); // closes its copy of the pipe's other end
    let pid = Pid::from_child(&child);
    let exit = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        let _ = child.kill(); // it still waits in START_SCRIPT, so it has started no process
        let _ = child.wait();
    })?;
    let cgroup = cgroup.filter(|cgroup| cgroup.add(pid.as_raw_pid()).is_ok());
    let processes = ProcessSet::of(pid, watchdog, job.membership.clone(), cgroup);
    // Processes are counted. This limit, which does not apply to root, only slows a fork bomb down.
    // It must be well above the counted limit, because it includes ended processes and the user's
    // other programs. A bomb that stays below the counted limit is not killed.
    let most_processes = system_process_count() + job.limits.tasks();
    limit(pid, Resource::Nproc, most_processes as u64);
    limit(pid, Resource::Fsize, job.limits.disk);
    prefer_when_memory_runs_out(pid);
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(b"\n"); // starts the command; its exit shows if it is already dead
        if let Some(to_caller) = to_caller {
            let _ = to_caller.send(stdin); // fails if the call was dropped, which stops the command
        }
    }
    let mut supervisor = Supervisor {
        out: Some(out),
        output: job.output,
        live_output: LiveOutput::default(),
        live: &job.live,
        stop: &job.stop,
        exit,
        limits: job.limits,
        max_system_processes,
        realtime: false,
        usage,
    };
    let end = supervisor.wait_for_end(deadline, &processes);
    // The kernel may have enforced a limit since the last check. Later it also counts refusals that
    // are caused by killing the processes.
    let enforced = supervisor.enforced_limit(&processes);
    let exited = matches!(end, Ok(End::Exited));
    let left_behind = exited && !job.ends_together;
    let background_processes = if left_behind { processes.count_running() } else { 0 };
    let unkillable_processes = processes.kill(KILL_TIMEOUT);
    let status = reap(&mut child, supervisor.exit.as_fd())?;
    supervisor.read_output()?; // what is left in the pipe
    supervisor.offer_live_output();
    let exit = match end? {
        End::Exited => enforced.unwrap_or_else(|| status.map_or(Exit::Signal(9), Exit::from)),
        End::MustBeKilled(exit) => exit,
    };
    Ok(Finished {
        exit,
        output: supervisor.output,
        background_processes,
        unkillable_processes,
        changes: job.protected.finish(),
        duration: started.elapsed(),
    })
}

/// The reason why the wait for a command is over.
enum End {
    Exited,
    MustBeKilled(Exit),
}

struct Supervisor<'a> {
    /// The standard output and error of the command, until they are closed.
    out: Option<PipeReader>,
    output: CommandOutput,
    live_output: LiveOutput,
    live: &'a mpsc::Sender<String>,
    stop: &'a PipeReader,
    exit: OwnedFd,
    limits: Limits,
    /// The number of processes in the system above which the command's processes are counted.
    max_system_processes: usize,
    /// `true` while this thread runs before all ordinary ones.
    realtime: bool,
    usage: Usage,
}

impl Supervisor<'_> {
    fn wait_for_end(&mut self, deadline: Instant, processes: &ProcessSet) -> io::Result<End> {
        let mut next_poll = Instant::now() + POLL_INTERVAL;
        let mut next_count = Instant::now() + COUNT_INTERVAL;
        let mut exited: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if let Some(exited) = exited
                && (self.out.is_none() || now >= exited + OUTPUT_GRACE)
            {
                return Ok(End::Exited);
            }
            if exited.is_none() && now >= deadline {
                return Ok(End::MustBeKilled(Exit::TimedOut));
            }
            if now >= next_poll {
                self.offer_live_output();
                let crowded = system_process_count() > self.max_system_processes;
                // Not only for each check: an ordinary thread wakes up late among so many
                // processes. If a limit is exceeded, the priority is kept until all processes are
                // killed.
                if crowded != self.realtime {
                    priority::set_realtime(crowded);
                    self.realtime = crowded;
                }
                if now >= next_count || crowded || self.usage.should_check(self.limits.memory) {
                    if let Some(exit) = self.exceeded_limit(processes) {
                        return Ok(End::MustBeKilled(exit));
                    }
                    next_count = Instant::now() + COUNT_INTERVAL;
                }
                next_poll = Instant::now() + POLL_INTERVAL;
            }
            let due = exited.map_or(deadline, |at| at + OUTPUT_GRACE).min(next_poll);
            let ready =
                self.wait_for_event(due.saturating_duration_since(now), exited.is_none())?;
            if ready.stop {
                return Ok(End::MustBeKilled(Exit::Stopped));
            }
            if ready.out {
                self.read_output()?;
                self.offer_live_output();
            }
            if ready.exit {
                exited = Some(Instant::now());
            }
        }
    }

    /// Returns the limit that the command exceeds.
    fn exceeded_limit(&mut self, processes: &ProcessSet) -> Option<Exit> {
        self.usage.checked();
        if let Some(exit) = self.enforced_limit(processes) {
            return Some(exit);
        }
        let running = processes.running_or_ended();
        if running.len() > self.limits.processes {
            return Some(Exit::TooManyProcesses(running.len()));
        }
        let is_limited = processes.cgroup().is_some_and(Cgroup::limits_memory);
        if !is_limited && self.usage.measure(running) > self.limits.memory {
            return Some(Exit::TooMuchMemory(self.limits.memory));
        }
        self.usage.exceeded_disk(self.limits.disk).map(Exit::TooMuchDisk)
    }

    /// Returns the limit that the kernel has enforced. Its limit of processes also counts threads.
    fn enforced_limit(&self, processes: &ProcessSet) -> Option<Exit> {
        let cgroup = processes.cgroup()?;
        if cgroup.ran_out_of_memory() {
            return Some(Exit::TooMuchMemory(self.limits.memory));
        }
        cgroup.refused_processes().then(|| Exit::TooManyProcesses(self.limits.tasks()))
    }

    fn wait_for_event(&self, time: Duration, running: bool) -> io::Result<Ready> {
        let readable = |fd| PollFd::from_borrowed_fd(fd, PollFlags::IN);
        let mut fds = vec![readable(self.stop.as_fd())];
        fds.extend(self.out.as_ref().map(|out| readable(out.as_fd())));
        fds.extend(running.then(|| readable(self.exit.as_fd())));
        let time =
            Timespec { tv_sec: time.as_secs() as i64, tv_nsec: i64::from(time.subsec_nanos()) };
        match poll(&mut fds, Some(&time)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
        let ready = |n: usize| fds.get(n).is_some_and(|fd| !fd.revents().is_empty());
        let out = self.out.is_some();
        Ok(Ready {
            stop: ready(0),
            out: out && ready(1),
            exit: running && ready(1 + usize::from(out)),
        })
    }

    /// Reads a bounded amount of available output: a command that prints without end must still be
    /// supervised.
    fn read_output(&mut self) -> io::Result<()> {
        let mut buffer = [0; 64 * 1024];
        for _ in 0..MAX_BLOCKS_PER_READ {
            let Some(out) = &mut self.out else { break };
            match out.read(&mut buffer) {
                Ok(0) => self.out = None,
                Ok(count) => {
                    self.output.push(&buffer[..count]);
                    self.live_output.push(&buffer[..count]);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Sends new output to the receiver, unless its queue is full.
    fn offer_live_output(&mut self) {
        if let Some(text) = self.live_output.take()
            && let Err(TrySendError::Full(text)) = self.live.try_send(text)
        {
            self.live_output.put_back(text);
        }
    }
}

/// The sources that have an event.
struct Ready {
    stop: bool,
    out: bool,
    exit: bool,
}

/// Returns the number of processes and threads in the system: cheap to read, unlike the number of
/// the command's processes.
fn system_process_count() -> usize {
    rustix::system::sysinfo().procs.into()
}

/// Sets a limit of the kernel, which the command's child processes inherit. Has no effect if a
/// lower limit is set.
fn limit(pid: Pid, resource: Resource, max: u64) {
    if max < u64::MAX {
        let max = Some(max);
        let _ = prlimit(Some(pid), resource, Rlimit { current: max, maximum: max });
    }
}

/// Makes the kernel kill the command before this process if the machine runs out of memory.
fn prefer_when_memory_runs_out(pid: Pid) {
    let score = format!("/proc/{}/oom_score_adj", pid.as_raw_pid());
    let _ = std::fs::write(score, OOM_SCORE); // may be forbidden, and is not essential
}

/// Returns the exit status of the first process, or `None` if the process hangs in the kernel.
fn reap(child: &mut Child, exit: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    let _ = poll(&mut [PollFd::from_borrowed_fd(exit, PollFlags::IN)], Some(&REAP_TIMEOUT));
    child.try_wait()
}
