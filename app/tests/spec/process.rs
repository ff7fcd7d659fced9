//! The binary as a child process: in its own directory, with an environment that only says where
//! sessions are stored.

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::inotify;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tempfile::TempDir;

/// The time after which a waiting test fails, even on a busy machine.
pub(crate) const TEST_TIMEOUT: Duration = Duration::from_secs(120);

/// The path of the session store in a test's directory.
pub(crate) const STORE: &str = ".kept/sessions.db";

/// The file in a test's directory with the address of a database, if that is the store.
pub(crate) const ADDRESS: &str = ".address";

/// Returns the address of the database that is the store of a test.
pub(crate) fn database(dir: &TempDir) -> Option<String> {
    std::fs::read_to_string(dir.path().join(ADDRESS)).ok()
}

/// A running `loopwright`.
pub(crate) struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    unread: Option<ChildStdout>,
    pub(crate) out: Output,
    pub(crate) err: Output,
}

/// The output of a process so far.
pub(crate) struct Output {
    chunks: Receiver<Vec<u8>>,
    bytes: Vec<u8>,
    /// The end of the part that a test has waited for or read.
    seen: usize,
}

/// The exit code and the whole output of a process.
#[derive(Debug)]
pub(crate) struct Exit {
    pub(crate) code: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// Creates a directory with a Cargo.toml to read.
pub(crate) fn project() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let manifest = "[package]\nname = \"thing\"\ndescription = \"Counts sheep for engineers\"\n";
    std::fs::write(dir.path().join("Cargo.toml"), manifest).unwrap();
    dir
}

/// Runs `loopwright` to its end. Its standard input is open and silent; `run` has none.
pub(crate) fn loopwright(dir: &TempDir, args: &[&str]) -> Exit {
    Process::start(dir, args).end()
}

/// A store in the directory `locked`, in use as if another process were opening a session.
pub(crate) struct LockedStore {
    _lock: File,
    /// A watch on the file of the lock, which reports when it is opened.
    opened: OwnedFd,
}

impl LockedStore {
    pub(crate) fn new(dir: &TempDir) -> Self {
        std::fs::create_dir(dir.path().join("locked")).unwrap();
        let path = dir.path().join("locked/.lock");
        let lock = File::create(&path).unwrap();
        lock.lock().unwrap();
        let opened = inotify::init(inotify::CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&opened, &path, inotify::WatchFlags::OPEN).unwrap();
        LockedStore { _lock: lock, opened }
    }

    /// Waits until a process tries to lock the store.
    pub(crate) fn until_tried(&self) {
        rustix::io::read(&self.opened, &mut [0; 1024]).unwrap();
    }
}

impl Process {
    pub(crate) fn start(dir: &TempDir, args: &[&str]) -> Process {
        Process::start_with(dir, args, &[])
    }

    /// Starts the binary with these environment variables and no others.
    pub(crate) fn start_with(dir: &TempDir, args: &[&str], vars: &[(&str, &str)]) -> Process {
        Process::start_as(dir, &[], args, vars)
    }

    /// Starts a `run` with a pipe as its standard input.
    pub(crate) fn piped(dir: &TempDir, args: &[&str]) -> Process {
        let mut process = Process::spawn(dir, &[], args, &[], Stdio::piped());
        process.out = Output::of(process.unread.take().unwrap());
        process
    }

    /// Starts the binary as an argument of `command`, which replaces itself with it.
    pub(crate) fn start_as(
        dir: &TempDir,
        command: &[&str],
        args: &[&str],
        vars: &[(&str, &str)],
    ) -> Process {
        let mut process = Process::spawn(dir, command, args, vars, Process::input(args));
        process.out = Output::of(process.unread.take().unwrap());
        process
    }

    /// Starts the binary with a standard output that the test does not read.
    pub(crate) fn unread(dir: &TempDir, args: &[&str]) -> Process {
        Process::spawn(dir, &[], args, &[], Process::input(args))
    }

