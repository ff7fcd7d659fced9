//! The example `custom_memory` against a real Redis: `cargo test --test redis`. Needs the program
//! `redis-server`.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a failed check is a failed test"
)]

#[path = "../examples/custom_memory.rs"]
#[allow(dead_code, unreachable_pub, reason = "its `main` runs as a program")]
mod custom_memory;

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::process::{Child, Command, Stdio};

use custom_memory::Redis;
use loopwright_core::SessionStore;
use loopwright_core::log::{LogEntry, MemoryError};
use tempfile::TempDir;

/// A running `redis-server`, which is killed on drop.
struct Server {
    process: Child,
    url: String,
    _directory: TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill(); // the process may have ended
        let _ = self.process.wait();
    }
}

fn start_server() -> Server {
    let directory = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    command.arg("--dir").arg(directory.path()).stdout(Stdio::piped());
    let process = command.spawn().expect("redis-server is installed");
    let url = format!("redis://127.0.0.1:{port}");
    let mut server = Server { process, url, _directory: directory };
    let log = BufReader::new(server.process.stdout.take().unwrap());
    let ready = |line: &String| line.contains("Ready to accept connections");
    assert!(
        log.lines().map_while(Result::ok).any(|line| ready(&line)),
        "the server ended before it was ready"
    );
    server
}

#[test]
fn a_custom_store_passes_the_conformance_suite() {
    let server = start_server();
    let example =
        std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/custom_memory");
    let run = Command::new(example).env("REDIS_URL", &server.url).output().unwrap();
    let out = String::from_utf8_lossy(&run.stdout);
    let err = String::from_utf8_lossy(&run.stderr);
    assert!(
        run.status.success() && out.contains("The store passes the conformance suite."),
        "{out}\n{err}"
    );
}

/// An owner's key may expire while the machine sleeps. That alone does not end the ownership.
#[tokio::test]
async fn an_owner_whose_key_has_expired_continues_unless_another_one_has_appeared() {
    let server = start_server();
    let client = redis::Client::open(&*server.url).unwrap();
    let store = Redis::connect(client).await.unwrap();
    let connection = store.connection.clone();
    let expire = async || {
        let deleted: u8 =
            redis::cmd("DEL").arg("owner:s").query_async(&mut connection.clone()).await.unwrap();
        assert_eq!(deleted, 1);
    };
    let memory = store.open("s").await.unwrap();
    expire().await;
    memory.append(0, [LogEntry::Reset].into()).await.unwrap();
    assert!(
        matches!(store.open("s").await.err(), Some(MemoryError::InUse(_))),
        "the append has renewed the ownership"
    );
    expire().await;
    let successor = store.open("s").await.unwrap();
    assert_eq!(
        memory.append(1, [LogEntry::Reset].into()).await,
        Err(MemoryError::Conflict { at: 1, end: 1 })
    );
    successor.append(1, [LogEntry::Reset].into()).await.unwrap();
}

/// The ownership of a session is renewed while its memory lives.
#[tokio::test]
async fn an_idle_owner_is_renewed() {
    let server = start_server();
    let client = redis::Client::open(&*server.url).unwrap();
    let store = Redis::connect(client).await.unwrap();
    let mut connection = store.connection.clone();
    let memory = store.open("s").await.unwrap();
    let short: u8 = redis::cmd("PEXPIRE")
        .arg("owner:s")
        .arg(30_000)
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(short, 1);
    loop {
        // The renewal starts with the opening. Its task runs whenever this one waits for the
        // server.
        let left: i64 =
            redis::cmd("PTTL").arg("owner:s").query_async(&mut connection).await.unwrap();
        assert!(left > 0);
        if left > 30_000 {
            break;
        }
    }
    drop(memory);
}
