//! A worker of a cluster that shuts down.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::log::{InMemoryStore, LogEntry};
use loopwright_core::testing::{Gate, Script, ScriptedModel, TestTool};
use loopwright_core::{GenericAgent, SessionStore};
use loopwright_durable::Leases;
use loopwright_host::{AgentFactory, AgentRejection, AgentSetup};
use loopwright_patterns::PiPattern;
use loopwright_server::Server;
use serde_json::json;

use crate::api::Api;

/// Builds an agent, and never completes once it is stuck.
struct Sticky {
    agent: GenericAgent,
    is_stuck: Arc<AtomicBool>,
    builds: Gate,
}

#[async_trait]
impl AgentFactory for Sticky {
    async fn build(&self, _setup: &AgentSetup) -> Result<GenericAgent, AgentRejection> {
        if self.is_stuck.load(Ordering::Relaxed) {
            self.builds.open();
            std::future::pending::<()>().await;
        }
        Ok(self.agent.clone())
    }
}

/// C342: once a worker says that it shuts down, none of its sessions starts another turn, not even
/// while another session is still being opened.
#[tokio::test(start_paused = true)]
async fn sessions_leave_from_when_the_server_is_not_ready() {
    let (gate, builds, is_stuck) = (Gate::new(), Gate::new(), Arc::new(AtomicBool::new(false)));
    let model = ScriptedModel::new([
        Script::calls([("c", "look", json!({}))]).gate(&gate),
        Script::text("of the next worker"),
    ]);
    let tool = TestTool::new("look").answers("seen");
    let agent = GenericAgent::builder(model.clone(), PiPattern).tool(tool).build().unwrap();
    let store = Arc::new(InMemoryStore::new());
    let sticky =
        Sticky { agent: agent.clone(), is_stuck: is_stuck.clone(), builds: builds.clone() };
    let server = Server::builder(store.clone() as Arc<dyn SessionStore>)
        .agent("agent", agent)
        .agent("sticky", sticky)
        .cluster(Leases::new())
        .build()
        .unwrap();
    server.join_cluster().await.unwrap();
    let api = Api::serving(store.clone(), server);
    let id = api.session(json!({ "agent": "agent" })).await;
    let stuck = api.session(json!({ "agent": "sticky" })).await;
    api.say(&id, "Look.").await;
    api.events(&id, None).await.until("message_start").await;

    is_stuck.store(true, Ordering::Relaxed);
    tokio::select! {
        () = api.say(&stuck, "Hello.") => panic!("it was opened"),
        () = builds.wait() => {}
    }
    tokio::join!(api.drain(Duration::from_secs(10)), async {
        assert_eq!(api.call("GET", "/readyz", None).await.0, 503);
        gate.open();
    });
    let log = store.read(&id, 0).await.unwrap();
    let is_request = |entry: &&LogEntry| matches!(entry, LogEntry::RequestStarted { .. });
    assert_eq!(log.iter().filter(is_request).count(), 1, "{log:#?}");
    assert_eq!(model.played().len(), 1);
}
