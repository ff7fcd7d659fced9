//! The processes that share the session.

use loopwright_test_support::process::Process;
use tempfile::TempDir;

use crate::BIN;

pub(super) struct Server {
    process: Process,
    pub(super) address: String,
}

impl Server {
    pub(super) fn start(dir: &TempDir, flags: &[&str]) -> Server {
        let args = ["serve", "--addr", "127.0.0.1:0", "--model", "offline", "--root", "."];
        let mut process = BIN.start(dir, &[&args, flags].concat());
        let address = process.err.word_after("http://");
        Server { process, address }
    }

    pub(super) fn kill(self) {
        self.process.kill();
    }
}

/// A line chat in the session.
pub(super) struct Chat {
    process: Process,
    session: String,
    lines: Lines,
    /// The lines before the last start.
    lines_before: usize,
}

/// The lines typed in the chat.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// Each text, and whether the chat was killed after it was typed.
    pub(super) all: Vec<(String, bool)>,
    /// The number of refused inputs of the last chat.
    pub(super) refused: usize,
}

impl Chat {
    pub(super) fn start(dir: &TempDir, session: &str) -> Chat {
        let process = start(dir, session);
        Chat { process, session: session.into(), lines: Lines::default(), lines_before: 0 }
    }

    /// Types a message, which waits its turn, and sometimes a word that approves a call if one
    /// waits. Without a waiting call, the word is a message too.
    pub(super) fn say(&mut self) {
        assert!(self.process.is_alive(), "the chat has left: {}", self.process.err.so_far());
        if self.lines.all.len().is_multiple_of(3) {
            self.process.line("y");
        }
        let text = format!("line {}", self.lines.all.len());
        self.process.line(&format!("/later {text}"));
        self.lines.all.push((text, false));
    }

    /// Kills the chat and starts another one.
    pub(super) fn restart(&mut self, dir: &TempDir) {
        let new = start(dir, &self.session);
        std::mem::replace(&mut self.process, new).kill();
        for (_, was_killed) in &mut self.lines.all[self.lines_before..] {
            *was_killed = true;
        }
        self.lines_before = self.lines.all.len();
    }

    /// Ends the input of the chat, and waits until it leaves.
    pub(super) fn end(mut self) -> Lines {
        let exit = self.process.close();
        assert!([0, 130].contains(&exit.code), "{exit:?}");
        self.lines.refused = exit.err.matches("This was not accepted").count();
        self.lines.refused += exit.err.matches("Your last input was refused").count();
        self.lines
    }
}

fn start(dir: &TempDir, session: &str) -> Process {
    let mut process = BIN.start(dir, &["chat", "--session", session, "--model", "offline"]);
    process.err.until("The conversation has");
    process
}
