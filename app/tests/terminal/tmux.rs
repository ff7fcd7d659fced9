//! A terminal: tmux with a shell in it, its keys, and its screen.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use tempfile::TempDir;

use crate::process::{PATIENCE, STORE};

/// A terminal with a shell in the test's directory.
pub(crate) struct Terminal {
    socket: PathBuf,
    /// Tells whenever something is written to the terminal.
    watcher: Child,
    written: Receiver<()>,
}

/// What a person sees.
#[derive(Clone)]
pub(crate) struct Screen {
    pub(crate) lines: Vec<String>,
}

impl Terminal {
    /// One of this size. The shell knows the binary as `loopwright`, and nothing of the machine it
    /// runs on.
    pub(crate) fn new(dir: &TempDir, columns: u16, rows: u16, vars: &[(&str, &str)]) -> Terminal {
        let bin = PathBuf::from(env!("CARGO_BIN_EXE_loopwright"));
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

    /// Runs tmux, and gives what it says.
    pub(crate) fn tmux(&self, args: &[&str]) -> String {
        let done = Command::new("tmux").arg("-S").arg(&self.socket).args(args).output().unwrap();
        assert!(done.status.success(), "tmux {args:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    }

    /// Types text as it stands.
    pub(crate) fn text(&self, text: &str) {
        self.tmux(&["send-keys", "-l", "--", text]);
    }

    /// Presses keys, by tmux's names: `Enter`, `M-Enter`, `C-c`, `Escape`.
    pub(crate) fn keys(&self, keys: &[&str]) {
        self.tmux(&[&["send-keys"], keys].concat());
    }

    /// Types a line and ends it.
    pub(crate) fn line(&self, text: &str) {
        self.text(text);
        self.keys(&["Enter"]);
    }

    /// What is seen now.
    pub(crate) fn screen(&self) -> Screen {
        let text = self.tmux(&["capture-pane", "-p"]);
        Screen { lines: text.lines().map(|line| line.trim_end().to_owned()).collect() }
    }

    /// What is seen now, with colours, as escape sequences.
    pub(crate) fn coloured(&self) -> String {
        self.tmux(&["capture-pane", "-p", "-e"])
    }

    /// Waits until the text is seen.
    pub(crate) fn until(&self, text: &str) -> Screen {
        self.when(&format!("`{text}` is seen"), |screen| screen.shows(text))
    }

    /// Waits until the screen is as the test wants it.
    pub(crate) fn when(&self, what: &str, wanted: impl Fn(&Screen) -> bool) -> Screen {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let screen = self.screen();
            if wanted(&screen) {
                return screen;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            // The shell and tmux itself may change the screen without a word to the watcher.
            let _ = self.written.recv_timeout(left.min(Duration::from_millis(200)));
            assert!(!left.is_zero(), "it never came to pass that {what}");
        }
    }

    /// Waits until the chat has ended, and gives the command that goes on with it.
    pub(crate) fn left(&self) -> String {
        let text = self.until("goes on with this conversation").lines.concat();
        text.rsplit("goes on with").nth(1).unwrap().rsplit('`').nth(1).unwrap().to_owned()
    }

    /// The process that runs in the shell.
    pub(crate) fn running(&self) -> String {
        let shell = self.tmux(&["display-message", "-p", "#{pane_pid}"]);
        let children = Command::new("pgrep").args(["-P", shell.trim()]).output().unwrap();
        String::from_utf8(children.stdout).unwrap().trim().to_owned()
    }

    /// Sends a signal to the process that runs in the shell.
    pub(crate) fn signal(&self, signal: &str) {
        assert!(Command::new("kill").args([signal, &self.running()]).status().unwrap().success());
    }

    /// The shell has its terminal back as it was: no other screen, echo, lines, a cursor.
    pub(crate) fn assert_usable(&self) {
        self.when("the shell's own screen is back", |_| self.flag("alternate_on") == "0");
        self.line("stty -a | tr ' ;' '\\n' | grep -xE 'icanon|echo|isig|icrnl|opost' | sort | paste -sd, | sed 's/^/it has /'");
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
            eprintln!("What was seen last:\n{}", self.screen());
        }
        let _ = Command::new("tmux").arg("-S").arg(&self.socket).arg("kill-server").status(); // it may have ended
        let _ = self.watcher.kill();
        let _ = self.watcher.wait();
    }
}

impl Screen {
    pub(crate) fn shows(&self, text: &str) -> bool {
        self.lines.iter().any(|line| line.contains(text))
    }
}

impl std::fmt::Display for Screen {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "│{line}"))
    }
}
