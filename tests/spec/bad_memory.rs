//! Memories that fail, panic, or fail once: callers get an error, and the session continues. A
//! clock that panics ends the session.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::kit::*;

/// A memory that panics when its log is loaded.
struct Unloadable;

#[async_trait::async_trait]
impl Memory for Unloadable {
    async fn append(&self, _: u64, _: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        Ok(())
    }

    async fn load(&self, _: u64) -> Result<Vec<LogEntry>, MemoryError> {
        panic!("no memory");
    }
}

/// C56: a panic of a memory while a session is opened is an error of `run`.
#[tokio::test(start_paused = true)]
async fn a_panic_while_the_log_is_loaded_is_an_error() {
    let agent = GenericAgent::builder(ScriptedModel::new([]), PiPattern).build().unwrap();
    let opened = agent.run(RunContext::new().memory(Unloadable)).await;
    assert!(matches!(opened, Err(AgentError::Memory(MemoryError::Failed(_)))));
}

/// A memory that panics or fails once its flag is set.
struct Bad(InMemory, Arc<AtomicBool>, bool);

#[async_trait::async_trait]
impl Memory for Bad {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        if self.1.load(Ordering::SeqCst) {
            assert!(!self.2, "no memory");
            return Err(MemoryError::Failed("no memory".into()));
        }
        self.0.append(at, items).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }
}

async fn bad_memory(replies: Vec<Script>, panics: bool) -> (Harness, Arc<AtomicBool>) {
    let bad = Arc::new(AtomicBool::new(false));
    let (switch, memory) = (bad.clone(), InMemory::new());
    let wrap = move |memory| Arc::new(Bad(memory, switch, panics)) as Arc<dyn Memory>;
    (
        Harness::with_memory(
            PiPattern,
            replies,
            |a| a.tool(TestTool::new("x").takes(ms(50))),
            memory,
            wrap,
        )
        .await,
        bad,
    )
}

/// C48 C56: a panic of a memory is an error, at rest and in a run; the session continues.
#[tokio::test(start_paused = true)]
async fn a_panic_of_a_memory_is_an_error() {
    let (harness, bad) = bad_memory(vec![Script::text("ok")], true).await;
    bad.store(true, Ordering::SeqCst);
    assert!(matches!(harness.handle.prompt("go").await, Err(InputError::Memory(_))));
    bad.store(false, Ordering::SeqCst);
    assert_eq!(harness.handle.prompt("go").await.unwrap().text, "ok");
}

/// C43 C56: every caller of a session whose memory fails gets an answer.
#[tokio::test(start_paused = true)]
async fn every_caller_is_answered_when_the_memory_fails() {
    let (harness, bad) = bad_memory(vec![calls(&["x"])], false).await;
    send(&harness, "go").await;
    sleep(ms(10)).await;
    bad.store(true, Ordering::SeqCst);
    let all = async {
        tokio::join!(
            harness.handle.steer("a"),
            harness.handle.steer("b"),
            harness.handle.steer("c"),
            harness.handle.state()
        )
    };
    let (a, b, c, state) =
        tokio::time::timeout(ms(5000), all).await.expect("every caller is answered");
    assert!(a.is_err() && b.is_err() && c.is_err() && state.is_ok());
}

/// C56: reading the state of a session whose memory failed does not restart its run.
#[tokio::test(start_paused = true)]
async fn reading_the_state_does_not_restart_a_run_that_could_not_be_logged() {
    let wrap = |memory| Arc::new(FaultyMemory::new(memory).full_after(2)) as Arc<dyn Memory>;
    let mut harness = Harness::with_memory(PiPattern, [], |a| a, InMemory::new(), wrap).await;
    assert_eq!(harness.handle.prompt("go").await.unwrap().end, RunStatus::Error);
    for _ in 0..3 {
        harness.handle.state().await.unwrap();
        harness.handle.wait_for_idle().await;
    }
    let ends = harness
        .drain_events()
        .iter()
        .filter(|e| matches!(e.event, AgentEvent::AgentEnd(_)))
        .count();
    assert_eq!(ends, 1);
}

/// C47 C56: a session continues after a failed write while its open work is closed, also with
/// `Hold`.
#[tokio::test(start_paused = true)]
async fn a_session_continues_after_a_write_fails_while_a_run_is_closed() {
    for rule in [WhileAwaiting::Supersede, WhileAwaiting::Hold] {
        let replies = [calls(&["x"]), Script::text("ok")];
        let wrap = |memory| Arc::new(FailsOnce(memory, AtomicBool::new(false))) as Arc<dyn Memory>;
        let tool = TestTool::new("x").hangs();
        let options = |a: AgentBuilder| a.tool(tool).while_awaiting(rule);
        let mut harness =
            Harness::with_memory(PiPattern, replies, options, InMemory::new(), wrap).await;
        send(&harness, "go").await;
        harness.until(starts).await;
        harness.handle.abort().await.unwrap();
        harness.handle.wait_for_idle().await;
        let outcome = tokio::time::timeout(ms(60_000), harness.handle.prompt("again"))
            .await
            .expect("the session continues");
        assert_eq!(outcome.unwrap().text, "ok");
        harness.check().await;
    }
}

/// A memory that fails once, at the first result.
struct FailsOnce(InMemory, AtomicBool);

#[async_trait::async_trait]
impl Memory for FailsOnce {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let result = items.iter().any(|i| matches!(i, LogEntry::CallFinished { .. }));
        if result && !self.1.swap(true, Ordering::SeqCst) {
            return Err(MemoryError::Failed("once".into()));
        }
        self.0.append(at, items).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }
}

/// A clock that panics at its last reading.
struct Clock(AtomicUsize);

impl Environment for Clock {
    fn now(&self) -> u64 {
        assert!(self.0.fetch_sub(1, Ordering::SeqCst) != 1, "no time");
        7
    }

    fn random(&self) -> u64 {
        0
    }
}

/// C48: a panic between two awaits ends the session, but not without the end of its run. No reader
/// waits for an `agent_end` that never comes.
#[tokio::test(start_paused = true)]
async fn a_panic_of_the_clock_ends_the_run_before_the_session() {
    let (mut gone, mut reads) = (0, 2);
    loop {
        let replies = [calls(&["x"]), Script::text("ok")];
        let agent = GenericAgent::builder(ScriptedModel::new(replies), PiPattern)
            .tool(TestTool::new("x"))
            .environment(Clock(reads.into()))
            .build()
            .unwrap();
        let (handle, mut events) = agent.run(RunContext::new()).await.unwrap();
        let ended = handle.prompt("go").await;
        let (mut starts, mut ends) = (0, 0);
        let is_gone = ended == Err(InputError::Gone);
        drop(handle);
        while let Some(event) = events.next().await {
            starts += usize::from(matches!(event.event, AgentEvent::AgentStart { .. }));
            ends += usize::from(matches!(event.event, AgentEvent::AgentEnd(_)));
        }
        assert_eq!(starts, ends, "the clock panics at the read {reads}: {ended:?}");
        gone += usize::from(is_gone);
        if !is_gone && ended.is_ok_and(|outcome| outcome.end == RunStatus::Done) {
            break; // it was read less often
        }
        reads += 1;
    }
    assert!(gone > 3, "{gone}");
}
