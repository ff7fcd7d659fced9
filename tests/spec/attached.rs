//! Handles of a session that another process has open.

use crate::kit::*;
use loopwright_core::agent::attach;
use loopwright_core::event::StreamEnd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Starts a session in a store, and attaches a second handle to it.
async fn owner_and_guest(
    agent: &GenericAgent,
) -> (InMemoryStore, (AgentHandle, EventStream), (AgentHandle, EventStream)) {
    let store = InMemoryStore::new();
    let cx = RunContext::new().stored(&store, "s").await.unwrap();
    let owner = agent.run(cx).await.unwrap();
    let guest = attach(&store, "s").await.unwrap();
    (store, owner, guest)
}

fn agent(replies: impl IntoIterator<Item = Script>, tools: &[TestTool]) -> GenericAgent {
    let model = ScriptedModel::new(replies);
    let builder = GenericAgent::builder(model, PiPattern);
    tools.iter().cloned().fold(builder, AgentBuilder::tool).build().unwrap()
}

/// C315: inputs of an attached handle reach the owner, which acts on them. Both see the same
/// numbered events. Streamed events reach only the owner.
#[tokio::test(start_paused = true)]
async fn what_an_attached_handle_sends_is_done_by_the_owner() {
    let tool = TestTool::new("pay").effect(Effect::AtMostOnce);
    let replies = [calls(&["pay"]), Script::text("paid"), Script::text("more")];
    let agent = agent(replies, std::slice::from_ref(&tool));
    let (_store, (owner, mut events), (guest, mut seen)) = owner_and_guest(&agent).await;
    assert!(guest.is_attached() && !owner.is_attached());
    let outcome = guest.prompt("go").await.unwrap();
    assert_eq!(outcome.end, RunStatus::AwaitingAction);
    let open = guest.pending().await.unwrap();
    assert_eq!(owner.pending().await.unwrap(), open);
    let wrong =
        guest.send(ActionResult::new(open[0].call.clone(), "0000", Decision::Approve)).await;
    assert_eq!(wrong, Err(InputError::DigestDiffers(open[0].call.clone())));
    let (call, digest) = (open[0].call.clone(), open[0].digest.clone());
    guest.send(ActionResult::new(call, digest, Decision::Approve)).await.unwrap();
    guest.wait_for_idle().await;
    assert_eq!(tool.ran(), 1);
    let state = guest.state().await.unwrap();
    assert_eq!(state.messages.len(), owner.state().await.unwrap().messages.len());
    assert!(!state.is_running && state.pending_actions.is_empty());
    assert_eq!(guest.prompt("again").await.unwrap().text, "more");

    let stored = |event: &Arc<Envelope>| !is_streamed(&event.event);
    let numbers = |stream: &mut EventStream| -> Vec<(u64, &'static str)> {
        let all = std::iter::from_fn(|| stream.try_next()).filter(stored);
        all.map(|event| (event.seq, event.event.name())).collect()
    };
    let (own, of_guest) = (numbers(&mut events), numbers(&mut seen));
    assert!(own.len() > 10);
    assert_eq!(own, of_guest);
}

fn is_streamed(event: &AgentEvent) -> bool {
    match event {
        AgentEvent::MessageStart { role, .. } => *role == Role::Assistant,
        AgentEvent::MessageUpdate { .. } | AgentEvent::ToolExecutionUpdate { .. } => true,
        _ => false,
    }
}

/// C40 C315: a request that an attached handle repeats is known, during its run and after it.
#[tokio::test(start_paused = true)]
async fn a_request_that_an_attached_handle_repeats_is_known() {
    let gate = Gate::new();
    let agent = agent([Script::new().gate(&gate).say("one")], &[]);
    let (_store, (_owner, _events), (guest, mut seen)) = owner_and_guest(&agent).await;
    let request = || InputEvent::UserRequest("go".into()).with_id("x1");
    assert_eq!(guest.send(request()).await, Ok("x1".into()));
    while !guest.state().await.unwrap().is_running {
        seen.next().await.unwrap();
    }
    let known = Err(InputError::Known("x1".into()));
    assert_eq!(guest.run(request()).await, known);
    assert_eq!(guest.send(request()).await, Ok("x1".into()));
    gate.open();
    guest.wait_for_idle().await;
    assert_eq!(guest.run(request()).await, known);
    assert_eq!(guest.state().await.unwrap().messages.len(), 2);
}

