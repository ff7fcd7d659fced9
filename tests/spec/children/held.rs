//! Work that ends each process, in sessions with sub-agents.

use async_trait::async_trait;
use loopwright_core::{GenericAgent, RunContext, SessionStore};

use super::Family;
use crate::kit::*;

/// C400: Sub-agents that only wait for decisions do not prevent inputs from being held: they do
/// nothing that the log could lack.
#[tokio::test(start_paused = true)]
async fn sub_agents_that_wait_keep_no_input_from_being_held() {
    let family = Family::new();
    let (handle, _events) = family.open().await;
    handle.prompt("Let them pay.").await.unwrap();
    family.close(handle).await;
    let lost = |epoch| {
        let opened = LogEntry::Opened { epoch, time: 1, parent: None, owner: None };
        [opened, LogEntry::Owner { note: OwnerNote::TakesMail }]
    };
    let log = family.log("root").await;
    let killed: Vec<_> = [lost(2), lost(3)].concat();
    let memory = family.store.open("root").await.unwrap();
    memory.append(log.len() as u64, killed.into()).await.unwrap();
    drop(memory);
    let pill = PostedInput::new("pill", InputEvent::UserRequest("Kill.".into())).unwrap();
    family.store.post("root", &pill).await.unwrap();
    let (handle, _events) = family.open().await;
    handle.wait_for_idle().await;
    family.close(handle).await;
    let info = family.store.session("root").await.unwrap();
    assert_eq!(info.held.map(|held| (held.owners, held.unread)), Some((2, 1)));
    assert_eq!((info.pending.len(), info.unread), (3, 1));
}

/// A store that cannot read the logs of sub-agents.
#[derive(Clone)]
struct WithoutChildren(InMemoryStore);

#[async_trait]
impl SessionStore for WithoutChildren {
    async fn open(&self, session: &str) -> Result<Arc<dyn Memory>, MemoryError> {
        self.0.open(session).await
    }

    async fn read(&self, session: &str, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        match session.contains('/') {
            true => Err(MemoryError::Failed("a broken disk".into())),
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

/// C397: An owner that cannot read the progress of a sub-agent ends, and does nothing.
#[tokio::test(start_paused = true)]
async fn a_run_whose_sub_agent_cannot_be_read_is_not_continued() {
    let family = Family::new();
    let hanging = ScriptedModel::new([]).reply_with(|_| Script::new().say("Hm").hang());
    let dora = GenericAgent::builder(hanging.clone(), PiPattern).build().unwrap();
    family.model.push(Script::calls([("d", "dora", json!({ "task": "Wait." }))]));
    let agent = family.agent(|builder| builder.child("dora", "Takes long.", dora));
    let cx = RunContext::new().stored(&family.store, "root").await.unwrap();
    let (handle, _events) = agent.run(cx).await.unwrap();
    handle.send(InputEvent::UserRequest("Let her wait.".into())).await.unwrap();
    sleep(ms(10)).await;

    // Two processes that continued it were killed.
    let store = InMemoryStore::new();
    let opened = |epoch| LogEntry::Opened { epoch, time: 1, parent: None, owner: None };
    let root = [family.log("root").await, vec![opened(2), opened(3)]].concat();
    for (session, log) in [("root", root), ("root/m2.1", family.log("root/m2.1").await)] {
        store.open(session).await.unwrap().append(0, log.into()).await.unwrap();
    }
    let store = WithoutChildren(store);
    let cx = RunContext::new().stored(&store, "root").await.unwrap().continue_interrupted();
    let (handle, mut events) = agent.run(cx).await.unwrap();
    while events.next().await.is_some() {}
    assert_eq!(handle.send(InputEvent::ClearQueues).await, Err(InputError::Gone));
    assert_eq!((hanging.requests().len(), family.model.requests().len()), (1, 1));
    assert_eq!(store.session("root").await.unwrap().due, Some(Due::Interrupted));
}
