//! One command on a Unix that is not Linux: ended with its process group, and nothing knows its
//! daemons.

use std::io::{self, PipeReader, Read};
use std::os::fd::AsFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};
use tokio::sync::mpsc;

use super::output::{Live, Output};
use super::{Ended, How};

/// How often it is looked whether the command has ended.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
/// How long a command that has ended may leave its output open.
const LINGER: Duration = Duration::from_millis(200);

/// Runs it on this thread.
pub(super) fn supervise(
    mut command: Command,
    time: Duration,
    stop: PipeReader,
    live: mpsc::Sender<String>,
    mut output: Output,
) -> io::Result<Ended> {
    let started = Instant::now();
    let (mut out, writer) = io::pipe()?;
    rustix::io::ioctl_fionbio(&out, true)?;
    command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).process_group(0);
    let mut child = command.spawn()?;
    drop(command); // it holds the pipe's other end
    let pid = Pid::from_child(&child);
    let (mut streamed, mut open, mut exited) = (Live::default(), true, None);
    let mut buffer = [0; 64 * 1024];
    let mut how = None;
    while how.is_none() && exited.is_none_or(|at: Instant| open && at.elapsed() < LINGER) {
        let mut fds = vec![PollFd::from_borrowed_fd(stop.as_fd(), PollFlags::IN)];
        fds.extend(open.then(|| PollFd::from_borrowed_fd(out.as_fd(), PollFlags::IN)));
        let _ = poll(&mut fds, Some(&LOOK));
        if !fds[0].revents().is_empty() {
            how = Some(How::Stopped);
        }
        drop(fds);
        match out.read(&mut buffer) {
            Ok(0) => open = false,
            Ok(count) => {
                output.push(&buffer[..count]);
                streamed.push(&buffer[..count]);
            }
            Err(_) => {} // nothing there
        }
        if let Some(text) = streamed.take()
            && let Err(mpsc::error::TrySendError::Full(text)) = live.try_send(text)
        {
            streamed.put_back(text);
        }
        // Not waited for yet, so that the number of its group stays its own.
        let looked = waitid(
            WaitId::Pid(pid),
            WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT,
        );
        if exited.is_none() && matches!(looked, Ok(Some(_))) {
            exited = Some(Instant::now());
        }
        if exited.is_none() && started.elapsed() >= time {
            how = Some(How::TimedOut);
        }
    }
    let _ = kill_process_group(pid, Signal::KILL); // it may be empty
    let status = child.wait()?;
    let by_itself = || match (status.code(), status.signal()) {
        (Some(code), _) => How::Exited(code),
        (None, signal) => How::Signalled(signal.unwrap_or_default()),
    };
    let how = how.unwrap_or_else(by_itself);
    Ok(Ended { how, output, left: 0, undead: 0, took: started.elapsed() })
}
