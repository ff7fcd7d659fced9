//! The process that is killed: it opens a session, continues its predecessor's work, and exits when
//! all work is done.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loopwright_core::AgentHandle;
use loopwright_core::{agent::*, event::*, log::*};
use loopwright_patterns::PiPattern;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::scenario::{self, ExtraInput, InputKind, SCENARIOS, Scenario, Trigger};
use crate::stores::{Kind, open_session};

/// The environment variable with a child's [`Orders`].
pub(crate) const ORDERS: &str = "LOOPWRIGHT_CRASH_ORDERS";

/// The orders of a child.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) store: Kind,
    /// The directory of the store.
    pub(crate) directory: PathBuf,
    pub(crate) session: String,
    /// The folder for records of the child: events and receipts (`events`), and the runs of its
    /// tools (`tool-runs`).
    pub(crate) record: PathBuf,
    pub(crate) scenario: usize,
    /// `true` if the child resolves pending actions. Otherwise, once only such actions are left, it
    /// prints `awaiting` and waits.
    pub(crate) decides: bool,
    /// `true` if pending actions are resolved before an interrupted run continues.
    pub(crate) decides_first: bool,
    pub(crate) kill: Option<KillPoint>,
}

/// The time at which a child kills itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum KillPoint {
    /// Before the append with this number.
    Before(u64),
    /// After the append with this number. Every change of the session counts as an append.
    After(u64),
    /// Before an append with an entry of this type.
    BeforeEntry(String),
    /// After an append with an entry of this type.
    AfterEntry(String),
}

/// A memory that kills its process at an append.
struct KillingMemory {
    inner: Arc<dyn Memory>,
    kill: Option<KillPoint>,
    appends: AtomicU64,
}

#[async_trait]
impl Memory for KillingMemory {
    async fn append(&self, at: u64, entries: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let now = self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        let has = |kind: &str| {
            entries.iter().any(|entry| {
                serde_json::to_value(entry).expect("an entry is JSON")["type"] == *kind
            })
        };
        for _ in 0..3 {
            // Like a slow disk, so that an event that is emitted too early is recorded.
            tokio::task::yield_now().await;
        }
        if matches!(&self.kill, Some(KillPoint::Before(n)) if *n == now)
            || matches!(&self.kill, Some(KillPoint::BeforeEntry(kind)) if has(kind))
        {
            die();
        }
        let done = self.inner.append(at, entries.clone()).await;
        if matches!(&self.kill, Some(KillPoint::After(n)) if *n == now)
            || matches!(&self.kill, Some(KillPoint::AfterEntry(kind)) if has(kind))
        {
            die();
        }
        done
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.inner.load(from).await
    }
}

fn die() -> ! {
    let _ = kill_process(getpid(), Signal::KILL);
    unreachable!("a process outlives SIGKILL")
}

/// Opens a file for appending.
pub(crate) fn open_for_append(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).expect("the record can be opened")
}

/// The user of the agent, who sends requests and decisions, and interrupts.
struct User {
    orders: Orders,
    scenario: &'static Scenario,
    handle: AgentHandle,
    events: EventStream,
    record: Arc<File>,
    /// The inputs that this process has sent, or need not send.
    sent: HashSet<String>,
    /// The extra inputs in progress.
    sending: JoinSet<()>,
}

