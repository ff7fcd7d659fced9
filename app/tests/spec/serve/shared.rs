//! Two servers and commands on one file: every input is sent through every process, while servers
//! are killed.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, SessionInfo};
use loopwright_memory::Sqlite;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::http::Connection;
use crate::process::{Process, STORE, loopwright, project};

/// The threads that send inputs.
const SENDERS: u64 = 4;

/// After how many answers a server is killed.
const ANSWERS_PER_KILL: u64 = 8;

/// How long all of the inputs may take, each.
const INPUT_TIMEOUT: Duration = Duration::from_secs(3);

struct Server {
    process: Process,
    address: String,
}

impl Server {
    fn start(dir: &TempDir) -> Server {
        let args = ["serve", "--addr", "127.0.0.1:0", "--model", "offline", "--root", "."];
        let mut process = Process::start(dir, &args);
        let address = process.err.word_after("http://");
        Server { process, address }
    }
}

/// What the senders share.
struct Shared {
    session: String,
    addresses: Mutex<[String; 2]>,
    next: AtomicU64,
    inputs: u64,
    deadline: Instant,
}

impl Shared {
    /// Sends inputs until there are none left. Each is sent to one server, and then, after its
    /// answer, to the other one, which must answer the same.
    fn send_all(&self, answers: &Sender<(String, bool)>) {
        loop {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            if n >= self.inputs {
                return;
            }
            let path = ["prompt", "steer", "follow-up"][(n % 3) as usize];
            let path = format!("/api/sessions/{}/{path}", self.session);
            let id = format!("message-{n}");
            let body = json!({ "message": format!("message {n}"), "id": id }).to_string();
            let first = self.send(n % 2, &path, &body);
            let second = self.send((n + 1) % 2, &path, &body);
            assert_eq!(first, second, "{id}");
            answers.send((id, first)).unwrap();
        }
    }

    /// Sends an input to a server until it has an answer. Returns whether it was accepted.
    fn send(&self, server: u64, path: &str, body: &str) -> bool {
        loop {
            assert!(Instant::now() < self.deadline, "{body} has no answer");
            let address = self.addresses.lock().unwrap()[server as usize].clone();
            match Connection::try_post(&address, path, body) {
                Some(response) if response.status == 202 => return true,
                Some(response) if response.body.contains("wait already") => return false,
                Some(response) if [503, 504].contains(&response.status) => {}
                Some(response) => panic!("{body}: {response:?}"),
                None => thread::park_timeout(Duration::from_millis(20)), // it is being restarted
            }
        }
    }
}

/// C224: two servers and commands on one SQLite file: every input is sent through both servers, and
/// every tenth of them through a command, while servers are killed. Each arrives exactly once, and
/// both servers answer the same. `LOOPWRIGHT_INPUTS` sets the number of inputs (100 by default).
#[test]
fn every_input_arrives_once_through_every_process_while_servers_are_killed() {
    let inputs = std::env::var("LOOPWRIGHT_INPUTS").map_or(100, |text| text.parse().unwrap());
    let dir = project();
    let mut servers = [Server::start(&dir), Server::start(&dir)];
    let created = Connection::try_post(&servers[0].address, "/api/sessions", "{}").unwrap();
    let created: Value = serde_json::from_str(&created.body).unwrap();
    let session = created["id"].as_str().unwrap().to_owned();
    let shared = Shared {
        session: session.clone(),
        addresses: Mutex::new([servers[0].address.clone(), servers[1].address.clone()]),
        next: AtomicU64::new(0),
        inputs,
        deadline: Instant::now() + INPUT_TIMEOUT * inputs as u32,
    };
    let (sender, answers): (_, Receiver<(String, bool)>) = channel();
    let mut receipts = BTreeMap::new();
    let mut commands = 0;
    thread::scope(|scope| {
        for _ in 0..SENDERS {
            let (shared, sender) = (&shared, sender.clone());
            scope.spawn(move || shared.send_all(&sender));
        }
        drop(sender);
        while let Ok((id, is_accepted)) = answers.recv() {
            receipts.insert(id, is_accepted);
            let count = receipts.len() as u64;
            if count.is_multiple_of(10) {
                let prompt = format!("command {commands}");
                let ran = loopwright(&dir, &["run", "-q", "--session", &session, &prompt]);
                assert!([0, 5].contains(&ran.code), "{ran:?}"); // 5: a server was killed
                commands += 1;
            }
            if count.is_multiple_of(ANSWERS_PER_KILL) {
                let at = (count / ANSWERS_PER_KILL % 2) as usize;
                let new = Server::start(&dir);
                shared.addresses.lock().unwrap()[at] = new.address.clone();
                std::mem::replace(&mut servers[at], new).process.kill();
            }
        }
    });
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let (log, info): (Vec<LogEntry>, SessionInfo) = runtime.block_on(async {
        let store = Sqlite::open(Process::file(&dir, STORE)).unwrap();
        (store.read(&session, 0).await.unwrap(), store.session(&session).await.unwrap())
    });
    assert_eq!((receipts.len() as u64, info.unread), (inputs, 0));
    let times = |id: &str| {
        let ids = log.iter().filter_map(|entry| entry.input());
        ids.filter(|input| ***input == *id).count()
    };
    for (id, is_accepted) in &receipts {
        assert_eq!(times(id), usize::from(*is_accepted), "{id}");
    }
    let refused = receipts.values().filter(|is_accepted| !**is_accepted).count();
    println!("{inputs} inputs, {refused} of them refused, and {commands} commands");
    for n in 0..commands {
        let text = format!("command {n}");
        let sent = log.iter().filter(|entry| match entry {
            LogEntry::Queued { message, .. } => message.text() == text,
            _ => false,
        });
        assert_eq!(sent.count(), 1, "{text}");
    }
    servers.into_iter().for_each(|server| server.process.kill());
}
