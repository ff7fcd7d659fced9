//! Another process that runs commands, one for each line of its input.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use super::*;

const STORE: &str = "LOOPWRIGHT_SPEC_STORE";

/// A handle to the other process.
pub(super) struct OtherProcess {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl OtherProcess {
    /// Starts the process with the store at this path.
    pub(super) fn start(store: &Path) -> Self {
        // A write beyond the size limit must return an error instead of killing the process.
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap());
        command
            .args(["--exact", "sqlite::other_process::other_process", "--ignored", "--nocapture"])
            .env(STORE, store);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        OtherProcess { process, input, output }
    }

    /// Sends a command without waiting for its result.
    pub(super) fn send(&mut self, command: &str) {
        writeln!(self.input, "{command}").unwrap();
    }

    /// Waits for the result of the next command: `done` or an error.
    pub(super) fn result(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the process has ended");
            if let Some((_, result)) = line.split_once("> ") {
                return result.trim_end().to_owned();
            }
        }
    }

    /// Runs a command and returns its result.
    pub(super) fn run(&mut self, command: &str) -> String {
        self.send(command);
        self.result()
    }

    /// Kills the process, as the kernel does when memory runs out.
    pub(super) fn kill(self) {}
}

impl Drop for OtherProcess {
    fn drop(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }
}

#[test]
#[ignore = "other tests start it"]
fn other_process() {
    let Some(path) = std::env::var_os(STORE) else {
        return;
    };
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    let mut state = State {
        store: Sqlite::open(&path).unwrap(),
        lock: raw_connection(Path::new(&path)),
        open: HashMap::new(),
    };
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let result = match runtime.block_on(state.act(&words)) {
            Ok(()) => "done".to_owned(),
            Err(why) => why.to_string(),
        };
        println!("> {result}");
    }
}

struct State {
    store: Sqlite,
    lock: Connection,
    open: HashMap<String, Arc<dyn Memory>>,
}

impl State {
    async fn act(&mut self, words: &[&str]) -> Result<(), MemoryError> {
        let number = |n: usize| words[n].parse::<u64>().unwrap();
        match words[0] {
            "open" => {
                let memory = self.store.open(words[1]).await?;
                self.open.insert(words[1].into(), memory);
            }
            "close" => {
                drop(self.open.remove(words[1]));
                let _ = self.store.delete("nothing").await; // performed after the release
            }
            // Appends entries one by one: from, to.
            "append" => {
                for at in number(2)..number(3) {
                    self.open[words[1]].append(at, numbered(at..at + 1).into()).await?;
                }
            }
            // Appends one entry: at, size in bytes.
            "append-big" => {
                self.open[words[1]]
                    .append(number(2), [remembered(&"x".repeat(number(3) as usize))].into())
                    .await?
            }
            "lock" => self.lock.execute_batch("BEGIN IMMEDIATE").unwrap(),
            "unlock" => self.lock.execute_batch("ROLLBACK").unwrap(),
            // Limits the size of files, in bytes.
            "limit" => {
                use rustix::process::{Resource, getrlimit, setrlimit};
                let mut limit = getrlimit(Resource::Fsize);
                limit.current = words.get(1).map(|_| number(1)).or(limit.maximum);
                setrlimit(Resource::Fsize, limit).unwrap();
            }
            other => panic!("`{other}` is not understood"),
        }
        Ok(())
    }
}