/// Runs the orders in the environment variable [`ORDERS`].
pub(crate) async fn run() {
    let orders = std::env::var(ORDERS).expect("a child has orders");
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    let scenario = &SCENARIOS[orders.scenario];
    let record = Arc::new(open_for_append(&orders.record.join("events")));
    let tool_runs = Arc::new(open_for_append(&orders.record.join("tool-runs")));
    for file in [&record, &tool_runs] {
        // Terminates the unfinished line of a killed process, and marks it with an empty line.
        (&**file).write_all(b"\n\n").expect("the record can be written");
    }
    write_line(&record, "started", json!(std::process::id()));
    let store = orders.store.open(&orders.directory).await;
    let inner = open_session(&*store, &orders.session).await;
    let known = inner.load(0).await.expect("the session can be read");
    let killing = KillingMemory { inner, kill: orders.kill.clone(), appends: AtomicU64::new(0) };
    let agent =
        GenericAgent::builder(scenario::Model::new(), PiPattern).tools(scenario::tools(&tool_runs));
    let agent =
        agent.while_awaiting(scenario.while_awaiting).compaction(scenario::Compactor).build();
    let mut cx = RunContext::new().session(&*orders.session).memory(killing);
    if let Some(KillPoint::After(_)) = orders.kill {
        cx = cx.append_each();
    }
    let (handle, events) = agent.expect("an agent").run(cx).await.expect("the session is resumed");
    let mut user = User {
        orders,
        scenario,
        handle,
        events,
        record,
        sent: HashSet::new(),
        sending: JoinSet::new(),
    };
    if known.iter().any(|entry| matches!(entry, LogEntry::AbortRequested { .. })) {
        user.sent.insert("abort".into()); // it has no id, so it would abort twice
    }
    let is_new = |id: &str| {
        !known.iter().any(|entry| matches!(entry, LogEntry::Queued { input, .. } if **input == *id))
    };
    let new: Vec<_> = scenario.requests.iter().filter(|(id, _)| is_new(id)).collect();
    match scenario.requests_before_continue && !new.is_empty() {
        true => user.play(new).await,
        false => {
            user.continue_run().await;
            // Inputs that are already known must change nothing.
            user.play(scenario.requests.iter().collect()).await;
        }
    }
    user.close().await;
}

/// Writes a line of the record at once.
fn write_line(record: &File, kind: &str, data: Value) {
    let line = format!("{}\n", json!({kind: data}));
    (&*record).write_all(line.as_bytes()).expect("the record can be written");
}

impl User {
    /// Sends these requests, and at the end the extra inputs that have not been sent.
    async fn play(&mut self, requests: Vec<&(&str, &str)>) {
        for (id, text) in requests {
            self.send(id, InputEvent::UserRequest((*text).into()).with_id(*id)).await;
            self.finish_work().await;
        }
        for extra in self.scenario.extra_inputs {
            if extra.kind.has_id() && self.sent.insert(extra.id.into()) {
                self.send(extra.id, input(extra)).await;
            }
        }
        self.finish_work().await;
    }

    /// Waits until only new requests could cause more work.
    async fn finish_work(&mut self) {
        loop {
            self.idle().await;
            while !self.sending.is_empty() {
                let mut sending = std::mem::take(&mut self.sending);
                let all = async {
                    while let Some(sent) = sending.join_next().await {
                        sent.expect("an extra input is accepted");
                    }
                };
                self.until(all).await;
                self.idle().await;
            }
            if self.decide().await {
                continue;
            }
            let handle = self.handle.clone();
            let state = self.until(handle.state()).await.expect("the session is open");
            let waits = !state.steering_queue.is_empty() || !state.follow_up_queue.is_empty();
            if !waits && state.interrupted_run.is_none() && state.held.is_none() {
                return;
            }
            self.until(handle.continue_run()).await.expect("queued messages can be processed");
        }
    }

    async fn idle(&mut self) {
        let handle = self.handle.clone();
        self.until(handle.wait_for_idle()).await;
    }

    /// Continues an interrupted run, or a run that is held after several interruptions.
    async fn continue_run(&mut self) {
        if self.orders.decides_first {
            self.decide().await;
        }
        let handle = self.handle.clone();
        let state = self.until(handle.state()).await.expect("the session is open");
        if state.interrupted_run.is_some() || state.held.is_some() {
            match self.until(handle.continue_run()).await {
                Ok(_) | Err(InputError::Busy) => {}
                Err(error) => panic!("an interrupted run does not continue: {error}"),
            }
        }
    }

