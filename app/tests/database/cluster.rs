//! Several servers on one database.

use std::net::TcpListener;

use loopwright_test_support::http::Connection;
use loopwright_test_support::model_server::Server as Model;
use loopwright_test_support::process::Process;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::BIN;
use crate::{shared, started};

/// One of the servers.
pub(crate) struct Worker {
    pub(crate) process: Process,
    address: String,
}

pub(crate) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Worker {
    fn start(dir: &TempDir, model: &Model) -> Self {
        Self::start_with(dir, model, &["--placement", "leases"].map(str::to_owned))
    }

    pub(crate) fn start_with(dir: &TempDir, model: &Model, flags: &[String]) -> Self {
        let address = format!("127.0.0.1:{}", free_port());
        let url = format!("http://{address}");
        let own = ["serve", "--addr", &address, "--model", "custom/m", "--base-url", &model.url];
        let cluster = ["--root", ".", "--reachable-at", &url];
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let mut process = BIN.start(dir, &[&own[..], &cluster, &flags].concat());
        process.err.word_after("http://");
        Worker { process, address }
    }

    /// Waits until the worker leaves its sessions to others.
    fn until_draining(&self) {
        let status = || Some(Connection::try_get(&self.address, "/readyz")?.status);
        while status() != Some(503) {}
    }

    pub(crate) fn post(&self, path: &str, body: Value) -> Value {
        let path = format!("/api/sessions{path}");
        let answer = Connection::try_post(&self.address, &path, &body.to_string()).unwrap();
        assert!(answer.status < 300, "{answer:?}");
        serde_json::from_str(&answer.body).unwrap_or_default()
    }

    pub(crate) fn events(&self, session: &str, after: u64) -> Reader {
        let mut connection = Connection::open(&self.address);
        let path = format!("/api/sessions/{session}/events?after={after}");
        connection
            .send(format!("GET {path} HTTP/1.1\r\nHost: {}\r\n\r\n", self.address).as_bytes());
        assert_eq!(connection.head().unwrap().0, 200);
        Reader { connection, last: after }
    }
}

/// A reader of events that checks their numbers.
pub(crate) struct Reader {
    connection: Connection,
    last: u64,
}

impl Reader {
    /// Returns the next event of this type.
    pub(crate) fn until(&mut self, kind: &str) -> Value {
        loop {
            let frame = self.connection.frame().expect("the stream continues");
            let field = |name: &str| {
                frame.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
            };
            let Some(data) = field("data: ") else { continue };
            if let Some(number) = field("id: ") {
                let number: u64 = number.parse().unwrap();
                assert_eq!(number, self.last + 1, "{frame}");
                self.last = number;
            }
            let event: Value = serde_json::from_str(&data).unwrap();
            if event["type"] == kind {
                return event;
            }
        }
    }

    /// Reads deltas until they contain a text.
    pub(crate) fn until_text(&mut self, text: &str) {
        let mut seen = String::new();
        while !seen.contains(text) {
            let event = self.until("message_update");
            seen += event["delta"].as_str().unwrap_or_default();
        }
    }
}

/// Returns the number of the worker that has a session open.
fn owner(dir: &TempDir, workers: &[&Worker]) -> usize {
    loop {
        let status = BIN.run(dir, &["cluster", "status", "--json"]);
        let lines = status.out.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let owner = lines.into_iter().find(|it| it["is_alive"] == true && it["sessions"] != 0);
        if let Some(owner) = owner {
            let address = owner["address"].as_str().unwrap();
            let address = address.strip_prefix("http://").unwrap();
            return workers.iter().position(|worker| worker.address == address).unwrap();
        }
    }
}

