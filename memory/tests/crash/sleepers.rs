//! Kills of processes that wake sleeping agents, and carry out schedules.

use std::collections::{BTreeSet, HashMap};
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use loopwright_core::testing::ScriptedModel;
use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
use loopwright_core::{Environment, SessionStore, SystemEnvironment};
use loopwright_core::{agent::*, event::*, log::*, message::*};
use serde::{Deserialize, Serialize};
use tempfile::TempDir;
use tokio::process::Command;
use tokio::task;

use crate::case::next_random;
use crate::kills_and_seed;
use crate::stores::{self, Kind};

/// The environment variable with the [`Orders`] of a process.
pub(crate) const ORDERS: &str = "LOOPWRIGHT_SLEEPER_ORDERS";

/// The number of sessions, and of timers or single times in each.
const SESSIONS: usize = 12;
const NAPS: u64 = 4;

/// The time of each timer.
const NAP: Duration = Duration::from_millis(30);

#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    store: Kind,
    directory: PathBuf,
    naps: bool,
    /// The seed of the errors of the process's clock.
    seed: u64,
}

/// The longest jump of a clock, in milliseconds.
const MAX_ERROR: i64 = 500;

/// The time between two jumps of a clock.
const JUMP_INTERVAL: Duration = Duration::from_millis(300);

/// The clock of a process, which is wrong, and jumps forward and back. A task, such as an open
/// session, has the error of its first look for its whole life: otherwise the clock could jump
/// between the decision that a timer rings and the time in the log.
#[derive(Clone, Default)]
struct JumpingClock {
    /// In milliseconds.
    error: Arc<AtomicI64>,
    errors_of_tasks: Arc<Mutex<HashMap<task::Id, i64>>>,
}

impl JumpingClock {
    fn jump(&self, seed: &mut u64) {
        let range = 2 * MAX_ERROR as u64 + 1;
        let error = (next_random(seed) % range) as i64 - MAX_ERROR;
        self.error.store(error, Ordering::Relaxed);
    }

    async fn keep_jumping(&self, mut seed: u64) {
        loop {
            self.jump(&mut seed);
            tokio::time::sleep(JUMP_INTERVAL).await;
        }
    }
}

impl Environment for JumpingClock {
    fn now(&self) -> u64 {
        let error = self.error.load(Ordering::Relaxed);
        let error = match task::try_id() {
            Some(id) => *self.errors_of_tasks.lock().unwrap().entry(id).or_insert(error),
            None => error,
        };
        SystemEnvironment.now().saturating_add_signed(error)
    }

    fn random(&self) -> u64 {
        SystemEnvironment.random()
    }
}

/// Sleeps again and again, if at all, with two timers at once, waits for a signal, and counts in
/// the conversation. If a timer ends inside a run, it also says when, since no entry of the log
/// does.
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
            let [key, next] = [nap, nap + 1].map(|nap| format!("nap-{nap}"));
            if nap % 2 == 0 && step.wait(&next).is_none() {
                let _sleeping = step.sleep_for(&next, NAP).await;
            }
            let has_rung = step.wait(&key).is_some_and(|wait| wait.ended);
            step.sleep_for(&key, NAP).await?;
            let at = if has_rung { String::new() } else { format!(" at {}", step.now()) };
            step.set_state("awoken", nap + 1)?; // is written with the message
            step.remember(UserMessage::from(format!("awake {nap}{at}"))).await?;
        }
        let value = step.wait_for_event("go", None).await?;
        if step.state("went") != Some(true) {
            step.set_state("went", true)?;
            step.remember(UserMessage::from(format!("went {value:?}"))).await?;
        }
        Ok(StepEnd::Done)
    }
}

fn agent(clock: impl Environment + 'static, naps: bool) -> GenericAgent {
    let builder = GenericAgent::builder(ScriptedModel::new([]), Napper(naps));
    builder.environment(clock).build().expect("an agent")
}

/// Runs the orders in the environment variable [`ORDERS`] until the process is killed.
pub(crate) async fn run() {
    let orders = std::env::var(ORDERS).expect("the process has orders");
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    let store = orders.store.open(&orders.directory).await;
    let clock = JumpingClock::default();
    let agent = agent(clock.clone(), orders.naps);
    tokio::join!(clock.keep_jumping(orders.seed), async {
        match agent.keep_running_due(&store).await {}
    });
}

/// C508 C539: two processes, whose clocks jump forward and back between and during their lives,
/// wake sleeping agents, and are killed at random times: each timer rings once, and never early by
/// the clock of the process that rings it, also if it ends inside a run. Each signal arrives once.
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
        let agent = agent(SystemEnvironment, true);
        let handle = agent.open(&store, format!("s{n}")).await.expect("it is opened");
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
    let mut inside = 0;
    for n in 0..SESSIONS {
        inside += check(&store.read(&format!("s{n}"), 0).await.expect("the log is read"));
    }
    println!("{kind:?}: {inside} timers have ended inside a run");
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
    let start = |seed| {
        let orders = Orders { store: kind, directory: folder.path().into(), naps, seed };
        let mut process = Command::new(std::env::current_exe().expect("this program"));
        process.args(["sleeper", "--exact", "--ignored", "--nocapture"]).kill_on_drop(true);
        process.env(ORDERS, serde_json::to_string(&orders).expect("JSON"));
        process.stdout(Stdio::null()).spawn().expect("a process starts")
    };
    let mut processes = [*seed, seed.wrapping_add(1)].map(start);
    let (began, mut killed) = (Instant::now(), 0);
    while !is_done().await {
        assert!(began.elapsed() < Duration::from_secs(300), "it is not done");
        if killed < kills && next_random(seed).is_multiple_of(8) {
            let one = next_random(seed) as usize % 2;
            processes[one].kill().await.expect("it is killed");
            processes[one] = start(*seed);
            killed += 1;
        }
    }
    println!("{kind:?}: {SESSIONS} sessions, {killed} kills");
    for process in &mut processes {
        process.kill().await.expect("it is killed");
    }
}

