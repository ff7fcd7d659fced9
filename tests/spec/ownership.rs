//! Sessions that another process takes over.

use loopwright_core::event::StreamEnd;
use std::sync::Mutex;

use tokio_util::sync::CancellationToken;

use crate::kit::*;

/// Opens the session of the harness once more, like another process.
async fn take_over(harness: &Harness) -> (AgentHandle, EventStream) {
    let cx = RunContext::new().session("s").memory(harness.memory.clone());
    harness.agent.run(cx).await.unwrap()
}

fn is_loss(error: &InputError) -> bool {
    match error {
        InputError::Memory(error) => error.is_lost(),
        error => *error == InputError::Moved,
    }
}

/// C54: an owner that was replaced in the middle of a run ends it without `agent_end`, because the
/// run belongs to the other owner.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_taken_over_ends_quietly() {
    let tool = TestTool::new("x").hangs();
    for calls_a_tool in [false, true] {
        let gate = Gate::new();
        let reply = if calls_a_tool { calls(&["x"]) } else { Script::text("one") };
        let replies = [reply.gate(&gate), Script::text("never")];
        let mut harness = pi(replies, std::slice::from_ref(&tool)).await;
        let prompt = tokio::spawn({
            let handle = harness.handle.clone();
            async move { handle.prompt("go").await }
        });
        harness
            .until(|e| matches!(e, AgentEvent::MessageStart { role: Role::Assistant, .. }))
            .await;
        let (_other, _events) = take_over(&harness).await;
        gate.open();
        assert_eq!(prompt.await.unwrap(), Err(InputError::Moved));
        let mut last = Vec::new();
        while let Some(event) = harness.events.next().await {
            last.push(event);
        }
        assert_eq!(harness.events.end(), Some(StreamEnd::Moved));
        assert!(!last.iter().any(|e| matches!(e.event, AgentEvent::AgentEnd(_))), "{last:?}");
        assert_eq!(harness.handle.steer("more").await, Err(InputError::Gone));
    }
    assert_eq!(tool.ran(), 0, "the start of the call could not be written");
}

/// No input is refused because of outdated state. This tests the refusals of an idle session, each
/// by an owner that has been replaced.
#[tokio::test(start_paused = true)]
async fn a_replaced_owner_refuses_nothing() {
    let harness = || pi([Script::text("one")], &[]);
    let mut bad = Prompt::from("x");
    bad.output = Some(OutputSchema::new("x", json!({ "type": 3 })).into());
    let inputs: Vec<InputEvent> = vec![
        InputEvent::ExternalActionResult(ActionResult::new("c", "d", Decision::Approve)),
        InputEvent::Continue(None),
        InputEvent::Abort(AbortRequest::new().run(RunId(7))),
        InputEvent::Compact(None),
        InputEvent::UserRequest(bad),
    ];
    for input in inputs {
        let own = harness().await;
        let name = format!("{input:?}");
        let refused = own.handle.send(input.clone()).await.unwrap_err();
        assert!(!is_loss(&refused), "{name}: {refused:?}");
        let harness = harness().await;
        let (_other, _events) = take_over(&harness).await;
        let answer = harness.handle.send(input).await.unwrap_err();
        assert!(is_loss(&answer), "{name}: {answer:?}");
    }
}

/// C54: the same while a run is in progress.
#[tokio::test(start_paused = true)]
async fn a_replaced_owner_is_not_busy() {
    let gate = Gate::new();
    let mut harness = pi([Script::new().gate(&gate)], &[]).await;
    send(&harness, "go").await;
    harness.until(|e| matches!(e, AgentEvent::MessageStart { role: Role::Assistant, .. })).await;
    assert_eq!(harness.handle.prompt("x").await, Err(InputError::Busy));
    let (_other, _events) = take_over(&harness).await;
    let answer = harness.handle.prompt("x").await.unwrap_err();
    assert!(is_loss(&answer), "{answer:?}");
}

/// A memory that can report the loss of its ownership, and records its appends and closings.
#[derive(Clone, Default)]
struct Watched {
    inner: InMemory,
    lost: CancellationToken,
    log: Arc<Mutex<Vec<&'static str>>>,
}

impl Watched {
    fn note(&self, what: &'static str) {
        self.log.lock().unwrap().push(what);
    }
}

#[async_trait::async_trait]
impl Memory for Watched {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        if self.lost.is_cancelled() {
            return Err(MemoryError::Lost);
        }
        self.note("append");
        self.inner.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.inner.load(from).await
    }

    async fn lost(&self) {
        self.lost.cancelled().await;
    }

    async fn close(&self) {
        self.note("close");
    }
}

/// A memory that reports its loss at once ends the session without another append, also while it
/// waits for a model, for a tool, or for input.
#[tokio::test(start_paused = true)]
async fn a_loss_ends_what_waits() {
    let tool = TestTool::new("x").hangs();
    for (replies, until) in [
        (vec![], None),
        (vec![Script::new().hang()], Some("message_start")),
        (vec![calls(&["x"])], Some("tool_execution_start")),
    ] {
        let memory = Watched::default();
        let wrap = |_| Arc::new(memory.clone()) as Arc<dyn Memory>;
        let tools = |agent: AgentBuilder| agent.tools([Arc::new(tool.clone()) as Arc<dyn Tool>]);
        let mut harness =
            Harness::with_memory(PiPattern, replies, tools, InMemory::new(), wrap).await;
        if let Some(name) = until {
            send(&harness, "go").await;
            let is_reply = |e: &AgentEvent| match e {
                AgentEvent::MessageStart { role, .. } => *role == Role::Assistant,
                _ => true,
            };
            harness.until(|e| e.name() == name && is_reply(e)).await;
        }
        let appends = memory.log.lock().unwrap().len();
        memory.lost.cancel();
        while let Some(event) = harness.events.next().await {
            assert!(!matches!(event.event, AgentEvent::AgentEnd(_)));
        }
        assert_eq!(harness.events.end(), Some(StreamEnd::Moved), "{until:?}");
        assert_eq!(memory.log.lock().unwrap()[appends..], ["close"]);
    }
}

/// A session closes its memory when its last handle is dropped: after its last append, and before
/// its streams end.
#[tokio::test(start_paused = true)]
async fn a_session_closes_its_memory_at_its_end() {
    let memory = Watched::default();
    let wrap = |_| Arc::new(memory.clone()) as Arc<dyn Memory>;
    let replies = [Script::text("one")];
    let harness =
        Harness::with_memory(PiPattern, replies, |agent| agent, InMemory::new(), wrap).await;
    let Harness { handle, events, .. } = harness;
    handle.prompt("go").await.unwrap();
    assert!(!memory.log.lock().unwrap().contains(&"close"));
    handle.close().await;
    assert!(events.end() != Some(StreamEnd::Moved));
    let log = memory.log.lock().unwrap();
    assert_eq!(log.iter().filter(|what| **what == "close").count(), 1);
    assert_eq!(log.last(), Some(&"close"));
}
