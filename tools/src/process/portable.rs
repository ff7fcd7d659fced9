//! Supervision of one command on a Unix other than Linux. The command is killed with its process
//! group. Daemons that leave the group are not detected.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::mpsc;
use tokio::sync::mpsc::error::TrySendError;

use super::exit::{Changes, Exit, Finished};
use super::live_output::LiveOutput;
use super::output::CommandOutput;

/// The interval for polling the exit of the command.
const POLL_INTERVAL: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// The maximum time for reading output after the command has exited, while a background process
/// keeps it open.
const OUTPUT_GRACE: Duration = Duration::from_millis(200);

/// Runs the command on this thread.
pub(super) fn supervise(
    mut command: Command,
    timeout: Duration,
    stop: PipeReader,
    live: mpsc::Sender<String>,
    mut output: CommandOutput,
) -> io::Result<Finished> {
    let started = Instant::now();
    let (mut out, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&out, true)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let mut child = command.spawn()?;
    drop(command); // closes its copy of the pipe's other end
    let pid = Pid::from_child(&child);
    let mut live_output = LiveOutput::default();
    let mut open = true;
    let mut exited = None;
    let mut buffer = [0; 64 * 1024];
    let mut exit = None;
    while exit.is_none() && exited.is_none_or(|at: Instant| open && at.elapsed() < OUTPUT_GRACE) {
        let mut fds = vec![PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
        fds.extend(open.then(|| PollFd::from_borrowed_fd(out.as_fd(), PollFlags::IN)));
        let _ = poll(&mut fds, Some(&POLL_INTERVAL));
        if !fds[0].revents().is_empty() {
            exit = Some(Exit::Stopped);
        }
        drop(fds);
        match out.read(&mut buffer) {
            Ok(0) => open = false,
            Ok(count) => {
                output.push(&buffer[..count]);
                live_output.push(&buffer[..count]);
            }
            Err(_) => {} // no output available
        }
        if let Some(text) = live_output.take()
            && let Err(TrySendError::Full(text)) = live.try_send(text)
        {
            live_output.put_back(text);
        }
        // The process is not reaped yet, so its group id cannot be reused.
        let status = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
        );
        if exited.is_none() && matches!(status, Ok(Some(_))) {
            exited = Some(Instant::now());
        }
        if exited.is_none() && started.elapsed() >= timeout {
            exit = Some(Exit::TimedOut);
        }
    }
    let _ = kill_process_group(pid, Signal::KILL); // the group may be empty
    let status = child.wait()?;
    Ok(Finished {
        exit: exit.unwrap_or_else(|| Exit::from(status)),
        output,
        background_processes: 0,
        unkillable_processes: 0,
        changes: Changes::default(),
        duration: started.elapsed(),
    })
}