/// C342: each of two servers streams the deltas of a session that the other has open; when its
/// owner is killed, or shuts down, the other one continues the run.
#[test]
fn servers_continue_what_others_leave_and_stream_what_others_have() {
    let (_database, dir) = started();
    let model = Model::start();
    let mut workers = vec![Worker::start(&dir, &model), Worker::start(&dir, &model)];
    let created = workers[0].post("", json!({}));
    let session = created["id"].as_str().unwrap();

    workers[1].post(&format!("/{session}/prompt"), json!({ "message": "Tell me a story." }));
    let mut readers = [workers[0].events(session, 0), workers[1].events(session, 0)];
    let mut request = model.request();
    request.begin();
    request.text("Once upon ");
    readers.iter_mut().for_each(|reader| reader.until_text("Once upon "));
    request.text("a time.");
    readers.iter_mut().for_each(|reader| reader.until_text("a time."));
    request.end("stop");
    readers.iter_mut().for_each(|reader| assert_eq!(reader.until("agent_end")["end"], "done"));

    workers[0].post(&format!("/{session}/prompt"), json!({ "message": "Another one." }));
    let mut request = model.request();
    request.begin();
    request.text("There was ");
    let killed = owner(&dir, &[&workers[0], &workers[1]]);
    let [zero, one] = readers;
    let mut reader = if killed == 0 { one } else { zero };
    reader.until_text("There was ");
    workers.remove(killed).process.kill();
    let mut repeated = model.request();
    repeated.begin();
    repeated.text("There was a meadow.");
    reader.until_text("There was a meadow.");
    repeated.end("stop");
    assert_eq!(reader.until("agent_end")["end"], "done");

    // A shutdown between two turns: the tool runs here, and the next request comes from elsewhere.
    workers.push(Worker::start(&dir, &model));
    workers[1].post(&format!("/{session}/prompt"), json!({ "message": "Look into Cargo.toml." }));
    let request = model.request();
    let left = owner(&dir, &[&workers[0], &workers[1]]);
    let mut closing = workers.remove(left);
    let mut reader = workers[0].events(session, reader.last);
    closing.process.signal("-TERM");
    closing.until_draining(); // before that, it would send the next request itself
    request.call(&[("read_file", json!({ "path": "Cargo.toml" }))]);
    let request = model.request();
    assert!(request.last().contains("sheep"), "{}", request.last());
    assert_eq!(closing.process.code(), 0);
    request.say("It counts sheep.");
    assert_eq!(reader.until("agent_end")["end"], "done");

    let status = BIN.run(&dir, &["cluster", "status"]);
    assert!(status.out.contains("alive") && status.out.contains(&workers[0].address), "{status:?}");
    assert_eq!(status.code, 0);
}

/// C342: workers of a cluster, commands and a chat: every input arrives once, while processes are
/// killed.
#[test]
fn every_input_arrives_once_through_every_worker_while_workers_are_killed() {
    let (_server, dir) = started();
    shared::check(&dir, &["--placement", "leases"]);
}

/// C342: missing settings of a cluster are reported.
#[test]
fn missing_cluster_settings_are_reported() {
    let (_server, dir) = started();
    for (args, why) in [
        (&["--reachable-at", "http://10.0.0.7:7777"][..], "give --placement too"),
        (&["--placement", "leases", "--restate-admin", "http://h"], "need --placement restate="),
        (&["--placement", "raft"], "`restate=http://localhost:8080`"),
    ] {
        let exit = BIN.run(&dir, &[&["serve", "--addr", "127.0.0.1:0"], args].concat());
        assert!(exit.code == 2 && exit.err.contains(why), "{exit:?}");
    }
    let none = BIN.run(&dir, &["cluster", "status"]);
    assert_eq!((none.code, none.out.as_str()), (1, ""), "{none:?}");
    let file = BIN.run(&dir, &["cluster", "status", "--store", "sessions.db"]);
    assert!(file.code == 2 && file.err.contains("belongs to one machine"), "{file:?}");
}

/// C342: only other servers of the cluster, which have the token, read events of this one.
#[test]
fn only_workers_read_events_of_workers() {
    let (_server, dir) = started();
    const TOKEN: &str = "a-token-of-sixteen";
    let ask = |address: &str, token: &str| {
        let mut connection = Connection::open(address);
        let path = "/cluster/events?session=none&tree=true";
        let head = format!("Host: {address}\r\nAuthorization: Bearer {token}");
        connection.send(format!("GET {path} HTTP/1.1\r\n{head}\r\n\r\n").as_bytes());
        connection.response().unwrap()
    };
    let address = format!("127.0.0.1:{}", free_port());
    let url = format!("http://{address}");
    let own = ["serve", "--model", "offline", "--token", TOKEN, "--placement", "leases", "--addr"];
    let mut worker = BIN.start(&dir, &[&own[..], &[&address, "--reachable-at", &url]].concat());
    worker.err.word_after("http://");
    assert_eq!(ask(&address, "another-token-of-16").status, 401);
    let missing = ask(&address, TOKEN);
    assert!(missing.status == 404 && missing.body.contains("not open here"), "{missing:?}");
    worker.kill();

    let mut alone = BIN.start(&dir, &[&own[..], &["127.0.0.1:0"]].concat());
    let address = alone.err.word_after("http://");
    let closed = ask(&address, "another-token-of-16");
    assert!(closed.status == 404 && closed.body.contains("nothing at this address"), "{closed:?}");
}
