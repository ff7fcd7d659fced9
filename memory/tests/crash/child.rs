//! The process that is killed: it opens a session, goes on where the last one was killed, and ends
//! when all is done.

use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use async_trait::async_trait;
use loopwright_core::{
    agent::*, compaction::*, event::*, hooks::*, log::*, message::*, model::*, pattern::*, tool::*,
};
use loopwright_patterns::PiPattern;
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;

use crate::scenario::{self, Detached, SCENARIOS, Scenario, What, When};
use crate::stores::Kind;

/// The variable that has a child's [`Orders`].
pub(crate) const ORDERS: &str = "LOOPWRIGHT_CRASH_ORDERS";

/// What a child is to do.
#[derive(Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) store: Kind,
    /// Where the store is.
    pub(crate) place: PathBuf,
    pub(crate) session: String,
    /// Where the child writes down what it was told (`told`) and what its tools did (`ran`).
    pub(crate) notes: PathBuf,
    pub(crate) scenario: usize,
    /// Whether questions are answered; else the child says `resting` when it has nothing else to
    /// do, and rests.
    pub(crate) answers: bool,
    /// What is open is answered before an interrupted run goes on.
    pub(crate) answers_first: bool,
    pub(crate) dies: Option<Death>,
}

/// When a child kills itself.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Death {
    /// Right before the append with this number.
    Before(u64),
    /// Right after it.
    After(u64),
    /// Right before an append with an item of this type.
    BeforeItem(String),
    /// Right after it.
    AfterItem(String),
}

/// A memory whose process dies at an append.
struct Mortal {
    inner: Arc<dyn Memory>,
    dies: Option<Death>,
    appends: AtomicU64,
}

#[async_trait]
impl Memory for Mortal {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        let now = self.appends.fetch_add(1, Ordering::Relaxed) + 1;
        let has = |kind: &str| {
            items
                .iter()
                .any(|item| serde_json::to_value(item).expect("an item is JSON")["type"] == *kind)
        };
        for _ in 0..3 {
            tokio::task::yield_now().await; // as a disk takes its time: whoever is told too early writes it down
        }
        if matches!(&self.dies, Some(Death::Before(n)) if *n == now)
            || matches!(&self.dies, Some(Death::BeforeItem(kind)) if has(kind))
        {
            die();
        }
        let done = self.inner.append(at, items.clone()).await;
        if matches!(&self.dies, Some(Death::After(n)) if *n == now)
            || matches!(&self.dies, Some(Death::AfterItem(kind)) if has(kind))
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

/// Appends to a file that outlives its process.
pub(crate) fn appending(path: &Path) -> File {
    OpenOptions::new().append(true).create(true).open(path).expect("the notes can be opened")
}

/// The scenario's other side: it asks, answers and interrupts.
struct Outside {
    orders: Orders,
    scenario: &'static Scenario,
    handle: AgentHandle,
    events: EventStream,
    told: Arc<File>,
    /// Inputs that this process has sent, or that need not be sent again.
    sent: HashSet<String>,
    /// Asides on their way.
    sending: JoinSet<()>,
}

/// Carries out the orders of the environment.
pub(crate) async fn live() {
    let orders = std::env::var(ORDERS).expect("a child has orders");
    let orders: Orders = serde_json::from_str(&orders).expect("the orders are JSON");
    let scenario = &SCENARIOS[orders.scenario];
    let told = Arc::new(appending(&orders.notes.join("told")));
    let ran = Arc::new(appending(&orders.notes.join("ran")));
    for notes in [&told, &ran] {
        // Ends a line that the last process was killed in, and marks it with an empty one.
        (&**notes).write_all(b"\n\n").expect("notes can be written");
    }
    note(&told, "began", json!(std::process::id()));
    let inner = orders
        .store
        .at(&orders.place)
        .open(&orders.session)
        .await
        .expect("the session can be opened");
    let known = inner.load(0).await.expect("the session can be read");
    let mortal = Mortal { inner, dies: orders.dies.clone(), appends: AtomicU64::new(0) };
    let agent =
        GenericAgent::builder(scenario::Model::new(), PiPattern).tools(scenario::tools(&ran));
    let agent =
        agent.while_awaiting(scenario.while_awaiting).compaction(scenario::Compactor).build();
    let cx = RunContext::new().session(&*orders.session).memory(mortal);
    let (handle, events) = agent.expect("an agent").run(cx).await.expect("the session goes on");
    let mut outside = Outside {
        orders,
        scenario,
        handle,
        events,
        told,
        sent: HashSet::new(),
        sending: JoinSet::new(),
    };
    if known.iter().any(|item| matches!(item, LogEntry::AbortRequested { .. })) {
        outside.sent.insert("abort".into()); // it has no id of ours, so it would be another one
    }
    let is_new = |id: &str| {
        !known.iter().any(|item| matches!(item, LogEntry::Queued { input, .. } if **input == *id))
    };
    let new: Vec<_> = scenario.requests.iter().filter(|(id, _)| is_new(id)).collect();
    match scenario.impatient && !new.is_empty() {
        true => outside.play(new).await,
        false => {
            outside.go_on().await;
            outside.play(scenario.requests.iter().collect()).await; // what is known already must change nothing
        }
    }
    outside.close().await;
}

/// One line of what is told, written at once.
fn note(told: &File, kind: &str, data: Value) {
    let line = format!("{}\n", json!({kind: data}));
    (&*told).write_all(line.as_bytes()).expect("what is told is written down");
}

impl Outside {
    /// Makes these requests, and at the end says whatever has not been said.
    async fn play(&mut self, requests: Vec<&(&str, &str)>) {
        for (id, text) in requests {
            self.send(id, InputEvent::UserRequest(Prompt::from(*text).id(*id))).await;
            self.settle().await;
        }
        for detached in self.scenario.detached {
            if detached.what.has_id() && self.sent.insert(detached.id.into()) {
                let event = input(detached);
                self.send(detached.id, event).await;
            }
        }
        self.settle().await;
    }

