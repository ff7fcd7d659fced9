//! Kills of processes that wake sleeping agents, and carry out schedules.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use loopwright_core::testing::ScriptedModel;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
use loopwright_core::{Environment, SessionStore, SystemEnvironment};
use loopwright_core::{agent::*, event::*, log::*, message::*};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::process::Command;

use crate::case::next_random;
use crate::kills_and_seed;
use crate::stores::{self, Kind};

/// The environment variable with the [`Orders`] of a process.
pub(crate) const ORDERS: &str = "LOOPWRIGHT_SLEEPER_ORDERS";

/// The number of sessions, and of timers or single times in each.
const SESSIONS: usize = 12;
const NAPS: u64 = 4;

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    store: Kind,
    directory: PathBuf,
    naps: bool,
    /// The error of the process's clock in milliseconds.
    clock_error: i64,
}

/// The clock of a process, which is wrong.
struct WrongClock(i64);

impl Environment for WrongClock {
    fn now(&self) -> u64 {
        SystemEnvironment.now().saturating_add_signed(self.0)
    }

    fn random(&self) -> u64 {
        SystemEnvironment.random()
    }
}

/// Sleeps again and again, if at all, waits for a signal, and counts in the conversation.
struct Napper(bool);

#[async_trait]
impl BehaviorPattern for Napper {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        step.take_input().await?;
        if !self.0 {
            return Ok(StepEnd::Done);
        }
        let awoken: u64 = step.state("awoken").unwrap_or_default();
        for nap in awoken..NAPS {
            step.sleep_for(&format!("nap-{nap}"), Duration::from_millis(30)).await?;
            step.set_state("awoken", nap + 1)?; // is written with the message
            step.remember(UserMessage::from(format!("awake {nap}"))).await?;
        }
        let value = step.wait_for_event("go", None).await?;
        if step.state("went") != Some(true) {
            step.set_state("went", true)?;
            step.remember(UserMessage::from(format!("went {value:?}"))).await?;
        }
        Ok(StepEnd::Done)
    }
}

fn agent(clock_error: i64, naps: bool) -> GenericAgent {
    let builder = GenericAgent::builder(ScriptedModel::new([]), Napper(naps));
    builder.environment(WrongClock(clock_error)).build().expect("an agent")
}

/// Runs the orders in the environment variable [`ORDERS`] until the process is killed.
pub(crate) async fn run() {
    let orders = std::env::var(ORDERS).expect("the process has orders");
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    let store = orders.store.open(&orders.directory).await;
    match agent(orders.clock_error, orders.naps).keep_running_due(&store).await {}
}

/// C508: two processes with different clocks wake sleeping agents, and are killed at random times:
/// each timer rings once, and never early by the clock of the process that rings it. Each signal
/// arrives once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn timers_ring_once_whatever_is_killed() {
    let (kills, seed) = kills_and_seed();
    for &kind in stores::all() {
        timers_ring_once(kind, kills.min(40), seed).await;
    }
}

async fn timers_ring_once(kind: Kind, kills: usize, mut seed: u64) {
    let folder = TempDir::new().expect("a temporary directory");
    let _server = kind.serve(folder.path());
    let store = kind.open(folder.path()).await;
    for n in 0..SESSIONS {
        let handle = agent(0, true).open(&store, format!("s{n}")).await.expect("it is opened");
        assert_eq!(handle.prompt("Sleep.").await.unwrap().end, RunStatus::Sleeping);
        handle.close().await;
        if n % 2 == 0 {
            signal(&*store, &format!("s{n}")).await; // before the agent waits for it
        }
    }
    let is_asleep = |info: &SessionInfo| info.run.is_some() || !is_done(info);
    kill_until(kind, &folder, true, kills, &mut seed, async || {
        let infos = store.sessions().await.expect("the sessions are listed");
        for info in &infos {
            if info.held.is_some() {
                resume(&store, &info.id, true).await;
            }
            if info.waits.last().is_some_and(|wait| wait.for_signal && wait.signal.is_none()) {
                signal(&*store, &info.id).await;
            }
        }
        !infos.iter().any(is_asleep)
    })
    .await;
    for n in 0..SESSIONS {
        check(&store.read(&format!("s{n}"), 0).await.expect("the log is read"));
    }
}

/// Lets two processes work, and kills them at random times, until `is_done`.
async fn kill_until(
    kind: Kind,
    folder: &TempDir,
    naps: bool,
    kills: usize,
    seed: &mut u64,
    is_done: impl AsyncFn() -> bool,
) {
    let start = |clock_error| {
        let directory = folder.path().into();
        let orders = Orders { store: kind, directory, naps, clock_error };
        let mut process = Command::new(std::env::current_exe().expect("this program"));
        process.args(["sleeper", "--exact", "--ignored", "--nocapture"]).kill_on_drop(true);
        process.env(ORDERS, serde_json::to_string(&orders).expect("JSON"));
        process.stdout(Stdio::null()).spawn().expect("a process starts")
    };
    let errors = [0, -400];
    let mut processes = errors.map(start);
    let (began, mut killed) = (Instant::now(), 0);
    while !is_done().await {
        assert!(began.elapsed() < Duration::from_secs(300), "it is not done");
        if killed < kills && next_random(seed).is_multiple_of(8) {
            let one = next_random(seed) as usize % 2;
            processes[one].kill().await.expect("it is killed");
            processes[one] = start(errors[one]);
            killed += 1;
        }
    }
    println!("{kind:?}: {SESSIONS} sessions, {killed} kills");
    for process in &mut processes {
        process.kill().await.expect("it is killed");
    }
}