    /// Returns the standard input: none for `run`, which would read a pipe to its end.
    fn input(args: &[&str]) -> Stdio {
        if args.first() == Some(&"run") { Stdio::null() } else { Stdio::piped() }
    }

    fn spawn(
        dir: &TempDir,
        command: &[&str],
        args: &[&str],
        vars: &[(&str, &str)],
        stdin: Stdio,
    ) -> Process {
        let line = [command, &[crate::BIN], args].concat();
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

    /// Writes a line to the standard input.
    pub(crate) fn line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().unwrap();
        stdin.write_all(format!("{line}\n").as_bytes()).unwrap();
        stdin.flush().unwrap();
    }

    /// Writes to the standard input. The process may have closed it already.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let _ = self.stdin.as_mut().unwrap().write_all(bytes);
    }

    /// Closes the standard input.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Presses Ctrl-C.
    pub(crate) fn interrupt(&self) {
        self.signal("-INT");
    }

    /// Sends a signal, such as `-TERM`.
    pub(crate) fn signal(&self, signal: &str) {
        let sent =
            Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
    }

    /// Removes the limit on the size of the process's files.
    pub(crate) fn no_limit(&self) {
        let pid = self.child.id().to_string();
        let done =
            Command::new("prlimit").args(["--pid", &pid, "--fsize=unlimited:"]).status().unwrap();
        assert!(done.success());
    }

    /// Returns the first bytes of an output that nothing else reads.
    pub(crate) fn first_bytes<const N: usize>(&mut self) -> [u8; N] {
        let mut first = [0; N];
        self.unread.as_mut().unwrap().read_exact(&mut first).unwrap();
        first
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// `kill -9`.
    pub(crate) fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub(crate) fn is_alive(&mut self) -> bool {
        self.child.try_wait().unwrap().is_none()
    }

    /// Waits for the end of a process whose output is not read, and returns its exit code.
    pub(crate) fn code(&mut self) -> i32 {
        let process = pidfd_open(Pid::from_child(&self.child), PidfdFlags::empty()).unwrap();
        let mut end = [PollFd::new(&process, PollFlags::IN)];
        let timeout = TEST_TIMEOUT.try_into().unwrap();
        assert_eq!(poll(&mut end, Some(&timeout)).unwrap(), 1, "it does not end");
        self.child.wait().unwrap().code().unwrap_or(-1)
    }

    /// Closes the standard input and waits for the end.
    pub(crate) fn close(mut self) -> Exit {
        self.close_input();
        self.end()
    }

    /// Waits until the process exits.
    pub(crate) fn end(mut self) -> Exit {
        let (out, err) = (self.out.rest(), self.err.rest());
        let code = self.child.wait().unwrap().code().unwrap_or(-1);
        Exit { code, out, err }
    }

    /// Returns the path of a file in the directory `dir`.
    pub(crate) fn file(dir: &TempDir, name: &str) -> PathBuf {
        dir.path().join(name)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill(); // it may have ended
        let _ = self.child.wait();
    }
}

impl Output {
    pub(crate) fn of(mut source: impl Read + Send + 'static) -> Output {
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
    pub(crate) fn until(&mut self, text: &str) {
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
    pub(crate) fn more(&mut self) -> &[u8] {
        if self.seen == self.bytes.len() {
            self.bytes.extend(self.chunks.recv_timeout(TEST_TIMEOUT).unwrap());
        }
        let from = std::mem::replace(&mut self.seen, self.bytes.len());
        &self.bytes[from..]
    }

    /// Waits for the next line and returns it.
    pub(crate) fn line(&mut self) -> String {
        let begin = self.seen;
        self.until("\n");
        String::from_utf8(self.bytes[begin..self.seen].to_vec()).unwrap()
    }

    /// Returns the text between `text` and the next space or line end.
    pub(crate) fn word_after(&mut self, text: &str) -> String {
        self.until(text);
        let begin = self.seen;
        self.until(" ");
        String::from_utf8(self.bytes[begin..self.seen].to_vec()).unwrap().trim().to_owned()
    }

    /// Returns all output so far.
    pub(crate) fn so_far(&mut self) -> String {
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
