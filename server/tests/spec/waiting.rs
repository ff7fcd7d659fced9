//! Agents that wait for a time or a signal.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::log::{InMemoryStore, LogEntry, replay_messages};
use loopwright_core::message::UserMessage;
use loopwright_core::testing::{Script, ScriptedModel};
use loopwright_core::{
    BehaviorPattern, GenericAgent, SessionStore, StepContext, StepEnd, StepError,
};
use loopwright_server::{Server, router};
use serde_json::json;

use crate::api::Api;

/// Sleeps for an hour before it answers.
struct Later;

#[async_trait]
impl BehaviorPattern for Later {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        step.sleep_for("later", Duration::from_secs(3_600)).await?;
        step.ask().await?.finish()
    }
}

/// C509: A server wakes an agent that sleeps, after the process that had the session open has gone.
#[tokio::test(start_paused = true)]
async fn a_server_wakes_an_agent_that_sleeps() {
    let agent = || {
        let model = ScriptedModel::new([Script::text("Good morning.")]);
        GenericAgent::builder(model, Later).build().unwrap()
    };
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    let handle = agent().open(&store, "own").await.unwrap();
    handle.prompt("Wake me.").await.unwrap();
    handle.close().await;
    let mut entries = store.read("own", 0).await.unwrap();
    for entry in &mut entries {
        if let LogEntry::WaitStarted { until: time, .. } = entry {
            *time = Some(1); // the hour has passed
        }
    }
    let store: Arc<dyn SessionStore> = Arc::new(InMemoryStore::new());
    store.open("own").await.unwrap().append(0, entries.into()).await.unwrap();
    let server = Server::builder(store.clone()).agent("sleeper", agent()).adopt_sessions();
    let _routes = router(server.build().unwrap());
    tokio::time::sleep(Duration::from_secs(90)).await;
    let entries = store.read("own", 0).await.unwrap();
    assert_eq!(replay_messages(&entries).last().unwrap().text(), "Good morning.");
    assert_eq!(store.session("own").await.unwrap().wakes_at(), None);
}

/// Answers when its order is paid.
struct Order;

#[async_trait]
impl BehaviorPattern for Order {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        let paid = step.wait_for_event("paid", None).await?.unwrap_or_default();
        if step.state("told") != Some(true) {
            step.set_state("told", true)?;
            step.remember(UserMessage::from(format!("Paid: {paid}"))).await?;
        }
        step.ask().await?.finish()
    }
}

/// C509, C513: A signal over HTTP wakes the agent that waits for it, once, and a bad one is
/// refused. Lists say that it waits.
#[tokio::test]
async fn a_signal_wakes_the_agent_that_waits_for_it() {
    let model = ScriptedModel::new([Script::text("Thank you.")]);
    let api = Api::running(GenericAgent::builder(model, Order).build().unwrap());
    let id = api.session(json!({})).await;
    let mut events = api.events(&id, None).await;
    api.say(&id, "A book.").await;
    assert_eq!(events.until("agent_end").await.last().unwrap().data["end"], "sleeping");
    let list = api.get("/api/sessions").await["sessions"][0].clone();
    let status = api.get(&format!("/api/sessions/{id}")).await;
    for waits in [&list, &status] {
        assert_eq!((&waits["awaited_signals"], waits.get("wakes_at")), (&json!(["paid"]), None));
    }
    let signal = async |body| api.post(&format!("/api/sessions/{id}/signal"), body).await;
    for (body, at) in [
        (json!({ "key": "", "value": 1 }), "/key"),
        (json!({ "value": 1 }), ""),
        (json!({ "key": "k".repeat(257) }), "/key"),
        (json!({ "key": "k", "value": "v".repeat(65_536) }), "/value"),
        (json!({ "key": "paid", "id": "" }), "/id"),
    ] {
        let (status, why) = signal(body).await;
        assert_eq!(status, 400, "{why}");
        assert!(at.is_empty() || why["error"]["path"] == at, "{why}");
    }
    for _ in 0..2 {
        let (status, taken) = signal(json!({ "key": "paid", "value": 20, "id": "click" })).await;
        assert_eq!((status, &taken["input"]), (202, &json!("click")));
    }
    assert_eq!(events.until("agent_end").await.last().unwrap().data["text"], "Thank you.");
    let messages = api.get(&format!("/api/sessions/{id}/messages")).await;
    assert_eq!(messages["messages"][1]["content"][0]["text"], "Paid: 20");
}