/// C531: two processes carry out schedules, and are killed at random times: each time is posted
/// once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn schedules_are_carried_out_once_whatever_is_killed() {
    let (kills, mut seed) = kills_and_seed();
    for &kind in stores::all() {
        schedules_are_carried_out_once(kind, kills.min(40), &mut seed).await;
    }
}

async fn schedules_are_carried_out_once(kind: Kind, kills: usize, seed: &mut u64) {
    let folder = TempDir::new().expect("a temporary directory");
    let _server = kind.serve(folder.path());
    let store = kind.open(folder.path()).await;
    let schedules = store.schedules().expect("the store has schedules");
    let now = SystemEnvironment.now();
    for n in 0..SESSIONS {
        let (session, ring) = (format!("s{n}"), || InputEvent::UserRequest("Ring.".into()));
        agent(0, false).open(&store, &*session).await.expect("it is opened").close().await;
        for nap in 0..NAPS {
            let id = format!("once-{nap}");
            let once = Schedule::once(&*session, id, now + 100 * nap, ring());
            schedules.put(&once).await.expect("it is stored");
        }
        let often = Schedule::repeat(&*session, "often", "* * * * * *", None, now, ring());
        schedules.put(&often.expect("a cron expression")).await.expect("it is stored");
    }
    kill_until(kind, &folder, false, kills, seed, async || {
        let infos = store.sessions().await.expect("the sessions are listed");
        for info in infos.iter().filter(|info| info.held.is_some()) {
            resume(&store, &info.id, false).await;
        }
        let left = schedules.page(&ScheduleQuery::new(1_000)).await.expect("they are listed");
        let is_busy = |info: &SessionInfo| info.run.is_some() || info.unread > 0;
        left.schedules.len() == SESSIONS && !infos.iter().any(is_busy)
    })
    .await;
    for n in 0..SESSIONS {
        let log = store.read(&format!("s{n}"), 0).await.expect("the log is read");
        check_log(&log).expect("a valid log");
        let queued = |entry: &LogEntry| match entry {
            LogEntry::Queued { input, .. } => Some(input.clone()),
            _ => None,
        };
        let inputs: Vec<InputId> = log.iter().filter_map(queued).collect();
        let distinct: std::collections::BTreeSet<_> = inputs.iter().collect();
        assert_eq!(distinct.len(), inputs.len(), "{inputs:?}");
        let once = inputs.iter().filter(|input| input.starts_with("schedule:once-"));
        assert_eq!(once.count() as u64, NAPS, "{inputs:?}");
    }
}

/// Posts the signal of a session, which changes nothing if it was posted before.
async fn signal(store: &dyn SessionStore, id: &str) {
    let event = InputEvent::Signal { key: "go".into(), value: 7.into() };
    let posted = PostedInput::new("signal", event).expect("it can be posted");
    store.post(id, &posted).await.expect("it is posted");
}

/// Continues a run that is held because kills ended two of its owners, as a person would.
async fn resume(store: &Arc<dyn SessionStore>, id: &str, naps: bool) {
    let context = match RunContext::new().stored(store, id).await {
        Err(MemoryError::InUse(_)) => return,
        context => context.expect("the session is opened"),
    };
    let (handle, _events) = agent(0, naps).run(context).await.expect("the session is resumed");
    if handle.state().await.expect("the session is open").held.is_some() {
        handle.continue_run().await.expect("the run continues");
    }
    handle.wait_for_idle().await;
    handle.close().await;
}

fn is_done(info: &SessionInfo) -> bool {
    info.waits.iter().filter(|wait| wait.ended).count() as u64 == NAPS + 1
}

/// Checks that each timer of a log rang once, in time, and that the pattern continued once.
fn check(log: &[LogEntry]) {
    check_log(log).expect("a valid log");
    let (mut started, mut rang, mut signals) = (0, 0, 0);
    let mut set = std::collections::BTreeMap::new();
    for entry in log {
        match entry {
            LogEntry::WaitStarted { key, until, .. } => {
                set.insert(key.clone(), until.unwrap_or_default());
            }
            LogEntry::RunStarted { cause: RunCause::Timer(key), time, .. } => {
                assert!(*time >= set[key], "{key} rang early: {log:#?}");
                rang += 1;
            }
            LogEntry::RunStarted { cause: RunCause::Signal(_), .. } => signals += 1,
            LogEntry::RunStarted { time, .. } => started = *time,
            LogEntry::WaitEnded { key } if **key == *"go" => signals += 1,
            LogEntry::WaitEnded { .. } => rang += 1, // its time is in no entry
            _ => {}
        }
    }
    assert!(started > 0);
    assert_eq!((rang, signals), (NAPS, 1), "{log:#?}");
    let is_awake = |message: &&Arc<Message>| message.text().starts_with("awake");
    let messages = replay_messages(log);
    assert_eq!(messages.iter().filter(is_awake).count() as u64, NAPS);
    assert_eq!(
        messages.last().map(|message| message.text()).as_deref(),
        Some("went Some(Number(7))")
    );
}
