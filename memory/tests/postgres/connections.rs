//! Connections that break: servers that are killed, restarted and cut off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use loopwright_core::event::InputEvent;
use loopwright_core::log::{MemoryError, PostedInput};
use loopwright_core::{Memory, SessionStore};
use loopwright_memory::{Durability, Postgres};
use loopwright_test_support::postgres::Server;
use tokio::task::JoinSet;

use crate::kit::{TIMEOUT, begin, connect, numbered, open_when_free, raw, until_one_waits};

/// C334: while the server is killed and restarted, every append that waited for its disk is written
/// once, in order, and the sessions stay open. Other sessions can lose their last appends; then the
/// sessions are lost too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_survive_kills_of_the_server() {
    for durability in [Durability::Every, Durability::Effects] {
        let server = Server::start();
        let store = connect(&server, "loopwright").await.durability(durability);
        let is_over = Arc::new(AtomicBool::new(false));
        let mut writers = JoinSet::new();
        for n in 0..8 {
            writers.spawn(write(store.clone(), format!("s{n}"), is_over.clone()));
        }
        for _ in 0..4 {
            let written = || store.read("s0", 0);
            let before = written().await.map_or(0, |log| log.len());
            while written().await.map_or(0, |log| log.len()) < before + 3 {
                tokio::task::yield_now().await;
            }
            server.stop("immediate");
            server.run();
            store.sessions().await.unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        while let Some(written) = writers.join_next().await {
            let (session, end, losses) = written.unwrap();
            let log = match store.read(&session, 0).await {
                Err(MemoryError::NoSession(_)) => Vec::new(), // all were lost
                read => read.unwrap(),
            };
            let expected: Vec<_> = (0..end).map(numbered).collect();
            assert!(log == expected, "{session} does not have {end} entries in order: {log:?}");
            assert!(losses == 0 || durability == Durability::Effects, "{session} was lost");
        }
    }
}

/// Appends entries until `is_over`, and reopens the session if it is lost. Returns the session's
/// name, its number of entries, and how often it was lost.
async fn write(store: Postgres, session: String, is_over: Arc<AtomicBool>) -> (String, u64, usize) {
    let mut losses = 0;
    loop {
        let memory = open_when_free(&store, &session).await.0;
        let mut end = memory.load(0).await.unwrap().len() as u64;
        loop {
            if is_over.load(Ordering::Relaxed) {
                return (session, end, losses);
            }
            match memory.append(end, [numbered(end)].into()).await {
                Ok(()) => end += 1,
                Err(error) if error.is_lost() => break,
                Err(error) => panic!("{error}"),
            }
        }
        losses += 1;
    }
}

/// C334: connections that the server ends are replaced. The session stays open, and hints about
/// inputs arrive again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_end_are_replaced() {
    let server = Server::start();
    let (store, other) =
        (connect(&server, "loopwright").await, connect(&server, "loopwright").await);
    let memory = begin(&store, "s", &[numbered(0)]).await;
    let client = raw(&server).await;
    let end = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity \
        WHERE application_name = 'loopwright'";
    for n in 1..6 {
        assert!(client.query_one(end, &[]).await.unwrap().get::<_, i64>(0) > 1);
        memory.append(n, [numbered(n)].into()).await.unwrap();
        assert_eq!(memory.load(0).await.unwrap().len() as u64, n + 1);
        tokio::time::timeout(TIMEOUT, async {
            while other.in_use("s").await != Ok(Some(true)) {} // until it has its lock again
        })
        .await
        .unwrap();
        let input = PostedInput::new(n.to_string(), InputEvent::Steer("x".into())).unwrap();
        other.post("s", &input).await.unwrap();
        let mailbox = memory.mailbox().unwrap();
        let posted = async {
            while mailbox.unread().await.unwrap().len() < n as usize {
                mailbox.posted().await;
            }
        };
        tokio::time::timeout(TIMEOUT, posted).await.unwrap();
    }
}

/// C334: an append whose result is unknown after ten seconds ends the session.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_with_an_unknown_result_ends_the_session() {
    let server = Server::start();
    let store = Postgres::builder(server.url()).lease(Duration::from_secs(60));
    let store = store.connect().await.unwrap().durability(Durability::Every);
    let memory = begin(&store, "s", &[numbered(0)]).await;
    let mut client = raw(&server).await;
    let lock = client.transaction().await.unwrap();
    lock.execute("SELECT FROM loopwright.session FOR UPDATE", &[]).await.unwrap();
    let (appended, ()) = tokio::join!(memory.append(1, [numbered(1)].into()), async {
        until_one_waits(&server).await;
        server.stop("immediate");
    });
    assert_eq!(appended, Err(MemoryError::Lost));
    tokio::time::timeout(TIMEOUT, memory.lost()).await.unwrap();
    server.run();
    let memory = open_when_free(&store, "s").await.0;
    assert_eq!(memory.load(0).await.unwrap(), [numbered(0)]);
    server.stop("immediate");
    let failed = memory.append(1, [numbered(1)].into()).await.unwrap_err();
    assert!(
        failed.to_string().contains("check that the server runs"),
        "nothing was sent: {failed}"
    );
}

/// C334: if the server cannot be reached, an operation fails after ten seconds with advice, and the
/// end of the lease ends the session. Closing it does not wait for the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_server_operations_fail() {
    let server = Server::start();
    let store = Postgres::builder(server.url()).lease(Duration::from_secs(5));
    let store = store.connect().await.unwrap().durability(Durability::Every);
    let memory = begin(&store, "s", &[numbered(0)]).await;
    server.stop("immediate");
    tokio::time::timeout(TIMEOUT, memory.lost()).await.unwrap();
    assert_eq!(memory.append(1, [numbered(1)].into()).await, Err(MemoryError::Lost));
    memory.close().await;
    let failed = store.read("s", 0).await.err().unwrap().to_string();
    assert!(failed.contains("check that the server runs"), "{failed}");
    assert!(store.check_writable().await.is_err());
    drop(memory);
    server.run();
    let store = Postgres::builder(server.url()).connect().await.unwrap(); // with a longer lease
    let memory: Arc<dyn Memory> = open_when_free(&store, "s").await.0;
    assert_eq!(memory.load(0).await.unwrap(), [numbered(0)]);
    memory.append(1, [numbered(1)].into()).await.unwrap();
}
