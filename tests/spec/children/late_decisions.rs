//! Decisions that come while the session of a sub-agent is being closed.

use loopwright_core::{RunContext, SessionStore};

use super::{Family, approve, pending_calls, results};
use crate::kit::*;

/// A store in which the sessions of sub-agents close when a gate opens.
#[derive(Clone)]
struct SlowToClose {
    store: InMemoryStore,
    gate: Gate,
    /// A gate that opens when the first of them is being closed.
    is_closing: Gate,
}

struct ClosesSlowly(Arc<dyn Memory>, Option<SlowToClose>);

#[async_trait::async_trait]
impl Memory for ClosesSlowly {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        self.0.append(at, entries).await
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }

    async fn close(&self) {
        if let Some(SlowToClose { gate, is_closing, .. }) = &self.1 {
            is_closing.open();
            gate.wait().await;
        }
    }
}

#[async_trait::async_trait]
impl SessionStore for SlowToClose {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let is_child = session.contains('/');
        let memory = self.store.open(session).await?;
        Ok(Arc::new(ClosesSlowly(memory, is_child.then(|| self.clone()))))
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.store.read(session, from).await
    }

    async fn sessions(&self) -> Result<Vec<SessionInfo>, MemoryError> {
        self.store.sessions().await
    }

    async fn delete(&self, session: &str) -> Result<(), MemoryError> {
        self.store.delete(session).await
    }
}

/// C160: A decision that comes while the session of its sub-agent is being closed is carried out.
#[tokio::test(start_paused = true)]
async fn a_decision_while_a_session_closes_is_carried_out() {
    let family = Family::new();
    let (gate, is_closing) = (Gate::new(), Gate::new());
    let store = SlowToClose {
        store: family.store.clone(),
        gate: gate.clone(),
        is_closing: is_closing.clone(),
    };
    let cx = RunContext::new().stored(&store, "root").await.unwrap();
    let (handle, _events) = family.agent(|builder| builder).run(cx).await.unwrap();
    family.model.push(Script::calls([("a", "alice", json!({ "task": "Pay." }))]));
    handle.send(InputEvent::UserRequest("Let alice pay.".into())).await.unwrap();
    is_closing.wait().await;
    approve(&handle, "a~p").await.unwrap();
    gate.open();
    handle.wait_for_idle().await;
    assert_eq!(pending_calls(&handle).await, [""; 0]);
    assert_eq!(results(&handle).await, [(ResultStatus::Ok, "Ok".into())]);
    assert_eq!(family.pay.ran(), 1);
}
