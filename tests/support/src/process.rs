//! A binary as a child process: in its own directory, with an environment that only says where
//! sessions are stored.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;

use crate::TEST_TIMEOUT;

/// The path of the session store in a test's directory.
pub const STORE: &str = ".kept/sessions.db";

/// The file in a test's directory with the address of a database, if that is the store.
pub const ADDRESS: &str = ".address";

/// Returns the address of the database that is the store of a test.
pub fn database(dir: &TempDir) -> Option<String> {
    std::fs::read_to_string(dir.path().join(ADDRESS)).ok()
}

/// A binary that is tested.
#[derive(Debug, Clone, Copy)]
pub struct Binary(&'static str);

/// A running binary.
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    unread: Option<ChildStdout>,
    /// The standard output.
    pub out: Output,
    /// The standard error.
    pub err: Output,
}

/// The output of a process so far.
pub struct Output {
    chunks: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    /// The end of the part that a test has waited for or read.
    seen: usize,
}

/// The exit code and the whole output of a process.
#[derive(Debug)]
pub struct Exit {
    /// The exit code, or -1 after a signal.
    pub code: i32,
    /// The standard output.
    pub out: String,
    /// The standard error.
    pub err: String,
}

/// Creates a directory with a Cargo.toml to read.
pub fn project() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"thing\"\ndescription = \"Counts sheep for engineers\"\n";
    std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    dir
}

/// A store in the directory `locked`, in use as if another process were opening a session.
pub struct LockedStore {
    _lock: File,
    /// A watch on the file of the lock, which reports when it is opened.
    opened: OwnedFd,
}

impl LockedStore {
    /// Creates the store and locks it.
    pub fn new(dir: &TempDir) -> Self {
        std::fs::create_dir(dir.path().join("locked")).unwrap();
        let path = dir.path().join("locked/.lock");
        let lock = File::create(&path).unwrap();
        lock.lock().unwrap();
        let opened = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&opened, &path, inotify::WatchFlags::OPEN).unwrap();
        LockedStore { _lock: lock, opened }
    }

    /// Waits until a process tries to lock the store.
    pub fn until_tried(&self) {
        rustix::io::read(&self.opened, &mut [0; 1024]).unwrap();
    }
}

impl Binary {
    /// Returns the binary at a path, which Cargo has in the variable `CARGO_BIN_EXE_NAME`.
    pub const fn new(path: &'static str) -> Binary {
        Binary(path)
    }

    /// Returns the path of the binary.
    pub fn path(self) -> &'static str {
        self.0
    }

    /// Runs the binary to its end. Its standard input is open and silent; `run` has none.
    pub fn run(self, dir: &TempDir, args: &[&str]) -> Exit {
        self.start(dir, args).end()
    }

    /// Starts the binary.
    pub fn start(self, dir: &TempDir, args: &[&str]) -> Process {
        self.start_with(dir, args, &[])
    }

    /// Starts the binary with these environment variables and no others.
    pub fn start_with(self, dir: &TempDir, args: &[&str], vars: &[(&str, &str)]) -> Process {
        self.start_as(dir, &[], args, vars)
    }

    /// Starts a `run` with a pipe as its standard input.
    pub fn piped(self, dir: &TempDir, args: &[&str]) -> Process {
        let mut process = self.spawn(dir, &[], args, &[], Stdio::piped());
        process.out = Output::of(process.unread.take().unwrap());
        process
    }

    /// Starts the binary as an argument of `command`, which replaces itself with it.
    pub fn start_as(
        self,
        dir: &TempDir,
        command: &[&str],
        args: &[&str],
        vars: &[(&str, &str)],
    ) -> Process {
        let mut process = self.spawn(dir, command, args, vars, input(args));
        process.out = Output::of(process.unread.take().unwrap());
        process
    }

    /// Starts the binary with a standard output that the test does not read.
    pub fn unread(self, dir: &TempDir, args: &[&str]) -> Process {
        self.spawn(dir, &[], args, &[], input(args))
    }

    fn spawn(
        self,
        dir: &TempDir,
        command: &[&str],
        args: &[&str],
        vars: &[(&str, &str)],
        stdin: Stdio,
    ) -> Process {
        let line = [command, &[self.0], args].concat();
        let mut command = Command::new(line[0]);
        command.args(&line[1..]).current_dir(dir.path()).env_clear();
        let store = database(dir).map_or_else(|| dir.path().join(STORE), PathBuf::from);
        command.env("LOOPWRIGHT_STORE", store).envs(vars.iter().copied());
        command.stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (unread, out) = (child.stdout.take(), Output::of(std::io::empty()));
        let err = Output::of(child.stderr.take().unwrap());
        Process { stdin: child.stdin.take(), unread, child, out, err }
    }
}

