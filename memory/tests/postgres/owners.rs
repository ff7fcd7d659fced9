//! Ownership: takeovers from killed and stopped processes, and owners that were replaced.

use std::process::Stdio;
use std::time::{Duration, Instant};

use loopwright_core::SessionStore;
use loopwright_core::event::InputEvent;
use loopwright_core::log::{InputReceipt, MemoryError, PostedInput};
use loopwright_memory::Postgres;
use loopwright_test_support::postgres::Server;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::kit::{TIMEOUT, begin, connect, numbered, open_when_free, raw, until_one_waits};

const URL: &str = "LOOPWRIGHT_POSTGRES_URL";
const LEASE: Duration = Duration::from_millis(1_500);

/// Runs in the process that is killed and stopped, which the other tests start. It opens the
/// session, appends an entry for each line that it reads, and prints the result.
#[tokio::test]
#[ignore = "the other tests start it"]
async fn owner() {
    let store = Postgres::builder(std::env::var(URL).unwrap()).lease(LEASE).connect().await;
    let memory = store.unwrap().open("shared").await.unwrap();
    let mut end = memory.load(0).await.unwrap().len() as u64;
    println!("opened");
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    while lines.next_line().await.unwrap().is_some() {
        let written = memory.append(end, [numbered(end)].into()).await;
        end += u64::from(written.is_ok());
        match written {
            Ok(()) => println!("written"),
            Err(error) if error.is_lost() => {
                memory.lost().await;
                println!("lost");
            }
            Err(error) => println!("{error}"),
        }
    }
}

/// A process that owns the session.
struct Owner {
    process: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
}

impl Owner {
    async fn start(server: &Server) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["owners::owner", "--exact", "--ignored", "--nocapture"]);
        command.env(URL, server.url()).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.kill_on_drop(true).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut owner = Owner { process, input, output };
        owner.expect("opened").await;
        owner
    }

    /// Waits for a line, which may follow lines of the test runner.
    async fn expect(&mut self, wanted: &str) {
        let found = async {
            while let Some(line) = self.output.next_line().await.unwrap() {
                if line.ends_with(wanted) {
                    return;
                }
            }
            panic!("the process has ended without `{wanted}`");
        };
        tokio::time::timeout(TIMEOUT, found).await.unwrap();
    }

    async fn append(&mut self) {
        self.input.write_all(b"\n").await.unwrap();
    }

    fn signal(&self, signal: Signal) {
        let pid = Pid::from_raw(self.process.id().unwrap() as i32).unwrap();
        kill_process(pid, signal).unwrap();
    }
}

/// C332: the session of a killed process can be opened as soon as the server has noticed, long
/// before the end of the lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_of_a_killed_process_is_free_at_once() {
    let server = Server::start();
    let store = connect(&server, "loopwright").await;
    drop(begin(&store, "shared", &[numbered(0)]).await);
    for round in 1..6 {
        let mut owner = Owner::start(&server).await;
        assert_eq!(store.in_use("shared").await, Ok(Some(true)));
        assert!(matches!(store.open("shared").await, Err(MemoryError::InUse(_))));
        owner.append().await;
        owner.expect("written").await;
        owner.signal(Signal::KILL);
        let (memory, time) = open_when_free(&store, "shared").await;
        println!("opened after {time:?}");
        assert!(time < LEASE / 2, "{time:?}");
        assert_eq!(memory.load(0).await.unwrap().len(), round + 1);
    }
}

/// C333: the session of a hanging process can be opened at the end of its lease. The process can no
/// longer write, and notices that the session is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_process_that_hangs_loses_its_session() {
    let server = Server::start();
    let store = connect(&server, "loopwright").await;
    drop(begin(&store, "shared", &[numbered(0)]).await);
    let mut owner = Owner::start(&server).await;
    owner.signal(Signal::STOP);
    let (memory, time) = open_when_free(&store, "shared").await;
    assert!(time > LEASE / 2, "the lease has not ended after {time:?}");
    memory.append(1, [numbered(1)].into()).await.unwrap();
    owner.signal(Signal::CONT);
    owner.append().await;
    owner.expect("lost").await;
    assert_eq!(memory.load(0).await.unwrap(), [numbered(0), numbered(1)]);
    memory.append(2, [numbered(2)].into()).await.unwrap();
}

