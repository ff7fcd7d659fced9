//! Agents that wait for a time or a signal while no worker has their session open.

use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::event::{AgentEvent, RunCause, RunStatus};
use loopwright_core::log::{InMemoryStore, LogEntry};
use loopwright_core::message::UserMessage;
use loopwright_core::testing::ScriptedModel;
use loopwright_core::{
    BehaviorPattern, GenericAgent, SessionStore, StepContext, StepEnd, StepError,
};

use crate::cluster::{until_closed, until_end, worker};

/// Sleeps, then waits for a payment.
struct Order;

#[async_trait]
impl BehaviorPattern for Order {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        step.sleep_for("soon", Duration::from_millis(300)).await?;
        let paid = step.wait_for_event("paid", None).await?.unwrap_or_default();
        if step.state("told") != Some(true) {
            step.set_state("told", true)?;
            step.remember(UserMessage::from(format!("Paid: {paid}"))).await?;
        }
        Ok(StepEnd::Done)
    }
}

/// C514: a worker of a fleet opens the session of an agent that waits when its timer rings, and
/// when a signal for it was posted, and the agent continues once.
#[tokio::test]
async fn a_fleet_wakes_agents_that_wait() {
    let store = InMemoryStore::new();
    let agent = GenericAgent::builder(ScriptedModel::new([]), Order).build().unwrap();
    let (a, b) = (worker(&store, &agent).await, worker(&store, &agent).await);
    let mut events = b.session("s").events(0);
    a.session("s").prompt("A book.").await.unwrap();
    for rang in [0, 1] {
        let AgentEvent::AgentEnd(end) = until_end(&mut events).await.0.pop().unwrap().event.clone()
        else {
            panic!("no end");
        };
        assert_eq!((end.end, end.wakes_at.is_some()), (RunStatus::Sleeping, rang == 0));
        until_closed(&store, "s").await;
    }
    b.session("s").signal("paid", 20).await.unwrap();
    until_end(&mut events).await;
    let log = store.read("s", 0).await.unwrap();
    let causes = log.iter().filter_map(|entry| match entry {
        LogEntry::RunStarted { cause, .. } => Some(cause.clone()),
        _ => None,
    });
    let causes: Vec<RunCause> = causes.skip(1).collect();
    assert_eq!(causes, [RunCause::Timer("soon".into()), RunCause::Signal("paid".into())]);
    let messages = loopwright_core::log::replay_messages(&log);
    assert_eq!(messages.last().unwrap().text(), "Paid: 20");
}
