//! One command from its start to the end of its last process, on a thread of its own.

use std::io::{self, PipeReader, Read, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Resource, Rlimit, pidfd_open, prlimit};
use tokio::sync::mpsc;

use super::confine::Fence;
use super::members::{Mark, Members};
use super::output::{Live, Output};
use super::watchdog::Watchdog;
use super::{Ended, How};

/// How long a command that has ended may leave its output open, as a process in the background
/// does.
const LINGER: Duration = Duration::from_millis(200);
/// How long ending all processes may take beyond the command's time.
const ENDING: Duration = Duration::from_millis(700);
/// How long it may take if that time is not up.
const ENDING_EARLY: Duration = Duration::from_secs(10);
/// How often live output that was not taken is offered again, and the system asked how many
/// processes it has. Short, since many can come in it.
const LOOK: Duration = Duration::from_millis(10);
/// How often the command's processes are counted, however many the system has.
const COUNT: Duration = Duration::from_millis(500);

/// What a shell does with its first argument: it waits until it may do anything, and does that.
pub(super) const START: &str = r#"read -r _ || exit; exec /bin/sh -c "$1" sh </dev/null"#;

/// A command that is to be run.
pub(super) struct Job<'a> {
    /// One that begins with [`START`].
    pub(super) command: Command,
    pub(super) fence: Option<&'a Fence>,
    pub(super) mark: Mark,
    pub(super) time: Duration,
    pub(super) max_processes: usize,
    /// At its end, which comes when nobody wants the command any more, it is stopped.
    pub(super) stop: PipeReader,
    pub(super) live: mpsc::Sender<String>,
    pub(super) output: Output,
}

/// Runs it on this thread, which is of no use for anything else afterwards.
pub(super) fn supervise(job: Job<'_>) -> io::Result<Ended> {
    let watchdog = job.fence.map(Fence::stand_guard).transpose()?.flatten();
    let ended = watch(job, watchdog.as_ref().map(Watchdog::pid));
    if let Some(watchdog) = watchdog {
        watchdog.dismiss();
    }
    ended
}

fn watch(mut job: Job<'_>, watchdog: Option<Pid>) -> io::Result<Ended> {
    let (started, crowd) = (Instant::now(), crowd());
    let (out, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&out, true)?;
    job.command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let mut child = match job.fence {
        Some(fence) => fence.spawn(&mut job.command)?,
        None => job.command.spawn()?,
    };
    drop(job.command); // it holds the pipe's other end
    let pid = Pid::from_child(&child);
    let exit = pidfd_open(pid, PidfdFlags::empty()).inspect_err(|_| {
        let _ = child.kill(); // what it may have started has no chance to be known
        let _ = child.wait();
    })?;
    let members = Members::of(pid, watchdog, job.mark.clone());
    // Root is exempt from it, so processes are counted besides.
    limit(pid, crowd + job.max_processes);
    if let Some(mut stdin) = child.stdin.take() {
        let _ = stdin.write_all(b"\n"); // go; if it is dead already, that shows
    }
    let mut watch = Watch {
        out: Some(out),
        output: job.output,
        streamed: Live::default(),
        live: &job.live,
        stop: &job.stop,
        exit,
    };
    let over = watch.until_over(
        started + job.time,
        Most { own: job.max_processes, all: crowd + job.max_processes },
        &members,
    );
    let left = if matches!(over, Ok(Over::Exited)) { members.running().len() } else { 0 };
    let early = (started + job.time).saturating_duration_since(Instant::now());
    let undead = members.end(ENDING + early.min(ENDING_EARLY));
    let status = reap(&mut child, watch.exit.as_fd())?;
    watch.read()?; // as much as a pipe can hold
    watch.tell();
    let how = match over? {
        Over::Exited => status.map_or(How::Signalled(9), how),
        Over::Other(how) => how,
    };
    Ok(Ended { how, output: watch.output, left, undead, took: started.elapsed() })
}

/// Why there is nothing more to wait for.
enum Over {
    Exited,
    Other(How),
}

/// How many processes there may be.
struct Most {
    /// Of the command.
    own: usize,
    /// In the system, before those of the command are counted.
    all: usize,
}

struct Watch<'a> {
    /// Both outputs of the command, until their end.
    out: Option<PipeReader>,
    output: Output,
    streamed: Live,
    live: &'a mpsc::Sender<String>,
    stop: &'a PipeReader,
    exit: std::os::fd::OwnedFd,
}

impl Watch<'_> {
    fn until_over(&mut self, deadline: Instant, most: Most, members: &Members) -> io::Result<Over> {
        let mut look = Instant::now() + LOOK;
        let mut count = Instant::now() + COUNT;
        let mut exited: Option<Instant> = None;
        loop {
            let now = Instant::now();
            if let Some(exited) = exited
                && (self.out.is_none() || now >= exited + LINGER)
            {
                return Ok(Over::Exited);
            }
            if exited.is_none() && now >= deadline {
                return Ok(Over::Other(How::TimedOut));
            }
            if now >= look {
                self.tell();
                if now >= count || crowd() > most.all {
                    let running = members.running().len();
                    if running > most.own {
                        return Ok(Over::Other(How::Multiplied(running)));
                    }
                    count = Instant::now() + COUNT;
                }
                look = Instant::now() + LOOK;
            }
            let due = exited.map_or(deadline, |at| at + LINGER).min(look);
            let ready = self.wait(due.saturating_duration_since(now), exited.is_none())?;
            if ready.stop {
                return Ok(Over::Other(How::Stopped));
            }
            if ready.out {
                self.read()?;
                self.tell();
            }
            if ready.exit {
                exited = Some(Instant::now());
            }
        }
    }

    fn wait(&self, time: Duration, running: bool) -> io::Result<Ready> {
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

    /// What there is to read, but not for ever: a command that never stops must be looked after
    /// too.
    fn read(&mut self) -> io::Result<()> {
        let mut buffer = [0; 64 * 1024];
        for _ in 0..16 {
            let Some(out) = &mut self.out else { break };
            match out.read(&mut buffer) {
                Ok(0) => self.out = None,
                Ok(count) => {
                    self.output.push(&buffer[..count]);
                    self.streamed.push(&buffer[..count]);
                }
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        Ok(())
    }

    /// Offers what has come to whoever watches, who may be behind.
    fn tell(&mut self) {
        if let Some(text) = self.streamed.take()
            && let Err(mpsc::error::TrySendError::Full(text)) = self.live.try_send(text)
        {
            self.streamed.put_back(text);
        }
    }
}

/// What there is to look at.
struct Ready {
    stop: bool,
    out: bool,
    exit: bool,
}

/// How many processes and threads the system has. Quickly known, unlike how many of them are the
/// command's.
fn crowd() -> usize {
    rustix::system::sysinfo().procs.into()
}

/// The kernel's own limit, on all processes of the user. It is not an error if there is a lower
/// one.
fn limit(pid: Pid, most: usize) {
    let most = Some(most as u64);
    let _ = prlimit(Some(pid), Resource::Nproc, Rlimit { current: most, maximum: most });
}

/// How the first process ended. None if it does not end, being stuck in the kernel.
fn reap(child: &mut Child, exit: BorrowedFd<'_>) -> io::Result<Option<ExitStatus>> {
    let time = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };
    let _ = poll(&mut [PollFd::from_borrowed_fd(exit, PollFlags::IN)], Some(&time));
    child.try_wait()
}

fn how(status: ExitStatus) -> How {
    match (status.code(), status.signal()) {
        (Some(code), _) => How::Exited(code),
        (None, signal) => How::Signalled(signal.unwrap_or_default()),
    }
}
