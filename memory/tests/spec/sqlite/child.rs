//! A process of its own that does what it is told, line by line.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;

use super::*;

const STORE: &str = "LOOPWRIGHT_SPEC_STORE";

/// The other process, from here.
pub(super) struct Other {
    process: Child,
    told: ChildStdin,
    says: BufReader<ChildStdout>,
}

impl Other {
    /// Starts it with the store at this path.
    pub(super) fn start(store: &Path) -> Self {
        // A write beyond a limit is an error for it, and not the end.
        let mut command = Command::new("sh");
        command
            .args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().unwrap());
        command
            .args(["--exact", "sqlite::child::other_process", "--ignored", "--nocapture"])
            .env(STORE, store);
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (told, says) =
            (process.stdin.take().unwrap(), BufReader::new(process.stdout.take().unwrap()));
        Other { process, told, says }
    }

    /// Tells it to do something, without waiting.
    pub(super) fn tell(&mut self, what: &str) {
        writeln!(self.told, "{what}").unwrap();
    }

    /// What it says next.
    pub(super) fn said(&mut self) -> String {
        loop {
            let mut line = String::new();
            assert!(self.says.read_line(&mut line).unwrap() > 0, "it has ended");
            if let Some((_, said)) = line.split_once("> ") {
                return said.trim_end().to_owned();
            }
        }
    }

    /// Tells it to do something, and gives what it says then.
    pub(super) fn does(&mut self, what: &str) -> String {
        self.tell(what);
        self.said()
    }

    /// Kills it as the kernel does when there is no memory left.
    pub(super) fn kill(self) {}
}

impl Drop for Other {
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
        lock: beside(Path::new(&path)),
        open: HashMap::new(),
    };
    for line in std::io::stdin().lines() {
        let line = line.unwrap();
        let words: Vec<&str> = line.split(' ').collect();
        let said = match runtime.block_on(state.act(&words)) {
            Ok(()) => "done".to_owned(),
            Err(why) => why.to_string(),
        };
        println!("> {said}");
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
                let _ = self.store.delete("nothing").await; // done after what was given before
            }
            // One by one, from this item on up to that one.
            "append" => {
                for at in number(2)..number(3) {
                    self.open[words[1]].append(at, numbered(at..at + 1).into()).await?;
                }
            }
            // An item of so many bytes.
            "append-big" => {
                self.open[words[1]]
                    .append(number(2), [said(&"x".repeat(number(3) as usize))].into())
                    .await?
            }
            "lock" => self.lock.execute_batch("BEGIN IMMEDIATE").unwrap(),
            "unlock" => self.lock.execute_batch("ROLLBACK").unwrap(),
            // No file may grow beyond this many bytes.
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
