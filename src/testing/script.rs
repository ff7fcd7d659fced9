//! [`Script`]: one reply of a scripted model.

use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::Value;

use super::gate::Gate;
use crate::error::{ModelError, ModelErrorKind};
use crate::message::{StopReason, Usage};
use crate::model::{BlockKind, ModelEvent};

/// One reply of a [`ScriptedModel`](super::ScriptedModel): its events, and the time of each.
///
/// The methods append to the reply. Unless the script fails or is cut off, the reply ends with
/// [`ModelEvent::Done`]; its stop reason is [`StopReason::ToolCalls`] if the reply has calls.
///
/// ```
/// use std::time::Duration;
///
/// use loopwright_core::testing::{Gate, Script};
/// use serde_json::json;
///
/// let text = Script::text("Hello.");
/// let calls = Script::calls([("a", "clock", json!({})), ("b", "weather", json!({"at": "Bern"}))]);
///
/// let gate = Gate::new();
/// let slow = Script::new()
///     .think("Hm.", None)
///     .stream(["Hel", "lo."], Duration::from_millis(10))
///     .gate(&gate); // ends once the test opens the gate
/// let cut_off = Script::new().say("Hel").cut();
/// assert_eq!((text.len(), cut_off.len()), (3, 3)); // start, delta, end of a block
/// # let _ = (calls, slow);
/// ```
#[derive(Clone, Default)]
pub struct Script {
    steps: Vec<Step>,
    blocks: u32,
    stop: Option<StopReason>,
    usage: Usage,
    /// `true` if the stream ends without `Done`.
    is_cut_off: bool,
}

#[derive(Clone)]
enum Step {
    Event(ModelEvent),
    Wait(Duration),
    Gate(Gate),
    Hang,
}

impl Script {
    /// Creates an empty reply.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a reply with this text.
    pub fn text(text: &str) -> Self {
        Self::new().say(text)
    }

    /// Creates a reply with these calls: id, name of the tool, arguments.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, Value)>) -> Self {
        calls
            .into_iter()
            .fold(Self::new(), |script, (id, name, args)| script.call(id, name, &args.to_string()))
    }

    /// Creates a reply that fails at once.
    pub fn error(kind: ModelErrorKind, message: &str) -> Self {
        Self::new().fail(kind, message)
    }

    /// Appends a text block with one delta.
    pub fn say(self, text: &str) -> Self {
        self.block(BlockKind::Text, [text.to_owned()], None)
    }

    /// Appends a text block with several deltas, and waits for `pause` before each.
    pub fn stream(
        mut self,
        deltas: impl IntoIterator<Item = impl Into<String>>,
        pause: Duration,
    ) -> Self {
        let block = self.blocks;
        self.blocks += 1;
        self.push(ModelEvent::BlockStart { block, kind: BlockKind::Text });
        for delta in deltas {
            self = self.wait(pause);
            self.push(ModelEvent::Delta { block, delta: delta.into() });
        }
        self.push(ModelEvent::BlockEnd { block, signature: None });
        self
    }

    /// Appends a thinking block, with its signature if the provider signs it.
    pub fn think(self, text: &str, signature: Option<&str>) -> Self {
        self.block(BlockKind::Thinking, [text.to_owned()], signature)
    }

    /// Appends a call with raw arguments, which need not be JSON, in two deltas.
    pub fn call(self, id: &str, name: &str, raw: &str) -> Self {
        let half = raw.floor_char_boundary(raw.len() / 2);
        let fragments = [raw[..half].to_owned(), raw[half..].to_owned()];
        self.block(BlockKind::ToolCall { id: id.into(), name: name.into() }, fragments, None)
    }

    /// Waits for `time` before the next event.
    pub fn wait(mut self, time: Duration) -> Self {
        if !time.is_zero() {
            self.steps.push(Step::Wait(time));
        }
        self
    }

    /// Waits until `gate` is open.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.steps.push(Step::Gate(gate.clone()));
        self
    }

    /// Appends any event.
    pub fn event(mut self, event: ModelEvent) -> Self {
        self.push(event);
        self
    }

    /// Reports the usage of the attempt so far.
    pub fn used(self, usage: Usage) -> Self {
        self.event(ModelEvent::Usage(usage))
    }

    /// Withdraws the attempt: the events so far are not part of the reply.
    pub fn withdraw(self) -> Self {
        self.event(ModelEvent::Withdrawn)
    }

    /// Sets the stop reason.
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Sets the usage that is reported at the end.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Fails at this point: the stream ends with this error.
    pub fn fail(mut self, kind: ModelErrorKind, message: &str) -> Self {
        self.push(ModelEvent::Error(ModelError::new(kind, message)));
        self.is_cut_off = true;
        self
    }

    /// Cuts the connection at this point: the stream ends with neither `Done` nor an error.
    pub fn cut(mut self) -> Self {
        self.is_cut_off = true;
        self
    }

    /// Hangs at this point: the stream neither yields another event nor ends.
    pub fn hang(mut self) -> Self {
        self.steps.push(Step::Hang);
        self.cut()
    }

    /// Returns the number of events, without the final `Done`.
    pub fn len(&self) -> usize {
        self.steps.iter().filter(|step| matches!(step, Step::Event(_))).count()
    }

    /// Returns whether the reply has no events.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn block(
        mut self,
        kind: BlockKind,
        deltas: impl IntoIterator<Item = String>,
        signature: Option<&str>,
    ) -> Self {
        let block = self.blocks;
        self.blocks += 1;
        if matches!(kind, BlockKind::ToolCall { .. }) {
            self.stop.get_or_insert(StopReason::ToolCalls);
        }
        self.push(ModelEvent::BlockStart { block, kind });
        for delta in deltas {
            self.push(ModelEvent::Delta { block, delta });
        }
        self.push(ModelEvent::BlockEnd { block, signature: signature.map(Into::into) });
        self
    }

    fn push(&mut self, event: ModelEvent) {
        self.steps.push(Step::Event(event));
    }

    pub(super) fn play(mut self) -> BoxStream<'static, ModelEvent> {
        if !self.is_cut_off {
            let stop = self.stop.unwrap_or_default();
            self.push(ModelEvent::Done { stop, usage: self.usage });
        }
        let steps = stream::iter(self.steps).filter_map(|step| async move {
            match step {
                Step::Event(event) => return Some(event),
                Step::Wait(time) => tokio::time::sleep(time).await,
                Step::Gate(gate) => gate.wait().await,
                Step::Hang => std::future::pending().await,
            }
            None
        });
        steps.boxed()
    }
}