    /// Resolves all pending actions. Returns `false` if no action was pending.
    async fn decide(&mut self) -> bool {
        let handle = self.handle.clone();
        let pending = self.until(handle.pending()).await.expect("the session is open");
        if !pending.is_empty() && !self.orders.decides {
            println!("\nawaiting");
            return self.until(std::future::pending()).await;
        }
        for action in &pending {
            let id = format!("decision-{}-{}", action.call, action.digest);
            let result = ActionResult::new(
                action.call.clone(),
                action.digest.clone(),
                scenario::decision(action),
            );
            let event = InputEvent::ExternalActionResult(result.by("the user"));
            let sent = handle.send(event.with_id(&*id));
            match self.until(sent).await {
                Ok(id) => write_line(&self.record, "receipt", json!(id)),
                Err(InputError::NotPending(_)) => {} // a steer was faster
                Err(error) => panic!("the decision for {} is refused: {error}", action.name),
            }
        }
        !pending.is_empty()
    }

    async fn send(&mut self, id: &str, input: impl Into<Input>) {
        let handle = self.handle.clone();
        let receipt = self.until(handle.send(input)).await;
        receipt.unwrap_or_else(|error| panic!("{id} is refused: {error}"));
        write_line(&self.record, "receipt", json!(id));
    }

    /// Records the events of the session until `work` is done.
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! { biased;
                event = self.events.next() => {
                    self.record_event(&event.expect("the session is open"));
                }
                done = &mut work => return done,
            }
        }
    }

    fn record_event(&mut self, envelope: &Envelope) {
        write_line(
            &self.record,
            "event",
            serde_json::to_value(envelope).expect("an event is JSON"),
        );
        let is_now = |trigger: &Trigger| match (&envelope.event, trigger) {
            (AgentEvent::ToolExecutionStart { name, .. }, Trigger::ToolStarts(tool)) => {
                **name == **tool
            }
            (AgentEvent::MessageUpdate { message_id, .. }, Trigger::Streams(id)) => {
                message_id.0 == *id
            }
            (AgentEvent::ExternalAction(_), Trigger::Awaiting) => true,
            _ => false,
        };
        let now: Vec<&'static ExtraInput> =
            self.scenario.extra_inputs.iter().filter(|extra| is_now(&extra.trigger)).collect();
        let mut new: Vec<&ExtraInput> =
            now.into_iter().filter(|extra| self.sent.insert(extra.id.into())).collect();
        if new.is_empty() {
            return;
        }
        let handle = self.handle.clone();
        let record = self.record.clone();
        self.sending.spawn(async move {
            for extra in new.drain(..) {
                let receipt = handle.send(input(extra)).await;
                receipt.unwrap_or_else(|error| panic!("{} is refused: {error}", extra.id));
                if matches!(extra.kind, InputKind::Compact) {
                    continue; // it changes nothing if no compaction is possible
                }
                write_line(&record, "receipt", json!(extra.id));
            }
        });
    }

    /// Closes the session and records its last events.
    async fn close(self) {
        let User { handle, mut events, record, .. } = self;
        drop(handle);
        while let Some(event) = events.next().await {
            write_line(&record, "event", serde_json::to_value(&*event).expect("an event is JSON"));
        }
    }
}

fn input(extra: &ExtraInput) -> Input {
    let prompt = Prompt::from(extra.text);
    let event = match extra.kind {
        InputKind::Steer(urgency) => InputEvent::Steer(prompt.urgency(urgency)),
        InputKind::FollowUp => InputEvent::FollowUp(prompt),
        InputKind::Request => InputEvent::UserRequest(prompt),
        InputKind::Abort => return InputEvent::Abort(AbortRequest::new()).into(),
        InputKind::Compact => return InputEvent::Compact(None).into(),
    };
    event.with_id(extra.id)
}