/// C333: a replaced owner appends nothing and writes no receipt, regardless of its lease.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_owner_that_was_replaced_writes_nothing() {
    let server = Server::start();
    let (one, two) = (connect(&server, "loopwright").await, connect(&server, "loopwright").await);
    let old = begin(&one, "s", &[numbered(0)]).await;
    let input = PostedInput::new("i", InputEvent::Steer("x".into())).unwrap();
    assert_eq!(two.post("s", &input).await, Ok(None));
    raw(&server).await.batch_execute("UPDATE loopwright.session SET worker = NULL").await.unwrap();
    let new = two.open("s").await.unwrap();

    let refused = InputReceipt::Refused(loopwright_core::agent::InputError::Full(1));
    let mailbox = old.mailbox().unwrap();
    assert_eq!(mailbox.acknowledge(&"i".into(), &refused).await, Err(MemoryError::Lost));
    assert_eq!(old.append(1, [].into()).await, Err(MemoryError::Lost));
    assert_eq!(old.append(1, [numbered(9)].into()).await, Err(MemoryError::Lost));
    tokio::time::timeout(TIMEOUT, old.lost()).await.unwrap();
    drop(old); // releases nothing
    assert!(matches!(one.open("s").await, Err(MemoryError::InUse(_))));
    assert_eq!(new.mailbox().unwrap().unread().await.unwrap().len(), 1);
    new.append(1, [numbered(1)].into()).await.unwrap();
    assert_eq!(new.load(0).await.unwrap(), [numbered(0), numbered(1)]);
}

/// C333: an idle owner notices at the next renewal that it was replaced.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_idle_owner_learns_that_it_was_replaced() {
    let server = Server::start();
    let store = Postgres::builder(server.url()).lease(LEASE).connect().await.unwrap();
    let memory = begin(&store, "s", &[numbered(0)]).await;
    let steal = "UPDATE loopwright.session SET epoch = epoch + 1, worker = NULL";
    raw(&server).await.batch_execute(steal).await.unwrap();
    tokio::time::timeout(TIMEOUT, memory.lost()).await.unwrap();
}

/// C333: a refusal that the owner records while a copy of the input is being posted also holds for
/// the copy.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_refusal_holds_for_a_copy_that_is_being_posted() {
    let server = Server::start();
    let store = connect(&server, "loopwright").await;
    let memory = begin(&store, "s", &[numbered(0)]).await;
    let mut client = raw(&server).await;
    let post = client.transaction().await.unwrap();
    let insert = "INSERT INTO loopwright.mailbox (session, input, time, json) \
        SELECT number, 'i', 1, '{}' FROM loopwright.session";
    post.execute(insert, &[]).await.unwrap();
    let refused = InputReceipt::Refused(loopwright_core::agent::InputError::Full(1));
    let mailbox = memory.mailbox().unwrap();
    let input = "i".into();
    let (acknowledged, ()) = tokio::join!(mailbox.acknowledge(&input, &refused), async {
        until_one_waits(&server).await;
        post.commit().await.unwrap();
    });
    acknowledged.unwrap();
    assert_eq!(mailbox.receipt(&input).await.unwrap(), Some(refused));
    assert!(mailbox.unread().await.unwrap().is_empty());
}

/// A dropped opening leaves nothing open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_dropped_opening_leaves_the_session_free() {
    let server = Server::start();
    // No renewal of the lease frees the session meanwhile.
    let store = Postgres::builder(server.url()).lease(10 * TIMEOUT).connect().await.unwrap();
    for n in 0..40 {
        let opening = store.open("s");
        let steps = async {
            for _ in 0..n {
                tokio::task::yield_now().await;
            }
        };
        tokio::select! { biased; _ = opening => {} () = steps => {} }
        let (memory, _) = open_when_free(&store, "s").await;
        memory.close().await;
    }
    assert!(store.sessions().await.unwrap().is_empty());
    // A dropped opening may still be in progress. It frees the session as soon as it has it.
    let (client, start) = (raw(&server).await, Instant::now());
    while client.query_opt("SELECT FROM loopwright.session", &[]).await.unwrap().is_some() {
        assert!(start.elapsed() < TIMEOUT, "a session without entries is still stored");
        tokio::task::yield_now().await;
    }
}