/// C315: an abort of an attached handle names the run that its log shows, and queued messages can
/// be taken back. A reset is refused, because it would stop a run that nobody has seen.
#[tokio::test(start_paused = true)]
async fn an_attached_handle_aborts_the_run_that_it_sees() {
    let agent = agent([Script::text("x").hang(), Script::text("done")], &[]);
    let (_store, (owner, _events), (guest, mut seen)) = owner_and_guest(&agent).await;
    assert_eq!(guest.abort().await, Ok(()), "there is nothing to abort");
    guest.send(InputEvent::UserRequest("go".into())).await.unwrap();
    while !guest.state().await.unwrap().is_running {
        seen.next().await.unwrap();
    }
    assert!(matches!(guest.prompt("now").await, Err(InputError::Busy)));
    guest.follow_up("later").await.unwrap();
    assert_eq!(guest.clear_queues().await.unwrap(), ["later"]);
    assert!(matches!(guest.reset().await, Err(InputError::NotPostable(_))));
    guest.abort().await.unwrap();
    guest.wait_for_idle().await;
    assert!(!owner.state().await.unwrap().is_running);
    assert_eq!(guest.prompt("again").await.unwrap().text, "done");
}

/// C315: when the owner leaves, the stream ends as moved. The next owner handles the inputs sent in
/// the meantime.
#[tokio::test(start_paused = true)]
async fn the_stream_of_an_attached_handle_ends_when_the_owner_has_left() {
    let agent = agent([Script::text("one"), Script::text("two")], &[]);
    let (store, (owner, _events), (guest, mut seen)) = owner_and_guest(&agent).await;
    guest.prompt("first").await.unwrap();
    owner.close().await;
    guest.send(InputEvent::UserRequest("second".into())).await.unwrap();
    while seen.next().await.is_some() {}
    assert!(seen.end() == Some(StreamEnd::Moved) && guest.has_ended());
    let cx = RunContext::new().stored(&store, "s").await.unwrap();
    let (owner, _events) = agent.run(cx).await.unwrap();
    owner.wait_for_idle().await;
    assert_eq!(owner.state().await.unwrap().messages.len(), 4);
}

/// C315: if a session is deleted while a handle is attached, it has ended.
#[tokio::test(start_paused = true)]
async fn an_attached_handle_of_a_deleted_session_has_ended() {
    let agent = agent([Script::text("one")], &[]);
    let (store, (owner, _events), (guest, mut seen)) = owner_and_guest(&agent).await;
    guest.prompt("first").await.unwrap();
    owner.close().await;
    store.delete("s").await.unwrap();
    while seen.next().await.is_some() {}
    assert!(guest.has_ended() && seen.end() != Some(StreamEnd::Moved));
}

/// A store whose sessions can be read once.
#[derive(Clone)]
struct ReadOnce(InMemoryStore, Arc<AtomicBool>);

#[async_trait::async_trait]
impl SessionStore for ReadOnce {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        self.0.open(session).await
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        match self.1.swap(true, Ordering::SeqCst) {
            true => Err(MemoryError::Failed("the disk is gone".into())),
            false => self.0.read(session, from).await,
        }
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.0.sessions().await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.0.delete(session).await
    }
}

/// C440: an attached handle whose session cannot be read for long says so.
#[tokio::test(start_paused = true)]
async fn an_attached_handle_ends_when_its_session_cannot_be_read() {
    let store = ReadOnce(InMemoryStore::new(), Arc::default());
    let owner = agent([], &[]).open(&store.0, "s").await.unwrap();
    owner.steer("Later.").await.unwrap();
    let (guest, mut seen) = attach(&store, "s").await.unwrap();
    assert!(seen.next().await.is_none());
    assert_eq!(seen.end(), Some(StreamEnd::Closed));
    assert!(guest.has_ended());
}
