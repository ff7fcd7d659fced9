//! The measured processes, and the kernel's figures about them.

use std::io::{BufRead, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Stdio};

/// The file of the sessions, in a server's directory.
pub(crate) const STORE: &str = "sessions.db";

/// A serving process, which is killed on drop.
pub(crate) struct Process {
    child: Child,
    pub(crate) address: SocketAddr,
    /// Kept open, so that the process can always write to it.
    _err: Option<BufReader<ChildStderr>>,
}

impl Process {
    /// Starts this program as the mock.
    pub(crate) fn mock() -> Process {
        Process::start(&["mock"])
    }

    /// Starts this program as a [reference](crate::reference) of this kind, over the mock.
    pub(crate) fn reference(kind: &str, mock: &Process) -> Process {
        Process::start(&[kind, &mock.address.to_string()])
    }

    fn start(args: &[&str]) -> Process {
        let mut command = Command::new(std::env::current_exe().unwrap());
        let mut child =
            command.args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        Process { child, address: line.trim().parse().unwrap(), _err: None }
    }

    /// Starts `loopwright serve` for directories below `dir`, with an empty environment, and with
    /// the mock as the model of its sessions.
    pub(crate) fn server(dir: &Path, mock: &Process) -> Process {
        let mut command = Command::new(env!("CARGO_BIN_EXE_loopwright"));
        command.args(["serve", "--addr", "127.0.0.1:0", "--model", "custom/mock", "--base-url"]);
        command.arg(format!("http://{}/v1", mock.address));
        command.args(["--max-runs", "4096", "--max-connections", "16384", "--root"]);
        command.arg(dir).arg("--store").arg(dir.join(STORE)).env_clear().current_dir(dir);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (mut err, mut line) = (BufReader::new(child.stderr.take().unwrap()), String::new());
        err.read_line(&mut line).unwrap();
        let address = line.split("http://").nth(1).and_then(|rest| rest.split(' ').next());
        let address = address.unwrap_or_else(|| panic!("the server does not serve: {line}"));
        Process { address: address.parse().unwrap(), child, _err: Some(err) }
    }

    pub(crate) fn cpu(&self) -> f64 {
        cpu(&self.child.id().to_string())
    }

    /// Returns the resident memory.
    pub(crate) fn rss_kib(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let rss = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        rss.split_whitespace().next().unwrap().parse().unwrap()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the CPU seconds of a process, given by its id or `self`.
pub(crate) fn cpu(process: &str) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    // After the name: the state is the third field, user and system time the 14th and 15th.
    let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
    let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
    ticks as f64 / rustix::param::clock_ticks_per_second() as f64
}