    /// Until nothing is left to do but to ask for more.
    async fn settle(&mut self) {
        loop {
            self.idle().await;
            while !self.sending.is_empty() {
                let mut sending = std::mem::take(&mut self.sending);
                let all = async {
                    while let Some(sent) = sending.join_next().await {
                        sent.expect("an aside is taken");
                    }
                };
                self.until(all).await;
                self.idle().await;
            }
            if self.answer().await {
                continue;
            }
            let handle = self.handle.clone();
            let state = self.until(handle.state()).await.expect("the session lives");
            let waits = !state.steering_queue.is_empty() || !state.follow_up_queue.is_empty();
            if !waits && state.interrupted_run.is_none() {
                return;
            }
            self.until(handle.continue_run()).await.expect("what waits can be gone on with");
        }
    }

    async fn idle(&mut self) {
        let handle = self.handle.clone();
        self.until(handle.wait_for_idle()).await;
    }

    /// Goes on with a run that a kill has interrupted.
    async fn go_on(&mut self) {
        if self.orders.answers_first {
            self.answer().await;
        }
        let handle = self.handle.clone();
        let state = self.until(handle.state()).await.expect("the session lives");
        if state.interrupted_run.is_some() {
            match self.until(handle.continue_run()).await {
                Ok(_) | Err(InputError::Busy) => {}
                Err(error) => panic!("an interrupted run does not go on: {error}"),
            }
        }
    }

    /// Answers all that is asked; false if nothing was.
    async fn answer(&mut self) -> bool {
        let handle = self.handle.clone();
        let pending = self.until(handle.pending()).await.expect("the session lives");
        if !pending.is_empty() && !self.orders.answers {
            println!("\nresting");
            return self.until(std::future::pending()).await;
        }
        for action in &pending {
            let id = format!("answer-{}-{}", action.call, action.digest);
            let answer = ActionResult::new(
                action.call.clone(),
                action.digest.clone(),
                scenario::answer(action),
            );
            let sent =
                handle.send(InputEvent::ExternalActionResult(answer.by("the outside").id(&*id)));
            match self.until(sent).await {
                Ok(id) => note(&self.told, "receipt", json!(id)),
                Err(InputError::NotPending(_)) => {} // a steer was faster
                Err(error) => panic!("the answer to {} is refused: {error}", action.name),
            }
        }
        !pending.is_empty()
    }

    async fn send(&mut self, id: &str, event: InputEvent) {
        let handle = self.handle.clone();
        let receipt = self.until(handle.send(event)).await;
        receipt.unwrap_or_else(|error| panic!("{id} is refused: {error}"));
        note(&self.told, "receipt", json!(id));
    }

    /// Hears what the session tells until something is done.
    async fn until<T>(&mut self, work: impl Future<Output = T>) -> T {
        let mut work = pin!(work);
        loop {
            tokio::select! { biased;
                event = self.events.next() => self.hear(&event.expect("the session lives")),
                done = &mut work => return done,
            }
        }
    }

    fn hear(&mut self, envelope: &Envelope) {
        note(&self.told, "event", serde_json::to_value(envelope).expect("an event is JSON"));
        let is_now = |when: &When| match (&envelope.event, when) {
            (AgentEvent::ToolExecutionStart { name, .. }, When::Starts(tool)) => **name == **tool,
            (AgentEvent::MessageUpdate { message_id, .. }, When::Word(id)) => message_id.0 == *id,
            (AgentEvent::ExternalAction(_), When::Asked) => true,
            _ => false,
        };
        let now: Vec<&'static Detached> =
            self.scenario.detached.iter().filter(|detached| is_now(&detached.when)).collect();
        let mut new: Vec<&Detached> =
            now.into_iter().filter(|detached| self.sent.insert(detached.id.into())).collect();
        let (handle, told) = (self.handle.clone(), self.told.clone());
        if new.is_empty() {
            return;
        }
        self.sending.spawn(async move {
            for detached in new.drain(..) {
                let receipt = handle.send(input(detached)).await;
                receipt.unwrap_or_else(|error| panic!("{} is refused: {error}", detached.id));
                if matches!(detached.what, What::Compact) {
                    continue; // where there is nothing to compact, nothing is done
                }
                note(&told, "receipt", json!(detached.id));
            }
        });
    }

    /// Lets the session go and hears its last words.
    async fn close(self) {
        let Outside { handle, mut events, told, .. } = self;
        drop(handle);
        while let Some(event) = events.next().await {
            note(&told, "event", serde_json::to_value(&*event).expect("an event is JSON"));
        }
    }
}

fn input(detached: &Detached) -> InputEvent {
    let prompt = Prompt::from(detached.text).id(detached.id);
    match detached.what {
        What::Steer(urgency) => InputEvent::Steer(prompt.urgency(urgency)),
        What::FollowUp => InputEvent::FollowUp(prompt),
        What::Request => InputEvent::UserRequest(prompt),
        What::Abort => InputEvent::Abort,
        What::Compact => InputEvent::Compact(None),
    }
}
