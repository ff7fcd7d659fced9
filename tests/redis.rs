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

struct Server(
    Child,
    String,
    #[expect(dead_code, reason = "kept as long as the server lives")] tempfile::TempDir,
);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill(); // it may have ended
        let _ = self.0.wait();
    }
}

fn server() -> Server {
    let directory = tempfile::tempdir().unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let mut command = Command::new("redis-server");
    command.args(["--port", &port, "--save", "", "--appendonly", "yes", "--appendfsync", "always"]);
    command.arg("--dir").arg(directory.path()).stdout(Stdio::piped());
    let child = command.spawn().expect("redis-server is installed");
    let mut server = Server(child, format!("redis://127.0.0.1:{port}"), directory);
    let log = BufReader::new(server.0.stdout.take().unwrap());
    let ready = |line: &String| line.contains("Ready to accept connections");
    assert!(
        log.lines().map_while(Result::ok).any(|line| ready(&line)),
        "the server ended before it was ready"
    );
    server
}

#[test]
fn a_store_of_ones_own_passes_the_conformance_suite() {
    let server = server();
    let example =
        std::env::current_exe().unwrap().ancestors().nth(2).unwrap().join("examples/custom_memory");
    let run = Command::new(example).env("REDIS_URL", &server.1).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&run.stdout), String::from_utf8_lossy(&run.stderr));
    assert!(
        run.status.success() && out.contains("The conformance suite is passed."),
        "{out}\n{err}"
    );
}

/// Its key may expire while the machine sleeps; that alone takes the session from nobody.
#[tokio::test]
async fn an_owner_whose_key_has_expired_goes_on_unless_another_one_has_come() {
    let server = server();
    let client = redis::Client::open(&*server.1).unwrap();
    let connection = client.get_multiplexed_async_connection().await.unwrap();
    let store = Redis(client, connection.clone());
    let expire = async || {
        let gone: u8 =
            redis::cmd("DEL").arg("owner:s").query_async(&mut connection.clone()).await.unwrap();
        assert_eq!(gone, 1);
    };
    let memory = store.open("s").await.unwrap();
    expire().await;
    memory.append(0, [LogEntry::Reset].into()).await.unwrap();
    assert!(
        matches!(store.open("s").await.err(), Some(MemoryError::InUse(_))),
        "the append has made it the owner again"
    );
    expire().await;
    let heir = store.open("s").await.unwrap();
    assert_eq!(
        memory.append(1, [LogEntry::Reset].into()).await,
        Err(MemoryError::Conflict { at: 1, end: 1 })
    );
    heir.append(1, [LogEntry::Reset].into()).await.unwrap();
}

/// While its memory lives, a session is renewed.
#[tokio::test]
async fn an_owner_that_does_nothing_is_renewed() {
    let server = server();
    let client = redis::Client::open(&*server.1).unwrap();
    let mut connection = client.get_multiplexed_async_connection().await.unwrap();
    let store = Redis(client, connection.clone());
    let memory = store.open("s").await.unwrap();
    let short: u8 = redis::cmd("PEXPIRE")
        .arg("owner:s")
        .arg(30_000)
        .query_async(&mut connection)
        .await
        .unwrap();
    assert_eq!(short, 1);
    loop {
        // The renewal begins with the opening, and its task goes on whenever this one waits for the
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
