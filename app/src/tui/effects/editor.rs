//! The user's editor, for the arguments of a call.

use std::ffi::{OsStr, OsString};
use std::io;
use std::process::{Command, ExitStatus};
use std::sync::mpsc::{self, TryRecvError};
use std::time::Duration;

use loopwright_core::message::CallId;
use tempfile::TempDir;
use tokio::sync::oneshot;

use crate::tui::state::Outcome;

/// Grace period of an editor after SIGTERM.
const EXIT_GRACE: Duration = Duration::from_millis(500);

/// Returns the editor that `VISUAL` or `EDITOR` names, if any.
pub(crate) fn editor() -> Option<OsString> {
    ["VISUAL", "EDITOR"].into_iter().filter_map(std::env::var_os).find(|name| !name.is_empty())
}

/// A running editor, which owns the terminal. Dropping it terminates the editor and removes the
/// file.
pub(crate) struct Editor {
    call: CallId,
    dir: TempDir,
    #[cfg(unix)]
    process: u32,
    status: oneshot::Receiver<io::Result<ExitStatus>>,
    /// A channel without messages, which closes when the process has been reaped.
    alive: mpsc::Receiver<()>,
}

impl Editor {
    /// Starts the editor on the arguments. The error is a sentence that says why it failed.
    pub(crate) fn start(editor: &OsStr, call: CallId, json: &str) -> Result<Self, String> {
        // Readable by this user only.
        let dir = tempfile::Builder::new().prefix("loopwright-").tempdir().map_err(not_edited)?;
        let file = dir.path().join("arguments.json");
        std::fs::write(&file, format!("{json}\n")).map_err(not_edited)?;
        // As in a shell, the variable may contain options.
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
        let (status_tx, status) = oneshot::channel();
        let (alive_tx, alive) = mpsc::channel();
        let wait_for_exit = move || {
            let status = child.wait();
            drop(alive_tx);
            let _ = status_tx.send(status);
        };
        let editor = Editor {
            call,
            dir,
            #[cfg(unix)]
            process,
            status,
            alive,
        };
        std::thread::Builder::new()
            .name("editor".into())
            .spawn(wait_for_exit)
            .map_err(not_edited)?;
        Ok(editor)
    }

    /// Waits for the editor to exit. Returns the new arguments, or the reason why they are missing.
    pub(crate) async fn ended(&mut self) -> Outcome {
        let status = (&mut self.status).await.map_err(io::Error::other).flatten();
        let call = self.call.clone();
        match status.map_err(not_edited) {
            Ok(status) if !status.success() => Outcome::Refused {
                call,
                why: format!("The editor exited with {status}; the arguments are unchanged."),
            },
            Ok(_) => match std::fs::read_to_string(self.dir.path().join("arguments.json")) {
                Ok(json) => Outcome::Edited { call, json },
                Err(why) => Outcome::Refused { call, why: not_edited(why) },
            },
            Err(why) => Outcome::Refused { call, why },
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
        end_family(self.process, &self.alive);
        let _ = self.alive.recv_timeout(EXIT_GRACE); // until the process is reaped
    }
}

/// Terminates a process and its descendants: SIGTERM, then SIGKILL after [`EXIT_GRACE`]. They are
/// in this process's group, as the terminal's foreground must be, so the group cannot be signalled.
#[cfg(unix)]
fn end_family(process: u32, alive: &mpsc::Receiver<()>) {
    use rustix::process::{Pid, Signal, kill_process};

    let all: Vec<Pid> = descendants(process)
        .into_iter()
        .filter_map(|id| i32::try_from(id).ok().and_then(Pid::from_raw))
        .collect();
    for id in &all {
        let _ = kill_process(*id, Signal::TERM); // it may have exited
    }
    wait_for_exit(&all, alive);
    for id in &all {
        let _ = kill_process(*id, Signal::KILL);
    }
}

/// Waits up to [`EXIT_GRACE`] for all processes to exit, or for the first one where the system can
/// wait for no other.
#[cfg(unix)]
#[expect(unused_variables, reason = "Linux waits for each of them, other systems for the first")]
fn wait_for_exit(all: &[rustix::process::Pid], alive: &mpsc::Receiver<()>) {
    #[cfg(target_os = "linux")]
    {
        use rustix::event::{PollFd, PollFlags, Timespec, poll};
        use rustix::process::{PidfdFlags, pidfd_open};

        let until = std::time::Instant::now() + EXIT_GRACE;
        for process in all.iter().filter_map(|id| pidfd_open(*id, PidfdFlags::empty()).ok()) {
            let left = until.saturating_duration_since(std::time::Instant::now());
            let left = Timespec::try_from(left).unwrap_or_default();
            let _ = poll(&mut [PollFd::new(&process, PollFlags::IN)], Some(&left));
        }
    }

    #[cfg(not(target_os = "linux"))]
    let _ = alive.recv_timeout(EXIT_GRACE);
}

/// Returns a process and its descendants, or only the process on systems without `/proc`.
#[cfg(unix)]
fn descendants(process: u32) -> Vec<u32> {
    let ids = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let parents: Vec<(u32, u32)> = ids.filter_map(|id| Some((id, parent(id)?))).collect();
    let mut all = vec![process];
    let mut at = 0;
    while let Some(this) = all.get(at).copied() {
        all.extend(parents.iter().filter(|(_, parent)| *parent == this).map(|(id, _)| id));
        at += 1;
    }
    all
}

#[cfg(unix)]
fn parent(id: u32) -> Option<u32> {
    let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // The name may contain anything; after the last `)` come the state and the parent.
    stat.rsplit_once(')')?.1.split_whitespace().nth(1)?.parse().ok()
}
