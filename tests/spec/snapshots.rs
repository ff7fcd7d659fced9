//! Snapshots: a long session is opened without its whole log, and behaves the same.

use std::sync::Mutex;

use crate::kit::*;

/// A store that records the first entry of each load, and can replace snapshots.
#[derive(Clone, Default)]
struct Loads {
    store: InMemoryStore,
    from: Arc<Mutex<Vec<u64>>>,
    /// The snapshot that is returned instead of the stored one.
    replacement: Option<Snapshot>,
}

struct Loaded(Arc<dyn Memory>, Loads);

#[async_trait::async_trait]
impl Memory for Loaded {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.0.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.1.from.lock().unwrap().push(from);
        self.0.load(from).await
    }

    async fn close(&self) {
        self.0.close().await
    }

    fn snapshots(&self) -> Option<&dyn Snapshots> {
        Some(self)
    }
}

#[async_trait::async_trait]
impl Snapshots for Loaded {
    async fn latest(&self) -> Result<Option<Snapshot>, MemoryError> {
        match &self.1.replacement {
            Some(snapshot) => Ok(Some(snapshot.clone())),
            None => self.0.snapshots().unwrap().latest().await,
        }
    }

    async fn store(&self, snapshot: Snapshot) -> Result<(), MemoryError> {
        self.0.snapshots().unwrap().store(snapshot).await
    }
}

impl Loads {
    async fn open(&self, agent: &GenericAgent) -> (AgentHandle, EventStream) {
        let memory = self.store.open("s").await.unwrap();
        let memory = Loaded(memory, self.clone());
        agent.run(RunContext::new().session("s").memory(memory)).await.unwrap()
    }

    /// Runs a long session. Returns the snapshot that it stores.
    async fn store_long(&self, agent: &GenericAgent) -> Snapshot {
        let (handle, _events) = self.open(agent).await;
        handle.prompt("go").await.unwrap();
        handle.close().await;
        let memory = self.store.open("s").await.unwrap();
        memory.snapshots().unwrap().latest().await.unwrap().unwrap()
    }

    fn last_load(&self) -> u64 {
        *self.from.lock().unwrap().last().unwrap()
    }

    async fn len(&self) -> u64 {
        self.store.read("s", 0).await.unwrap().len() as u64
    }
}

/// Returns an agent that calls a tool in each of `turns` turns, and then a tool that needs
/// approval.
fn agent(turns: usize) -> GenericAgent {
    let reply = move |request: &ChatRequest| match request.messages.len() / 2 {
        n if n < turns => calls(&["x"]),
        n if n == turns => Script::text("Now this.").call("p", "pay", "{}"),
        _ => Script::text("ok"),
    };
    let model = ScriptedModel::new([]).discard_requests().reply_with(reply);
    GenericAgent::builder(model, PiPattern)
        .tool(TestTool::new("x"))
        .tool(TestTool::new("pay").effect(Effect::AtMostOnce))
        .limits(Budget::default().turns(10_000))
        .build()
        .unwrap()
}

/// C345: A session with a long log stores a snapshot when it is closed. When it is opened again, it
/// reads only the entries that follow. State, events and decisions are the same as without a
/// snapshot.
#[tokio::test(start_paused = true)]
async fn a_long_session_is_opened_from_its_snapshot() {
    let loads = Loads::default();
    let agent = agent(300);
    let (handle, _events) = loads.open(&agent).await;
    assert_eq!(handle.prompt("go").await.unwrap().end, RunStatus::AwaitingAction);
    handle.close().await;
    let len = loads.len().await;
    assert!(len > 1_000, "{len}");

    let (handle, mut events) = loads.open(&agent).await;
    assert_eq!(loads.last_load(), len, "nothing follows the snapshot");
    let log = loads.store.read("s", 0).await.unwrap();
    let whole = InMemory::from_entries(log.clone());
    let cx = RunContext::new().session("s").memory(whole);
    let (other, mut other_events) = agent.run(cx).await.unwrap();
    let (state, expected) = (handle.state().await.unwrap(), other.state().await.unwrap());
    assert_eq!(format!("{state:?}"), format!("{expected:?}"));
    for handle in [&handle, &other] {
        let action = handle.state().await.unwrap().pending_actions.pop().unwrap();
        handle.approve(&action).await.unwrap();
        handle.wait_for_idle().await;
    }
    let next = async |events: &mut EventStream| {
        let mut all = Vec::new();
        while let Some(event) = events.try_next() {
            all.push(format!("{} {:?}", event.seq, event.event));
        }
        all
    };
    assert_eq!(next(&mut events).await, next(&mut other_events).await);
    let (state, expected) = (handle.state().await.unwrap(), other.state().await.unwrap());
    assert_eq!(format!("{state:?}"), format!("{expected:?}"));
    handle.close().await;
    // Few entries have followed, so the old snapshot is kept.
    let (handle, _events) = loads.open(&agent).await;
    assert_eq!(loads.last_load(), len);
    handle.close().await;
}

/// C345: A snapshot of another format, or a damaged one, is ignored, and the log is read.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_not_understood_is_ignored() {
    let (agent, mut loads) = (agent(300), Loads::default());
    let stored = loads.store_long(&agent).await;
    let newer = [b"99", &stored.data[..]].concat();
    let cut = stored.data[..stored.data.len() / 2].to_vec();
    for data in [newer, cut, Vec::new()] {
        loads.replacement = Some(Snapshot::new(stored.entries, data));
        let (handle, _events) = loads.open(&agent).await;
        assert_eq!(loads.last_load(), 0);
        assert_eq!(handle.state().await.unwrap().pending_actions.len(), 1);
        handle.close().await;
    }
}

/// C345: A snapshot with more entries than the log, from a defective store, is dropped.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_is_ahead_of_the_log_is_dropped() {
    let (agent, long) = (agent(300), Loads::default());
    let stored = long.store_long(&agent).await;
    let short = Loads { replacement: Some(stored), ..Loads::default() };
    let memory = short.store.open("s").await.unwrap();
    let entries = long.store.read("s", 0).await.unwrap()[..5].to_vec();
    memory.append(0, entries.into()).await.unwrap();
    drop(memory);
    let (handle, _events) = short.open(&agent).await;
    assert_eq!(short.last_load(), 0);
    assert_eq!(handle.state().await.unwrap().messages.len(), 1);
    assert!(handle.state().await.unwrap().interrupted_run.is_some());
    handle.close().await;
}
