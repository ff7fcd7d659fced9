//! The due work of a store, done by a process without a server.

use async_trait::async_trait;

use super::kit::SharedSession;
use crate::kit::*;

/// Sleeps for a second, three times.
struct Napper;

#[async_trait]
impl BehaviorPattern for Napper {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        for nap in 0..3 {
            step.sleep_for(&format!("nap-{nap}"), ms(1_000)).await?;
        }
        Ok(StepEnd::Done)
    }
}

/// C508: a process that finds a session in use does its work once its owner has died.
#[tokio::test(start_paused = true)]
async fn the_work_of_an_owner_that_died_is_done_by_another_process() {
    let clock = SharedSession::opened().clock();
    let model = ScriptedModel::new([]);
    let agent = GenericAgent::builder(model, Napper).environment(clock).build().unwrap();
    let store = InMemoryStore::new();
    let handle = agent.open(&store, "s").await.unwrap();
    handle.prompt("Sleep.").await.unwrap();
    handle.close().await;
    let owner = store.open("s").await.unwrap();
    let working = async {
        sleep(ms(5_000)).await; // it has looked when the timer rang
        assert!(store.session("s").await.unwrap().wakes_at().is_some());
        drop(owner);
        sleep(ms(20_000)).await;
        assert_eq!(store.session("s").await.unwrap().wakes_at(), None);
    };
    tokio::select! {
        () = working => {}
        never = agent.keep_running_due(&store) => match never {},
    }
}

/// C508: a process that does due work rings each timer of a session in time, however soon it
/// follows the last.
#[tokio::test(start_paused = true)]
async fn timers_that_follow_soon_ring_in_time() {
    let model = ScriptedModel::new([]);
    let clock = SharedSession::opened().clock();
    let agent = GenericAgent::builder(model, Napper).environment(clock).build().unwrap();
    let store = InMemoryStore::new();
    let handle = agent.open(&store, "s").await.unwrap();
    handle.prompt("Sleep.").await.unwrap();
    handle.close().await;
    let ended = async {
        sleep(ms(3_100)).await;
        let info = store.session("s").await.unwrap();
        assert_eq!((info.run, info.wakes_at(), info.waits.len()), (None, None, 3));
    };
    tokio::select! {
        () = ended => {}
        never = agent.keep_running_due(&store) => match never {},
    }
}
