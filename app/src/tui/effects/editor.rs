//! The user's editor, for arguments.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use loopwright_core::message::CallId;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::tui::state::Told;

/// How long an editor may take to end when it is told to.
const MOMENT: Duration = Duration::from_millis(500);

/// The editor that the user has chosen, if any.
pub(crate) fn editor() -> Option<OsString> {
    ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|name| !name.is_empty())
}

/// An editor that has the terminal. Dropping it ends it, and removes what was edited.
pub(crate) struct Editor {
    call: CallId,
    dir: TempDir,
    #[cfg(unix)]
    process: u32,
    status: oneshot::Receiver<io::Result<ExitStatus>>,
    /// Says nothing; it is closed when the process was waited for.
    alive: mpsc::Receiver<()>,
}

impl Editor {
    /// Starts it on the arguments.
    pub(crate) fn start(editor: &OsStr, call: CallId, json: &str) -> Result<Self, String> {
        let dir = tempfile::Builder::new().prefix("loopwright-").tempdir().map_err(not_edited)?; // nobody else reads it
        let file = dir.path().join("arguments.json");
        std::fs::write(&file, format!("{json}\n")).map_err(not_edited)?;
        // As shells have it: the variable may hold options.
        let mut command = if cfg!(unix) {
            let mut command = Command::new("/bin/sh");
            command.arg("-c").arg(format!("{} \"$@\"", editor.to_string_lossy())).arg("sh");
            command
        } else {
            Command::new(editor)
        };
        let mut child = command.arg(&file).spawn().map_err(|why| {
            format!(
                "The editor `{}` could not be started: {why}. Set VISUAL or EDITOR.",
                editor.to_string_lossy()
            )
        })?;
        #[cfg(unix)]
        let process = child.id();
        let ((tell, status), (lives, alive)) = (oneshot::channel(), mpsc::channel());
        let wait = move || {
            let status = child.wait();
            drop(lives);
            let _ = tell.send(status);
        };
        let editor = Editor {
            call,
            dir,
            #[cfg(unix)]
            process,
            status,
            alive,
        };
        std::thread::Builder::new().name("editor".into()).spawn(wait).map_err(not_edited)?;
        Ok(editor)
    }

    /// Resolves when it has ended.
    pub(crate) async fn ended(&mut self) -> Told {
        let status = (&mut self.status).await.map_err(io::Error::other).flatten();
        let call = self.call.clone();
        match status.map_err(not_edited) {
            Ok(status) if !status.success() => Told::Refused {
                call,
                why: format!("The editor ended with {status}; the arguments are as they were."),
            },
            Ok(_) => match std::fs::read_to_string(self.dir.path().join("arguments.json")) {
                Ok(json) => Told::Edited { call, json },
                Err(why) => Told::Refused { call, why: not_edited(why) },
            },
            Err(why) => Told::Refused { call, why },
        }
    }
}

fn not_edited(why: io::Error) -> String {
    format!("The arguments could not be edited: {why}.")
}

impl Drop for Editor {
    fn drop(&mut self) {
        if !matches!(self.alive.try_recv(), Err(TryRecvError::Empty)) {
            return;
        }

        #[cfg(unix)]
        end(self.process, &self.alive);
        let _ = self.alive.recv_timeout(MOMENT); // until it was waited for
    }
}

/// Ends a process and what it has started: politely, and after a moment in any case. They are in
/// our own process group, as the terminal's foreground must be, so the group cannot be asked.
#[cfg(unix)]
fn end(process: u32, alive: &mpsc::Receiver<()>) {
    use rustix::process::{Pid, Signal, kill_process};

    let all: Vec<Pid> = family(process)
        .into_iter()
        .filter_map(|id| i32::try_from(id).ok().and_then(Pid::from_raw))
        .collect();
    for id in &all {
        let _ = kill_process(*id, Signal::TERM); // it may have ended
    }
    wait(&all, alive);
    for id in &all {
        let _ = kill_process(*id, Signal::KILL);
    }
}

/// Waits a moment at most until they have ended; where only the first can be waited for, for that
/// one.
#[cfg(unix)]
#[cfg_attr(
    target_os = "linux",
    expect(unused_variables, reason = "each of them can be waited for")
)]
fn wait(all: &[rustix::process::Pid], alive: &mpsc::Receiver<()>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::process::{PidfdFlags, pidfd_open};

        let until = std::time::Instant::now() + MOMENT;
        for process in all.iter().filter_map(|id| pidfd_open(*id, PidfdFlags::empty()).ok()) {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left));
        }
    }

    #[cfg(not(target_os = "linux"))]
    let _ = alive.recv_timeout(MOMENT);
}

/// A process and those that descend from it; where there is no `/proc`, the process alone.
#[cfg(unix)]
fn family(process: u32) -> Vec<u32> {
    let ids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = ids.filter_map(|id| Some((id, parent(id)?))).collect();
    let (mut all, mut at) = (vec![process], 0);
    while let Some(this) = all.get(at).copied() {
        all.extend(parents.iter().filter(|(_, parent)| *parent == this).map(|(id, _)| id));
        at += 1;
    }
    all
}

#[cfg(unix)]
fn parent(id: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name before it may hold anything, but for what follows the last `)`: the state, then the
    // parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
