//! `loopwright` in a terminal that this program provides, with the times of its output.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// The end of each frame: the end of a synchronised update.
const FRAME: &[u8] = b"\x1b[?2026l";
/// Time limit after which the bench gives up.
const WAIT_TIMEOUT: Duration = Duration::from_secs(60);

/// A `loopwright` process in a terminal.
pub(crate) struct Terminal {
    child: Child,
    keyboard: File,
    written: Receiver<(Instant, Vec<u8>)>,
    /// Output that has not been searched yet.
    bytes: Vec<u8>,
    pub(crate) started: Instant,
    /// The number of frames drawn.
    pub(crate) frames: u64,
    /// The number of bytes written.
    pub(crate) size: u64,
}

impl Terminal {
    /// Starts the process in a directory, with nothing of this environment.
    pub(crate) fn start(dir: &Path, args: &[&str]) -> Terminal {
        let near = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&near).unwrap();
        unlockpt(&near).unwrap();
        let name = ptsname(&near, Vec::new()).unwrap();
        tcsetwinsize(&near, Winsize { ws_row: 50, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 })
            .unwrap();
        let path = Path::new(std::ffi::OsStr::from_bytes(name.as_bytes()));
        let far = || Stdio::from(File::options().read(true).write(true).open(path).unwrap());
        let mut command = Command::new("setsid");
        command
            .arg("--ctty")
            .arg(env!("CARGO_BIN_EXE_loopwright"))
            .args(args)
            .current_dir(dir)
            .env_clear();
        command
            .env("HOME", dir)
            .env("TERM", "xterm-256color")
            .env("LOOPWRIGHT_STORE", dir.join("sessions.db"));
        command.stdin(far()).stdout(far()).stderr(far());
        let keyboard = File::from(near);
        let (mut screen, (to_bench, written)) = (keyboard.try_clone().unwrap(), channel());
        let started = Instant::now();
        let child = command.spawn().unwrap();
        std::thread::spawn(move || {
            let mut buffer = [0; 1 << 16];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                if to_bench.send((Instant::now(), buffer[..count].to_vec())).is_err() {
                    return;
                }
            }
        });
        Terminal { child, keyboard, written, bytes: Vec::new(), started, frames: 0, size: 0 }
    }

    /// Presses keys, and returns the time.
    pub(crate) fn press(&mut self, keys: &str) -> Instant {
        let now = Instant::now();
        self.keyboard.write_all(keys.as_bytes()).unwrap();
        now
    }

    /// Waits until a text is written after the previous match, and returns the time.
    pub(crate) fn until(&mut self, wanted: &str) -> Instant {
        let came = self.wait(&[wanted], WAIT_TIMEOUT);
        came.unwrap_or_else(|| {
            panic!(
                "`{wanted}` was not written in time; the output was: {}",
                String::from_utf8_lossy(&self.bytes)
            )
        })
        .1
    }

    /// Waits up to `time` until one of the texts is written. Returns its index and the time.
    pub(crate) fn wait(&mut self, wanted: &[&str], time: Duration) -> Option<(usize, Instant)> {
        let deadline = Instant::now() + time;
        loop {
            let (time, bytes) = self
                .written
                .recv_timeout(deadline.saturating_duration_since(Instant::now()))
                .ok()?;
            self.take(&bytes);
            let ends = wanted
                .iter()
                .map(|wanted| find(&self.bytes, wanted.as_bytes()).map(|at| at + wanted.len()));
            if let Some((which, end)) =
                ends.enumerate().find_map(|(which, end)| Some((which, end?)))
            {
                self.bytes.drain(..end);
                return Some((which, time));
            }
        }
    }

    /// Waits until a frame is drawn, and returns the time.
    pub(crate) fn until_frame(&mut self) -> Instant {
        self.until(std::str::from_utf8(FRAME).unwrap())
    }

    /// Reads output for this time.
    pub(crate) fn watch(&mut self, time: Duration) {
        let _ = self.wait(&[], time);
    }

    fn take(&mut self, bytes: &[u8]) {
        let before = self.bytes.len();
        self.bytes.extend(bytes);
        self.size += bytes.len() as u64;
        // The end of a frame may have started in the previous chunk.
        let begin = before.saturating_sub(FRAME.len() - 1);
        self.frames +=
            self.bytes[begin..].windows(FRAME.len()).filter(|window| *window == FRAME).count()
                as u64;
        // Searched output is dropped, except for what may be the beginning of a match.
        let retained = 64;
        if self.bytes.len() > 1 << 20 {
            self.bytes.drain(..self.bytes.len() - retained);
        }
    }

    /// Returns the CPU time used, in seconds.
    pub(crate) fn cpu(&self) -> f64 {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        // After the name: the state is the third field, user and system time the 14th and 15th.
        let fields: Vec<&str> = stat.rsplit_once(')').unwrap().1.split_whitespace().collect();
        let ticks: u64 = fields[11..13].iter().map(|ticks| ticks.parse::<u64>().unwrap()).sum();
        ticks as f64 / rustix::param::clock_ticks_per_second() as f64
    }

    /// Returns the peak RAM, in MiB.
    pub(crate) fn peak_mib(&self) -> f64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        peak.split_whitespace().next().unwrap().parse::<f64>().unwrap() / 1024.0
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have exited
        let _ = self.child.wait();
    }
}

fn find(bytes: &[u8], wanted: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}