/// Returns the standard input: none for `run`, which would read a pipe to its end.
fn input(args: &[&str]) -> Stdio {
    if args.first() == Some(&"run") { Stdio::null() } else { Stdio::piped() }
}

impl Process {
    /// Writes a line to the standard input.
    pub fn line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Writes to the standard input. The process may have closed it already.
    pub fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stdin.as_mut().unwrap().write_all(bytes);
    }

    /// Closes the standard input.
    pub fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Presses Ctrl-C.
    pub fn interrupt(&self) {
        self.signal("-INT");
    }

    /// Sends a signal, such as `-TERM`.
    pub fn signal(&self, signal: &str) {
        let sent =
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Removes the limit on the size of the process's files.
    pub fn no_limit(&self) {
        let pid = self.child.id().to_string();
        let done =
            Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status().unwrap();
        assert!(done.success());
    }

    /// Returns the first bytes of an output that nothing else reads.
    pub fn first_bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut first = [0; N];
        self.unread.as_mut().unwrap().read_exact(&mut first).unwrap();
        first
    }

    /// Returns the id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Kills the process with `SIGKILL`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Returns whether the process runs.
    pub fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of a process whose output is not read, and returns its exit code.
    pub fn code(&mut self) -> i32 {
        let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).unwrap();
        let mut end = [PollFd::new(&process, PollFlags::IN)];
        let timeout = TEST_TIMEOUT.try_into().unwrap();
        assert_eq!(poll(&mut end, Some(&timeout)).unwrap(), 1, "it does not end");
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Closes the standard input and waits for the end.
    pub fn close(mut self) -> Exit {
        self.close_input();
        self.end()
    }

    /// Waits until the process exits.
    pub fn end(mut self) -> Exit {
        let (out, err) = (self.out.rest(), self.err.rest());
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Exit { code, out, err }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

impl Output {
    /// Reads `source` to its end in a thread.
    pub fn of(mut source: impl Read + Send + 'static) -> Output {
        let (to_test, chunks) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = source.read(&mut buffer) {
                if to_test.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Output { chunks, bytes: Vec::new(), seen: 0 }
    }

    /// Waits until `text` appears after the text of the previous wait.
    pub fn until(&mut self, text: &str) {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let unseen = &self.bytes[self.seen..];
            if let Some(at) =
                unseen.windows(text.len()).position(|window| window == text.as_bytes())
            {
                self.seen += at + text.len();
                return;
            }
            match self.chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(chunk) => self.bytes.extend(chunk),
                Err(_) => panic!(
                    "`{text}` never came; there was:\n{}",
                    String::from_utf8_lossy(&self.bytes)
                ),
            }
        }
    }

    /// Waits for more output and returns it.
    pub fn more(&mut self) -> &[u8] {
        if self.seen == self.bytes.len() {
            self.bytes.extend(self.chunks.recv_timeout(TEST_TIMEOUT).unwrap());
        }
        let from = std::mem::replace(&mut self.seen, self.bytes.len());
        &self.bytes[from..]
    }

    /// Waits for the next line and returns it.
    pub fn line(&mut self) -> String {
        let begin = self.seen;
        self.until("\n");
        String::from_utf8(self.bytes[begin..self.seen].to_vec()).unwrap()
    }

    /// Returns the text between `text` and the next space or line end.
    pub fn word_after(&mut self, text: &str) -> String {
        self.until(text);
        let begin = self.seen;
        self.until(" ");
        String::from_utf8(self.bytes[begin..self.seen].to_vec()).unwrap().trim().to_owned()
    }

    /// Returns all output so far.
    pub fn so_far(&mut self) -> String {
        self.bytes.extend(self.chunks.try_iter().flatten());
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    fn rest(&mut self) -> String {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            match self.chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(chunk) => self.bytes.extend(chunk),
                Err(RecvTimeoutError::Disconnected) => {
                    return String::from_utf8(self.bytes.clone()).unwrap();
                }
                Err(RecvTimeoutError::Timeout) => {
                    panic!("it does not end; there was:\n{}", String::from_utf8_lossy(&self.bytes))
                }
            }
        }
    }
}
