//! Gates, faulty memories, and tools that misbehave on demand.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};
use tokio::sync::watch;

use crate::error::{ActionRequest, MemoryError, ToolError};
use crate::log::entry::LogEntry;
use crate::log::memory::Memory;
use crate::tool::{Effect, Tool, ToolContext, ToolOutput, ToolSpec};

/// Something that waits until a test says go. Clones are the same gate.
#[derive(Clone)]
pub struct Gate(Arc<watch::Sender<bool>>);

impl Default for Gate {
    fn default() -> Self {
        Gate(Arc::new(watch::Sender::new(false)))
    }
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets through who waits and who comes.
    pub fn open(&self) {
        self.0.send_replace(true);
    }

    /// Waits until it is open.
    pub async fn wait(&self) {
        let _ = self.0.subscribe().wait_for(|open| *open).await;
    }
}

/// A memory that fails or dawdles, around another one.
pub struct FaultyMemory {
    inner: Arc<dyn Memory>,
    full_after: Option<u64>,
    slow: Duration,
}

impl FaultyMemory {
    /// Around this memory, without a fault yet.
    pub fn new(inner: impl Memory + 'static) -> Self {
        FaultyMemory { inner: Arc::new(inner), full_after: None, slow: Duration::ZERO }
    }

    /// Appends fail that would make the log longer than this many items.
    pub fn full_after(mut self, items: u64) -> Self {
        self.full_after = Some(items);
        self
    }

    /// Each append takes this long; as with a real store it goes on even if nobody waits for it.
    pub fn slow(mut self, time: Duration) -> Self {
        self.slow = time;
        self
    }
}

#[async_trait]
impl Memory for FaultyMemory {
    async fn append(&self, at: u64, items: Arc<[LogEntry]>) -> Result<(), MemoryError> {
        if self.full_after.is_some_and(|most| at + items.len() as u64 > most) {
            return Err(MemoryError::Failed("the disk is full".into()));
        }
        if self.slow.is_zero() {
            return self.inner.append(at, items).await;
        }
        let (inner, slow) = (self.inner.clone(), self.slow);
        let write = tokio::spawn(async move {
            tokio::time::sleep(slow).await;
            inner.append(at, items).await
        });
        write.await.unwrap_or_else(|e| Err(MemoryError::failed(e)))
    }

    async fn load(&self, from: u64) -> Result<Vec<LogEntry>, MemoryError> {
        self.inner.load(from).await
    }
}

/// A tool that does what a test wants, and counts how often it ran. Takes any object; answers
/// "NAME done".
#[derive(Clone)]
pub struct TestTool {
    spec: Arc<ToolSpec>,
    act: Act,
    ran: Arc<AtomicUsize>,
}

#[derive(Clone)]
enum Act {
    Answer(ToolOutput),
    Take { time: Duration, heeds_cancel: bool },
    Gate(Gate),
    Panic,
    Fail(String),
    Chatter(usize, Duration),
    Suspend(ActionRequest),
}

impl TestTool {
    /// A read-only tool that answers at once.
    pub fn new(name: &str) -> Self {
        let spec = ToolSpec::with_schema(name, "A tool of a test.", json!({"type": "object"}))
            .effect(Effect::ReadOnly);
        let done = ToolOutput::text(format!("{name} done"));
        TestTool { spec: Arc::new(spec), act: Act::Answer(done), ran: Arc::default() }
    }

    /// With any change to its spec.
    pub fn spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = Arc::new(change((*self.spec).clone()));
        self
    }

    /// With this effect: one that is not read-only asks for confirmation.
    pub fn effect(self, effect: Effect) -> Self {
        self.spec(|spec| spec.effect(effect))
    }

    /// Answers this.
    pub fn answers(mut self, output: impl Into<ToolOutput>) -> Self {
        self.act = Act::Answer(output.into());
        self
    }

    /// Takes this long, and heeds a cancellation.
    pub fn takes(mut self, time: Duration) -> Self {
        self.act = Act::Take { time, heeds_cancel: true };
        self
    }

    /// Takes this long, whatever anybody says.
    pub fn takes_stubbornly(mut self, time: Duration) -> Self {
        self.act = Act::Take { time, heeds_cancel: false };
        self
    }

    /// Waits for the gate.
    pub fn waits(mut self, gate: &Gate) -> Self {
        self.act = Act::Gate(gate.clone());
        self
    }

    /// Never ends and heeds nothing.
    pub fn hangs(self) -> Self {
        self.takes_stubbornly(Duration::from_secs(1 << 32))
    }

    /// Panics.
    pub fn panics(mut self) -> Self {
        self.act = Act::Panic;
        self
    }

    /// Fails with this text.
    pub fn fails(mut self, why: &str) -> Self {
        self.act = Act::Fail(why.into());
        self
    }

    /// Sends so many updates, each after a pause.
    pub fn chatters(mut self, updates: usize, pause: Duration) -> Self {
        self.act = Act::Chatter(updates, pause);
        self
    }

    /// Suspends until it is answered; then its text is the answer.
    pub fn suspends(mut self, kind: &str) -> Self {
        self.act = Act::Suspend(ActionRequest { kind: kind.into(), data: Value::Null });
        self
    }

    /// How often it ran.
    pub fn ran(&self) -> usize {
        self.ran.load(Ordering::SeqCst)
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn check_arguments(&self, _: &Value) -> Option<Result<(), String>> {
        Some(Ok(())) // it does not read them
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let done = || ToolOutput::text(format!("{} done", self.spec.name));
        match (&self.act, cx.decision()) {
            (Act::Suspend(need), None) => return Err(ToolError::Suspend(need.clone())),
            (Act::Suspend(_), Some(answer)) => {
                self.ran.fetch_add(1, Ordering::SeqCst);
                return Ok(answer.data.to_string().into());
            }
            _ => self.ran.fetch_add(1, Ordering::SeqCst),
        };
        match &self.act {
            Act::Answer(output) => return Ok(output.clone()),
            Act::Take { time, heeds_cancel } => tokio::select! {
                () = cx.cancelled(), if *heeds_cancel => return Err(ToolError::Cancelled),
                () = tokio::time::sleep(*time) => {}
            },
            Act::Gate(gate) => gate.wait().await,
            Act::Panic => super::failed(&"boom"),
            Act::Fail(why) => return Err(ToolError::failed(why)),
            Act::Chatter(updates, pause) => {
                for i in 0..*updates {
                    cx.update(format!("{i};")).await;
                    if !pause.is_zero() {
                        tokio::time::sleep(*pause).await;
                    }
                }
            }
            Act::Suspend(_) => {}
        }
        Ok(done())
    }
}
