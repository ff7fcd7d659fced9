//! Sub-agents of a root whose log cannot be written.

use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;

use loopwright_core::{GenericAgent, RunContext, SessionStore};

use super::{Family, results};
use crate::kit::*;

/// A store whose session `root` cannot be written while `fails` is set.
#[derive(Clone)]
struct Failing {
    store: InMemoryStore,
    fails: Arc<AtomicBool>,
}

struct FailingMemory(Arc<dyn Memory>, Arc<AtomicBool>);

#[async_trait::async_trait]
impl Memory for FailingMemory {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        match self.1.load(Relaxed) {
            true => Err(MemoryError::Failed("the disk is full".into())),
            false => self.0.append(at, entries).await,
        }
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.0.load(from).await
    }
}

#[async_trait::async_trait]
impl SessionStore for Failing {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        let memory = self.store.open(session).await?;
        match session {
            "root" => Ok(Arc::new(FailingMemory(memory, self.fails.clone()))),
            _ => Ok(memory),
        }
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

/// C165: If the log of the root cannot be written, its sub-agents are stopped. If even that fails,
/// they stop where they are. Both are found when the root is continued.
#[tokio::test(start_paused = true)]
async fn sub_agents_stop_when_the_log_of_the_root_fails() {
    for (steers, expected) in [(1, ResultStatus::Aborted), (2, ResultStatus::Ok)] {
        let family = Family::new();
        let gate = Gate::new();
        let model = {
            let gate = gate.clone();
            ScriptedModel::new([]).reply_with(move |_| Script::text("At last.").gate(&gate))
        };
        let dora = GenericAgent::builder(model.clone(), PiPattern).build().unwrap();
        let agent = family.agent(|builder| builder.child("dora", "Takes long.", dora));
        let store = Failing { store: family.store.clone(), fails: Arc::default() };
        let cx = RunContext::new().stored(&store, "root").await.unwrap();
        let (handle, mut events) = agent.run(cx).await.unwrap();
        family.model.push(Script::calls([("d", "dora", json!({ "task": "Wait." }))]));
        handle.send(InputEvent::UserRequest("Go.".into())).await.unwrap();
        let is_progress = |event: &AgentEvent| {
            matches!(event, AgentEvent::ToolExecutionUpdate { update: ToolUpdate::Progress(_), .. })
        };
        until(&mut events, is_progress).await;
        store.fails.store(true, Relaxed);
        let refused = futures::future::join_all((0..steers).map(|_| handle.steer("Hurry."))).await;
        assert!(refused.iter().all(Result::is_err), "{refused:?}");
        handle.wait_for_idle().await;
        store.fails.store(false, Relaxed);
        gate.open();
        let outcome = handle.continue_run().await.unwrap();
        assert_eq!(outcome.end, RunStatus::Done, "{outcome:?}");
        let [(status, text)] = &results(&handle).await[..] else { panic!("one result") };
        assert_eq!((*status, steers, text.contains("At last.")), (expected, steers, true));
        check_log(&family.log("root/m2.1").await).unwrap();
    }
}
