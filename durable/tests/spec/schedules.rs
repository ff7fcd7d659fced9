//! Schedules.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use loopwright_core::event::InputEvent;
use loopwright_core::log::{Cron, InMemoryStore, InvalidSchedule, LogEntry, Schedule};
use loopwright_core::testing::Script;
use loopwright_core::{Environment, SessionStore, SystemEnvironment};
use loopwright_durable::{Cluster, ClusterError, Driver, Leases, Placement, PlacementError};

use crate::cluster::{agent, until_end, worker};

fn request(text: &str) -> InputEvent {
    InputEvent::UserRequest(text.into())
}

/// C339: a schedule posts its input once, at its time, regardless of the number of workers.
#[tokio::test]
async fn an_input_is_posted_at_its_time_once() {
    let store = InMemoryStore::new();
    let agent = agent([Script::text("Good morning."), Script::text("Again.")]);
    let (a, b) = (worker(&store, &agent).await, worker(&store, &agent).await);
    let session = a.session("s");
    let now = SystemEnvironment.now();
    session.schedule("late", now + 3_600_000, request("Later.")).await.unwrap();
    session.schedule("soon", now + 200, request("Never.")).await.unwrap();
    session.schedule("soon", now + 300, request("Wake up.")).await.unwrap(); // replaces it
    let mut events = b.session("s").events(0);
    assert_eq!(until_end(&mut events).await.1, "Good morning.");
    let queued = |entry: &LogEntry| matches!(entry, LogEntry::Queued { .. });
    let log = store.read("s", 0).await.unwrap();
    assert_eq!(log.iter().filter(|entry| queued(entry)).count(), 1);
    assert!(log.iter().any(|entry| {
        let id = entry.input().map(|id| &**id).unwrap_or_default();
        id.starts_with("schedule:soon:") && id.ends_with(&format!(":{}", now + 300))
    }));
    let rest = b.session("s").schedules().await.unwrap();
    assert_eq!(rest.iter().map(|it| &*it.id).collect::<Vec<_>>(), ["late"]);
    assert!(b.session("s").unschedule("late").await.unwrap());
    assert!(!b.session("s").unschedule("late").await.unwrap());

    session.repeat("each second", "* * * * * *", None, request("Tick.")).await.unwrap();
    assert_eq!(until_end(&mut events).await.1, "Again.");
    let next = session.schedules().await.unwrap()[0].next;
    assert!(next > now, "it has a next time");
    assert!(session.unschedule("each second").await.unwrap());
}

/// C339: a failing schedule stays, and does not delay others.
#[tokio::test]
async fn a_schedule_that_fails_holds_up_no_other() {
    let store = InMemoryStore::new();
    let agent = agent([Script::text("Good morning.")]);
    let cluster = worker(&store, &agent).await;
    let session = cluster.session("s");
    session.schedule("later", SystemEnvironment.now() + 300, request("Wake up.")).await.unwrap();
    let mut bad = Schedule::once("s", "bad", 1, request("Never."));
    bad.cron = Some("never".into());
    store.schedules().unwrap().put(&bad).await.unwrap();
    assert_eq!(until_end(&mut session.events(0)).await.1, "Good morning.");
    let left = session.schedules().await.unwrap();
    assert!(left.len() == 1 && left[0].next == 1 && left[0].again_at.is_some(), "{left:?}");
}

/// Leases that wake nothing, so that only sweeps find due sessions.
struct Sweeps(Leases);

#[async_trait]
impl Placement for Sweeps {
    async fn wake(&self, _session: &str) -> Result<(), PlacementError> {
        Err(PlacementError::new("nothing is woken"))
    }

    async fn wake_at(&self, _session: &str, _time: u64) -> Result<(), PlacementError> {
        Err(PlacementError::new("nothing is woken"))
    }

    async fn start(&self, driver: Arc<dyn Driver>) -> Result<(), PlacementError> {
        self.0.start(driver).await
    }

    async fn stop(&self) {
        self.0.stop().await;
    }
}

/// C339: a posted input is not posted again because its session could not be woken.
#[tokio::test]
async fn a_session_that_cannot_be_woken_gets_its_input_once() {
    let store = InMemoryStore::new();
    let memory = store.open("s").await.unwrap();
    memory.append(0, [LogEntry::Reset].into()).await.unwrap();
    drop(memory);
    let schedule = Schedule::once("s", "soon", 1, request("Wake up."));
    store.schedules().unwrap().put(&schedule).await.unwrap();
    let placement = Sweeps(Leases::with_sweep(Duration::from_millis(50)));
    let builder = Cluster::builder(store.clone(), agent([Script::text("Good morning.")]));
    let cluster = builder.placement(placement).start().await.unwrap();
    let session = cluster.session("s");
    assert_eq!(until_end(&mut session.events(0)).await.1, "Good morning.");
    assert!(session.schedules().await.unwrap().is_empty(), "nothing is left to be posted");
}

/// C339: cron expressions follow the clock of their time zone, and invalid ones are refused.
#[tokio::test]
async fn cron_expressions_follow_the_clock_of_their_zone() {
    let hour = Duration::from_secs(3600).as_millis() as u64;
    let daily = Cron::new("30 2 * * *", Some("Europe/Berlin")).unwrap();
    // On 2026-03-29 the clock goes from 2:00 to 3:00, and on 2026-10-25 from 3:00 to 2:00.
    let before_summer: u64 = 1_774_656_000_000; // 2026-03-28T00:00Z
    let at = daily.next_after(before_summer).unwrap();
    assert_eq!(at, before_summer + hour + hour / 2);
    let skipped = daily.next_after(at).unwrap();
    assert!(skipped > at && skipped <= at + 24 * hour, "{skipped}");
    let before_winter: u64 = 1_792_879_200_000; // 2026-10-24T22:00Z
    let first = daily.next_after(before_winter).unwrap();
    let next = daily.next_after(first).unwrap();
    assert!(next - first >= 24 * hour, "the hour that is repeated is carried out once");

    for (cron, zone, expected) in [
        ("9 o'clock", None, "`9 o'clock` is no cron expression"),
        ("0 9 * * *", Some("Moon/Base"), "there is no time zone `Moon/Base` on this machine"),
    ] {
        let error = Cron::new(cron, zone).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let store = InMemoryStore::new();
    let cluster = worker(&store, &agent([])).await;
    let never = cluster.session("s").repeat("x", "0 0 30 2 *", None, request("?")).await;
    assert!(matches!(never, Err(ClusterError::Schedule(_))), "{never:?}");
    let past = cluster.session("s").schedule("x", 0, InputEvent::Reset).await;
    assert!(matches!(past, Err(ClusterError::Schedule(InvalidSchedule::Input(_)))), "{past:?}");
}
