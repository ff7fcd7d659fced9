//! Processes that are stopped while they hold a lock.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdout, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::runtime::{Builder, Runtime};

use crate::child::{Kind, Work};
use crate::process::Workspace;

/// A stopped process that holds the lock for changes.
struct Stopped {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Stopped {
    fn start(workspace: &Workspace) -> Self {
        let mut command = workspace.command(Work::Lock);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        assert!(output.by_ref().lines().any(|line| line.unwrap() == "locked"));
        let stopped = Stopped { process: child, output };
        stopped.signal(Signal::STOP);
        stopped
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    /// Continues the process, which then releases the lock and ends.
    fn finish(mut self) {
        self.signal(Signal::CONT);
        self.process.stdin.take().unwrap().write_all(b"\n").unwrap();
        std::io::copy(&mut self.output, &mut std::io::sink()).unwrap();
        assert!(self.process.wait().unwrap().success());
    }
}

fn runtime() -> Runtime {
    Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap()
}

/// The waiting process names the stopped one, and can be ended meanwhile.
fn is_named_and_not_waited_for(kind: Kind) {
    let workspace = Workspace::new(kind);
    std::fs::create_dir(workspace.root().join("sessions")).unwrap();
    let waiting = runtime();
    let store = kind.open(&workspace.root()).unwrap();
    drop(waiting.block_on(store.open("a")).unwrap());
    let stopped = Stopped::start(&workspace);

    let start = Instant::now();
    let why = waiting.block_on(store.open("a")).err().unwrap().to_string();
    assert!(start.elapsed().as_secs() >= 5, "{:?}: {why}", start.elapsed());
    let id = stopped.process.id();
    assert!(why.contains(&format!("process {id} (`")) && why.contains("is stopped"), "{why}");
    assert!(why.contains("sessions") && why.contains(&format!("`kill -CONT {id}`")), "{why}");

    let ended = Instant::now();
    let wait = Duration::from_millis(100);
    let open = waiting.block_on(async { tokio::time::timeout(wait, store.open("a")).await });
    assert!(open.is_err(), "the lock is held");
    drop(store);
    drop(waiting);
    assert!(ended.elapsed() < Duration::from_secs(9), "it has waited for the lock");

    stopped.finish();
    let store = kind.open(&workspace.root()).unwrap();
    let runtime = runtime();
    assert!(runtime.block_on(store.open("a")).is_ok());
}

#[test]
fn a_stopped_process_that_locks_a_jsonl_store_is_named() {
    is_named_and_not_waited_for(Kind::Jsonl);
}

#[test]
fn a_stopped_process_that_locks_a_sqlite_store_is_named() {
    is_named_and_not_waited_for(Kind::Sqlite);
}
