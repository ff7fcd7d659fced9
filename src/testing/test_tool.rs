//! [`TestTool`]: a tool that answers, waits, fails or panics as a test demands.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use serde_json::{Value, json};

use super::failure::fail;
use super::gate::Gate;
use crate::error::{ActionRequest, ToolError};
use crate::tool::{Effect, Tool, ToolContext, ToolOutput, ToolSpec};

/// A [`Tool`] whose behaviour the test chooses. It counts its runs.
///
/// It accepts any object as arguments. By default, it returns the text "NAME done", where NAME is
/// its name. Clones share the count.
///
/// ```
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Loop;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Loop {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         loop {
/// #             let reply = step.ask().await?;
/// #             if !step.call_tools(&reply).await?.wants_reply() {
/// #                 return Ok(StepEnd::Done);
/// #             }
/// #         }
/// #     }
/// # }
/// use loopwright_core::testing::{Harness, Script, TestTool};
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() {
/// let clock = TestTool::new("clock").answers("12:00");
/// let replies = [Script::calls([("a", "clock", json!({}))]), Script::text("Noon.")];
/// let harness = Harness::new(Loop, replies, |agent| agent.tool(clock.clone())).await;
/// harness.handle.prompt("What time is it?").await.unwrap();
/// assert_eq!(clock.ran(), 1);
/// # }
/// ```
#[derive(Clone)]
pub struct TestTool {
    spec: Arc<ToolSpec>,
    behaviour: Behaviour,
    runs: Arc<AtomicUsize>,
}

#[derive(Clone)]
enum Behaviour {
    Answer(ToolOutput),
    Take { time: Duration, heeds_cancel: bool },
    Gate(Gate),
    Panic,
    Fail(String),
    Update { updates: usize, pause: Duration },
    Suspend(ActionRequest),
}

impl TestTool {
    /// Creates a read-only tool that returns at once.
    pub fn new(name: &str) -> Self {
        let spec = ToolSpec::with_schema(name, "A tool of a test.", json!({"type": "object"}))
            .effect(Effect::ReadOnly);
        let done = ToolOutput::text(format!("{name} done"));
        TestTool { spec: Arc::new(spec), behaviour: Behaviour::Answer(done), runs: Arc::default() }
    }

    /// Replaces the tool's spec with the result of `change`.
    pub fn spec(mut self, change: impl FnOnce(ToolSpec) -> ToolSpec) -> Self {
        self.spec = Arc::new(change((*self.spec).clone()));
        self
    }

    /// Sets the effect. A tool that is not read-only needs an approval by default.
    pub fn effect(self, effect: Effect) -> Self {
        self.spec(|spec| spec.effect(effect))
    }

    /// Returns `output` from each call.
    pub fn answers(self, output: impl Into<ToolOutput>) -> Self {
        self.behaviour(Behaviour::Answer(output.into()))
    }

    /// Takes `time` for each call. A cancelled call returns [`ToolError::Cancelled`] at once.
    pub fn takes(self, time: Duration) -> Self {
        self.behaviour(Behaviour::Take { time, heeds_cancel: true })
    }

    /// Takes `time` for each call, ignoring cancellation.
    pub fn takes_ignoring_cancel(self, time: Duration) -> Self {
        self.behaviour(Behaviour::Take { time, heeds_cancel: false })
    }

    /// Waits for `gate` in each call, ignoring cancellation.
    pub fn waits(self, gate: &Gate) -> Self {
        self.behaviour(Behaviour::Gate(gate.clone()))
    }

    /// Hangs forever in each call, ignoring cancellation.
    pub fn hangs(self) -> Self {
        self.takes_ignoring_cancel(Duration::from_secs(1 << 32))
    }

    /// Makes each call panic.
    pub fn panics(self) -> Self {
        self.behaviour(Behaviour::Panic)
    }

    /// Fails each call with this message.
    pub fn fails(self, message: &str) -> Self {
        self.behaviour(Behaviour::Fail(message.into()))
    }

    /// Sends `updates` updates in each call, each followed by `pause`.
    pub fn sends_updates(self, updates: usize, pause: Duration) -> Self {
        self.behaviour(Behaviour::Update { updates, pause })
    }

    /// Suspends each call with an external action of this kind. Once the action is resolved, the
    /// call returns the data of the decision as JSON text.
    pub fn suspends(self, kind: &str) -> Self {
        self.behaviour(Behaviour::Suspend(ActionRequest { kind: kind.into(), data: Value::Null }))
    }

    /// Returns the number of runs so far. A call that suspends counts once, when it is resolved.
    pub fn ran(&self) -> usize {
        self.runs.load(Ordering::SeqCst)
    }

    fn behaviour(mut self, behaviour: Behaviour) -> Self {
        self.behaviour = behaviour;
        self
    }
}

#[async_trait]
impl Tool for TestTool {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn check_arguments(&self, _: &Value) -> Option<Result<(), String>> {
        Some(Ok(())) // the tool does not read its arguments
    }

    async fn call(&self, _: &Value, cx: ToolContext) -> Result<ToolOutput, ToolError> {
        let done = || ToolOutput::text(format!("{} done", self.spec.name));
        match (&self.behaviour, cx.decision()) {
            (Behaviour::Suspend(request), None) => {
                return Err(ToolError::Suspend(request.clone()));
            }
            (Behaviour::Suspend(_), Some(decision)) => {
                self.runs.fetch_add(1, Ordering::SeqCst);
                return Ok(decision.data.to_string().into());
            }
            _ => self.runs.fetch_add(1, Ordering::SeqCst),
        };
        match &self.behaviour {
            Behaviour::Answer(output) => return Ok(output.clone()),
            Behaviour::Take { time, heeds_cancel } => tokio::select! {
                () = cx.cancelled(), if *heeds_cancel => return Err(ToolError::Cancelled),
                () = tokio::time::sleep(*time) => {}
            },
            Behaviour::Gate(gate) => gate.wait().await,
            Behaviour::Panic => fail(&"boom"),
            Behaviour::Fail(message) => return Err(ToolError::failed(message)),
            Behaviour::Update { updates, pause } => {
                for i in 0..*updates {
                    cx.update(format!("{i};")).await;
                    if !pause.is_zero() {
                        tokio::time::sleep(*pause).await;
                    }
                }
            }
            Behaviour::Suspend(_) => {}
        }
        Ok(done())
    }
}
