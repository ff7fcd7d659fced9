//! Kills of processes that share a session, and checks at the end.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use loopwright_core::SessionStore;
use loopwright_core::event::InputEvent;
use loopwright_core::log::*;
use loopwright_core::message::InputId;
use loopwright_test_support::postgres::Server;
use tempfile::TempDir;
use tokio::process::{Child, Command};

use crate::case::{PROCESS_TIMEOUT, next_random};
use crate::child::open_for_append;
use crate::kills_and_seed;
use crate::poster::{Answer, ORDERS, Orders};
use crate::stores::{self, Kind};

/// The processes that share a session.
const PROCESSES: usize = 3;

/// The number of messages of a session per kill.
const MESSAGES_PER_KILL: usize = 4;

/// The maximum number of messages of all sessions.
const MAX_MESSAGES: usize = 1_000;

/// The maximum number of kills of a session.
const MAX_KILLS: usize = 50;

/// C218: three processes of one store, killed at random times, send every input to the owner and
/// through the mailbox. Each input is delivered once, and all senders get the same answer.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kills_of_processes_that_post_lose_and_repeat_nothing() {
    let (messages, seed) = kills_and_seed();
    let kills = messages.min(MAX_MESSAGES).div_ceil(MESSAGES_PER_KILL);
    let start = Instant::now();
    let (mut killed, mut inputs, mut refused) = (0, 0, 0);
    for n in 0.. {
        if killed >= kills {
            break;
        }
        let store = stores::all()[n % stores::all().len()];
        let mut group =
            Group::new(store, (kills - killed).min(MAX_KILLS), seed ^ (n as u64) << 32).await;
        killed += group.run().await;
        let answers = group.check().await.unwrap_or_else(|why| group.fail(&why));
        inputs += answers.len();
        refused += answers.values().filter(|receipt| **receipt != InputReceipt::Accepted).count();
    }
    let time = start.elapsed();
    println!("{killed} kills, {inputs} inputs, {refused} of them refused, in {time:?}");
}

/// The processes of a session.
struct Group {
    folder: TempDir,
    orders: Orders,
    store: Arc<dyn SessionStore>,
    _server: Option<Server>,
    kills: usize,
    seed: u64,
}

impl Group {
    async fn new(store: Kind, kills: usize, seed: u64) -> Self {
        let folder = TempDir::new().expect("a temporary directory");
        let directory = folder.path().join("store");
        std::fs::create_dir(&directory).expect("a directory for the store");
        let (session, record) = ("shared".to_owned(), folder.path().to_owned());
        let messages = (kills * MESSAGES_PER_KILL) as u64;
        let server = store.serve(&directory);
        let opened = store.open(&directory).await;
        let orders = Orders { store, directory, session, record, messages, seed };
        Group { folder, orders, store: opened, _server: server, kills, seed }
    }

    fn random(&mut self) -> u64 {
        next_random(&mut self.seed)
    }

    fn start(&mut self) -> Child {
        self.orders.seed = self.random();
        let mut command = Command::new(std::env::current_exe().expect("the path of this program"));
        command.args(["poster", "--exact", "--ignored", "--nocapture", "--test-threads=1"]);
        let orders = serde_json::to_string(&self.orders).expect("orders are JSON");
        command.env(ORDERS, orders).stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(open_for_append(&self.orders.record.join("stderr"))).kill_on_drop(true);
        command.spawn().expect("a process is started")
    }

    /// Kills processes and starts others until enough kills have happened, and lets the last ones
    /// finish. Returns the number of kills.
    async fn run(&mut self) -> usize {
        let mut processes: Vec<Child> = (0..PROCESSES).map(|_| self.start()).collect();
        let mut killed = 0;
        while killed < self.kills {
            tokio::time::sleep(Duration::from_millis(self.random() % 300)).await;
            let at = self.random() as usize % PROCESSES;
            processes[at].start_kill().expect("the process can be killed");
            killed += usize::from(self.wait(&mut processes[at]).await);
            processes[at] = self.start();
        }
        for process in &mut processes {
            self.wait(process).await;
        }
        killed
    }

    /// Waits for the end of a process. Returns whether it was killed. Fails if no process gets an
    /// answer for long.
    async fn wait(&self, process: &mut Child) -> bool {
        let answers = || {
            let file = std::fs::metadata(self.orders.record.join("answers"));
            file.map(|file| file.len()).unwrap_or_default()
        };
        let mut known = answers();
        let status = loop {
            match tokio::time::timeout(PROCESS_TIMEOUT, process.wait()).await {
                Ok(status) => break status.expect("the process ends"),
                Err(_) if answers() == known => self.fail("the processes hang"),
                Err(_) => known = answers(),
            }
        };
        match (status.success(), status.signal()) {
            (true, _) => false,
            (false, Some(9)) => true,
            _ => self.fail(&format!("a process failed: {status}")),
        }
    }

    fn fail(&self, why: &str) -> ! {
        let folder = self.folder.path().with_extension("failed");
        let _ = std::fs::rename(self.folder.path(), &folder);
        let stderr = std::fs::read_to_string(folder.join("stderr")).unwrap_or_default();
        panic!("{why}\nin {:?}; kept in {}\nstderr: {stderr}", self.orders.store, folder.display())
    }

    /// Checks the log, the receipts and the answers of the senders. Returns the receipts.
    async fn check(&self) -> Result<BTreeMap<InputId, InputReceipt>, String> {
        let session = &self.orders.session;
        let log = self.store.read(session, 0).await.map_err(|error| error.to_string())?;
        check_log(&log)?;
        let info = self.store.session(session).await.map_err(|error| error.to_string())?;
        if info.unread > 0 {
            return Err(format!("{} inputs were not handled", info.unread));
        }
        let text = std::fs::read_to_string(self.orders.record.join("answers"))
            .map_err(|error| error.to_string())?;
        let mut receipts = BTreeMap::new();
        for line in text.lines() {
            let Ok(Answer { input, receipt }) = serde_json::from_str(line) else {
                continue; // a killed process was writing it
            };
            let known = receipts.entry(input.clone()).or_insert_with(|| receipt.clone());
            if *known != receipt {
                return Err(format!("`{input}` was told {known:?}, and then {receipt:?}"));
            }
        }
        for n in 0..self.orders.messages {
            if !receipts.contains_key(&*format!("message-{n}")) {
                return Err(format!("message {n} has no answer"));
            }
        }
        for (input, receipt) in &receipts {
            let delivered = log.iter().filter(|entry| entry.input() == Some(input)).count();
            let expected = usize::from(*receipt == InputReceipt::Accepted);
            if delivered != expected {
                return Err(format!(
                    "`{input}` was told {receipt:?}, and is {delivered} times in the log"
                ));
            }
            let copy = PostedInput::new(input.clone(), InputEvent::ClearQueues);
            let copy = copy.map_err(|error| error.to_string())?;
            let stored = self.store.post(session, &copy).await;
            if stored.as_ref() != Ok(&Some(receipt.clone())) {
                return Err(format!("`{input}` was told {receipt:?}, and its copy {stored:?}"));
            }
        }
        Ok(receipts)
    }
}
