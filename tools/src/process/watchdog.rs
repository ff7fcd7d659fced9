//! A watchdog for each command: if this process is killed, the command dies too.

use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Pid;

/// Reads until this process says that all is well. At the end of input, which comes when this
/// process is gone, it ends every process that it may signal and that can get no new privileges.
/// Landlock lets it signal those of its command alone; the second condition is there in case that
/// should ever fail. What was temporary goes too.
const SCRIPT: &str = r#"
trap '' HUP INT TERM
read -r _ && exit
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
rm -rf "$1"
"#;

/// Ends what its thread starts from now on, should this process be killed.
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Starts it, from a thread in a Landlock domain that scopes signals, but not that of the
    /// command.
    pub(super) fn start(temporary: &Path) -> io::Result<Self> {
        let mut shell = Command::new("/bin/sh");
        shell
            .args(["-c", SCRIPT, "sh"])
            .arg(temporary)
            .env_clear()
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped());
        Ok(Watchdog(shell.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
    }

    /// Its own process.
    pub(super) fn pid(&self) -> Pid {
        Pid::from_child(&self.0)
    }

    /// Lets it go: the command has ended.
    pub(super) fn dismiss(mut self) {
        if let Some(mut stdin) = self.0.stdin.take() {
            let _ = stdin.write_all(b"\n"); // it cannot be gone: nobody else may signal it
        }
        let _ = self.0.wait();
    }
}
