//! A terminal for tests: tmux with a shell, its keys, and its screen.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::TEST_TIMEOUT;
use crate::process::{Binary, STORE};

/// A terminal with a shell in the test's directory.
pub struct Terminal {
    socket: PathBuf,
    /// The process that reports every write to the terminal.
    watcher: Child,
    written: Receiver<()>,
}

/// The text on the screen.
#[derive(Clone)]
pub struct Screen {
    /// The lines, without trailing spaces.
    pub lines: Vec<String>,
}

impl Terminal {
    /// Starts a terminal of this size. The shell finds the binary by its name and inherits
    /// nothing from the machine's environment.
    pub fn new(
        binary: Binary,
        dir: &TempDir,
        columns: u16,
        rows: u16,
        vars: &[(&str, &str)],
    ) -> Terminal {
        let bin = PathBuf::from(binary.path());
        let path = format!("{}:/usr/local/bin:/usr/bin:/bin", bin.parent().unwrap().display());
        let socket = dir.path().join(".tmux");
        let (columns, rows) = (columns.to_string(), rows.to_string());
        let mut command = Command::new("tmux");
        command.arg("-S").arg(&socket).args([
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            &columns,
            "-y",
            &rows,
        ]);
        command.args(["bash", "--noprofile", "--norc"]).current_dir(dir.path()).env_clear();
        command
            .env("PATH", path)
            .env("HOME", dir.path())
            .env("LANG", "C.UTF-8")
            .env("PS1", "shell$ ");
        command.env("LOOPWRIGHT_STORE", dir.path().join(STORE)).envs(vars.iter().copied());
        assert!(command.status().expect("tmux starts; is it installed?").success());
        let mut watcher = Command::new("tmux");
        watcher.arg("-S").arg(&socket).args(["-C", "attach", "-f", "ignore-size,read-only"]);
        let mut watcher = watcher.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (to_test, written) = channel();
        let lines = BufReader::new(watcher.stdout.take().unwrap());
        std::thread::spawn(move || {
            lines.split(b'\n').map_while(Result::ok).try_for_each(|_| to_test.send(()))
        });
        let terminal = Terminal { socket, watcher, written };
        terminal.until("shell$");
        terminal
    }

    /// Runs a tmux command and returns its output.
    pub fn tmux(&self, args: &[&str]) -> String {
        let done = Command::new("tmux").arg("-S").arg(&self.socket).args(args).output().unwrap();
        assert!(done.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Types text literally.
    pub fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses keys by their tmux names: `Enter`, `M-Enter`, `C-c`, `Escape`.
    pub fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line and presses Enter.
    pub fn line(&self, text: &str) {
        self.text(text);
        self.keys(&["Enter"]);
    }

    /// Returns the screen.
    pub fn screen(&self) -> Screen {
        let text = self.tmux(&["capture-pane", "-p"]);
        Screen { lines: text.lines().map(|line| line.trim_end().to_owned()).collect() }
    }

    /// Returns the screen with colours as escape sequences.
    pub fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the text is on the screen.
    pub fn until(&self, text: &str) -> Screen {
        self.when(&format!("`{text}` is seen"), |screen| screen.shows(text))
    }

    /// Waits until the screen meets a condition.
    pub fn when(&self, what: &str, wanted: impl Fn(&Screen) -> bool) -> Screen {
        let deadline = Instant::now() + TEST_TIMEOUT;
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // The shell and tmux itself can change the screen without a report.
            let _ = self.written.recv_timeout(left.min(Duration::from_millis(200)));
            assert!(!left.is_zero(), "timed out waiting until {what}");
        }
    }

    /// Waits until the chat has exited and returns the command that resumes it.
    pub fn resume_command(&self) -> String {
        let text = self.until("resumes this conversation").lines.concat();
        text.rsplit("resumes this").nth(1).unwrap().rsplit('`').nth(1).unwrap().to_owned()
    }

    /// Returns the id of the process that runs in the shell.
    pub fn running(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = Command::new("pgrep").args(["-P", shell.trim()]).output().unwrap();
        String::from_utf8(children.stdout).unwrap().trim().to_owned()
    }

    /// Sends a signal to the process that runs in the shell.
    pub fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.running()]).status().unwrap().success());
    }

    /// Asserts that the shell has its terminal back: main screen, echo, line mode, cursor.
    pub fn assert_usable(&self) {
        self.when("the shell's own screen is back", |_| self.flag("alternate_on") == "0");
        self.line(
            "stty -a | tr ' ;' '\\n' | grep -xE 'icanon|echo|isig|icrnl|opost' | sort \
             | paste -sd, | sed 's/^/it has /'",
        );
        self.until("it has echo,icanon,icrnl,isig,opost");
        for (flag, wanted) in [("cursor_flag", "1"), ("mouse_any_flag", "0"), ("keypad_flag", "0")]
        {
            assert_eq!(self.flag(flag), wanted, "{flag}\n{}", self.screen());
        }
    }

    fn flag(&self, name: &str) -> String {
        self.tmux(&["display-message", "-p", &format!("#{{{name}}}")]).trim().to_owned()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("The last screen:\n{}", self.screen());
        }
        // The server may have ended already.
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").status();
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}

impl Screen {
    /// Returns whether a line contains this text.
    pub fn shows(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }
}

impl std::fmt::Display for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "│{line}"))
    }
}