/// C528: two processes carry out schedules, and are killed at random times: each time is posted
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
    let now = schedules.now().await.expect("the store has a clock");
    for n in 0..SESSIONS {
        let (session, ring) = (format!("s{n}"), || InputEvent::UserRequest("Ring.".into()));
        let agent = agent(SystemEnvironment, false);
        agent.open(&store, &*session).await.expect("it is opened").close().await;
        for nap in 0..NAPS {
            let id = format!("once-{nap}");
            let once = Schedule::once(&*session, id, now + 100 * nap, ring());
            schedules.put(&once).await.expect("it is stored");
        }
        let often = Schedule::repeat(&*session, "often", "* * * * * *", None, now, ring());
        schedules.put(&often.expect("a cron expression")).await.expect("it is stored");
    }
    let mut posted = BTreeSet::new();
    kill_until(kind, &folder, false, kills, seed, async || {
        let infos = store.sessions().await.expect("the sessions are listed");
        for info in infos.iter().filter(|info| info.held.is_some()) {
            resume(&store, &info.id, false).await;
        }
        let left = schedules.page(&ScheduleQuery::new(1_000)).await.expect("they are listed");
        let rings = |schedule: &Schedule| schedule.last.is_none();
        let is_busy = |info: &SessionInfo| info.run.is_some() || info.unread > 0;
        left.schedules.len() == SESSIONS
            && !left.schedules.iter().any(rings)
            && !infos.iter().any(is_busy)
    })
    .await;
    for n in 0..SESSIONS {
        let log = store.read(&format!("s{n}"), 0).await.expect("the log is read");
        check_log(&log).expect("a valid log");
        for entry in &log {
            if let LogEntry::Queued { input, .. } = entry {
                assert!(posted.insert(input.clone()), "{input} is queued twice");
            }
        }
        let once = posted.iter().filter(|input| input.starts_with("schedule:once-"));
        assert_eq!(once.count() as u64, NAPS * (n as u64 + 1), "{posted:?}");
    }
}

/// Posts the signal of a session, which changes nothing if it was posted before.
async fn signal(store: &dyn SessionStore, id: &str) {
    let event = InputEvent::Signal { key: "go".into(), value: 7.into() };
    let posted = PostedInput::new("signal", event).expect("it can be posted");
    store.post(id, &posted).await.expect("it is posted");
}

/// Continues work that is held because kills ended two of its owners, as a person would. It can be
/// an input in the mailbox, whose run starts later.
async fn resume(store: &Arc<dyn SessionStore>, id: &str, naps: bool) {
    let context = match RunContext::new().stored(store, id).await {
        Err(MemoryError::InUse(_)) => return,
        context => context.expect("the session is opened"),
    };
    let agent = agent(SystemEnvironment, naps);
    let (handle, _events) = agent.run(context).await.expect("the session is resumed");
    if handle.state().await.expect("the session is open").held.is_some() {
        handle.send(InputEvent::Continue(None)).await.expect("the work continues");
    }
    handle.wait_for_idle().await;
    handle.close().await;
}

fn is_done(info: &SessionInfo) -> bool {
    info.waits.iter().filter(|wait| wait.ended).count() as u64 == NAPS + 1
}

/// Checks that each timer of a log rang once, not before its time, and that the pattern continued
/// once. Returns the number of timers that ended inside a run and whose time is known.
fn check(log: &[LogEntry]) -> usize {
    check_log(log).expect("a valid log");
    let (mut started, mut rang, mut signals) = (0, 0, 0);
    let mut set = HashMap::new();
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
            LogEntry::WaitEnded { .. } => rang += 1, // its time is in the pattern's message
            _ => {}
        }
    }
    assert!(started > 0);
    assert_eq!((rang, signals), (NAPS, 1), "{log:#?}");
    let messages = replay_messages(log);
    let awake = messages.iter().map(|message| message.text());
    let awake: Vec<String> =
        awake.filter_map(|text| Some(text.strip_prefix("awake ")?.to_owned())).collect();
    assert_eq!(awake.len() as u64, NAPS);
    let mut inside = 0;
    for (nap, time) in awake.iter().filter_map(|text| text.split_once(" at ")) {
        let (key, time) = (format!("nap-{nap}"), time.parse::<u64>().expect("a time"));
        assert!(time >= set[&*key], "{key} ended early, at {time}: {log:#?}");
        inside += 1;
    }
    assert_eq!(
        messages.last().map(|message| message.text()).as_deref(),
        Some("went Some(Number(7))")
    );
    inside
}
