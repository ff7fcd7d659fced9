//! [`Watchdog`]: kills a command if this process is killed.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// The script of the watchdog. A line on its input means that the command has ended. If the input
/// is closed instead, this process is dead. The script then kills every process that it may signal
/// and that has `no_new_privs`, and removes the temporary directory. Landlock restricts its signals
/// to the processes of its command, so the second condition is a safeguard. The arguments after the
/// temporary directory are the directories of the control group, which first gets no new processes.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _ && exit
temporary=$1
shift
for group in "$@"; do
    echo 0 >"$group"/pids.max
done 2>/dev/null
for round in 1 2 3 4 5 6 7 8 9 10; do
    for signal in STOP KILL; do
        for process in /proc/[0-9]*; do
            process=${process#/proc/}
            [ "$process" = "$$" ] && continue
            kill -0 "$process" 2>/dev/null || continue
            while read -r key value; do
                [ "$key $value" = "NoNewPrivs: 1" ] && kill -"$signal" "$process"
            done </proc/"$process"/status
        done
    done
done 2>/dev/null
rm -rf "$temporary"
[ $# = 0 ] || rmdir "$@" 2>/dev/null
"#;

/// A process that kills the command of its thread if this process is killed.
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Starts the watchdog from a thread in a Landlock domain that scopes signals, outside of the
    /// command's own domain.
    pub(super) fn start(temporary: &Path, groups: &[PathBuf]) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", SCRIPT, "sh"])
            .arg(temporary)
            .args(groups)
            .env_clear()
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped());
        Ok(Watchdog(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    /// Returns the id of the watchdog's process.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Ends the watchdog after the command has ended.
    pub(super) fn dismiss(mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(b"\n"); // it is alive: no other process may signal it
        }
        let _ = self.0.wait();
    }
}
