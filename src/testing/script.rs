//! A model that says what the test wrote, and refuses a malformed request.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, BoxStream};
use serde_json::Value;

use crate::error::{ModelError, ModelErrorKind};
use crate::message::{StopReason, Usage};
use crate::model::{BlockKind, ChatModel, ChatRequest, ModelEvent, ModelInfo};
use crate::testing::check::check_request;
use crate::testing::faults::Gate;

/// One reply of a [`ScriptedModel`], made of timed events.
#[derive(Clone, Default)]
pub struct Script {
    beats: Vec<Beat>,
    blocks: u32,
    stop: Option<StopReason>,
    usage: Usage,
    /// Ends as it stands, without `Done`.
    open: bool,
}

#[derive(Clone)]
enum Beat {
    Say(ModelEvent),
    Wait(Duration),
    Gate(Gate),
    Hang,
}

impl Script {
    /// A reply that says nothing; to be added to.
    pub fn new() -> Self {
        Self::default()
    }

    /// A reply of this text.
    pub fn text(text: &str) -> Self {
        Self::new().say(text)
    }

    /// A reply that makes these calls: id, name, arguments.
    pub fn calls<'a>(calls: impl IntoIterator<Item = (&'a str, &'a str, Value)>) -> Self {
        calls
            .into_iter()
            .fold(Self::new(), |script, (id, name, args)| script.call(id, name, &args.to_string()))
    }

    /// A request that fails.
    pub fn error(kind: ModelErrorKind, message: &str) -> Self {
        Self::new().fail(kind, message)
    }

    /// More text, as a block of one delta.
    pub fn say(self, text: &str) -> Self {
        self.block(BlockKind::Text, [text.to_owned()], None)
    }

    /// Text in a block of many deltas, each after a pause.
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

    /// Thinking, signed or not.
    pub fn think(self, text: &str, signature: Option<&str>) -> Self {
        self.block(BlockKind::Thinking, [text.to_owned()], signature)
    }

    /// A call with raw arguments, in two fragments.
    pub fn call(self, id: &str, name: &str, raw: &str) -> Self {
        let half = raw.floor_char_boundary(raw.len() / 2);
        let fragments = [raw[..half].to_owned(), raw[half..].to_owned()];
        self.block(BlockKind::ToolCall { id: id.into(), name: name.into() }, fragments, None)
    }

    /// Waits.
    pub fn wait(mut self, time: Duration) -> Self {
        if !time.is_zero() {
            self.beats.push(Beat::Wait(time));
        }
        self
    }

    /// Waits until the gate opens.
    pub fn gate(mut self, gate: &Gate) -> Self {
        self.beats.push(Beat::Gate(gate.clone()));
        self
    }

    /// Any event.
    pub fn event(mut self, event: ModelEvent) -> Self {
        self.push(event);
        self
    }

    /// The attempt is withdrawn: what was said so far is void.
    pub fn withdraw(self) -> Self {
        self.event(ModelEvent::Withdrawn)
    }

    /// Ends for this reason.
    pub fn stop(mut self, stop: StopReason) -> Self {
        self.stop = Some(stop);
        self
    }

    /// Reports these tokens.
    pub fn usage(mut self, usage: Usage) -> Self {
        self.usage = usage;
        self
    }

    /// Fails here.
    pub fn fail(mut self, kind: ModelErrorKind, message: &str) -> Self {
        self.push(ModelEvent::Error(ModelError::new(kind, message)));
        self.open = true;
        self
    }

    /// The connection is cut here: the stream ends without a word.
    pub fn cut(mut self) -> Self {
        self.open = true;
        self
    }

    /// The connection is cut after so many events.
    pub fn cut_after(mut self, events: usize) -> Self {
        let mut left = events;
        self.beats.retain(|beat| {
            let say = matches!(beat, Beat::Say(_));
            let keep = left > 0;
            left -= usize::from(say && keep);
            keep
        });
        self.cut()
    }

    /// Nothing comes any more.
    pub fn hang(mut self) -> Self {
        self.beats.push(Beat::Hang);
        self.cut()
    }

    /// How many events it has, the last one not counted.
    pub fn len(&self) -> usize {
        self.beats.iter().filter(|beat| matches!(beat, Beat::Say(_))).count()
    }

    /// Whether it says nothing.
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
        self.beats.push(Beat::Say(event));
    }

    fn play(mut self) -> BoxStream<'static, ModelEvent> {
        if !self.open {
            let stop = self.stop.unwrap_or_default();
            self.push(ModelEvent::Done { stop, usage: self.usage });
        }
        let beats = stream::iter(self.beats).filter_map(|beat| async move {
            match beat {
                Beat::Say(event) => return Some(event),
                Beat::Wait(time) => tokio::time::sleep(time).await,
                Beat::Gate(gate) => gate.wait().await,
                Beat::Hang => std::future::pending().await,
            }
            None
        });
        beats.boxed()
    }
}

/// A model that plays its scripts in turn, keeps the requests it got, and answers a malformed one
/// (an orphan call or result, a wrong order, an unknown tool) with an error.
/// Clones share the scripts.
#[derive(Clone)]
pub struct ScriptedModel {
    info: ModelInfo,
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    scripts: VecDeque<Script>,
    requests: Vec<ChatRequest>,
    refused: Vec<String>,
    forgetful: bool,
    otherwise: Option<Script>,
    ran_out: bool,
}

impl ScriptedModel {
    /// A model with these replies. When they are used up it fails.
    pub fn new(replies: impl IntoIterator<Item = Script>) -> Self {
        let shared = Shared { scripts: replies.into_iter().collect(), ..Shared::default() };
        ScriptedModel {
            info: ModelInfo::new("test/scripted"),
            shared: Arc::new(Mutex::new(shared)),
        }
    }

    /// With this information: a name, prices.
    pub fn info(mut self, info: ModelInfo) -> Self {
        self.info = info;
        self
    }

    /// Does not keep its requests, so that long sessions stay small.
    pub fn forgetful(self) -> Self {
        self.shared().forgetful = true;
        self
    }

    /// Plays this when its replies are used up, instead of failing.
    pub fn otherwise(self, script: Script) -> Self {
        self.shared().otherwise = Some(script);
        self
    }

    /// One more reply at the end.
    pub fn push(&self, script: Script) {
        self.shared().scripts.push_back(script);
    }

    /// The requests so far, but for those that were refused.
    pub fn requests(&self) -> Vec<ChatRequest> {
        self.shared().requests.clone()
    }

    /// Why requests were refused.
    pub fn refused(&self) -> Vec<String> {
        self.shared().refused.clone()
    }

    /// Whether it was asked for more replies than it has.
    pub(super) fn ran_out(&self) -> bool {
        self.shared().ran_out
    }

    fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&self, request: ChatRequest) -> Result<Script, String> {
        let mut shared = self.shared();
        if let Err(why) = check_request(&request) {
            shared.refused.push(why.clone());
            return Err(format!("the scripted model refuses the request: {why}"));
        }
        if !shared.forgetful {
            shared.requests.push(request);
        }
        let script = shared.scripts.pop_front().or_else(|| shared.otherwise.clone());
        shared.ran_out |= script.is_none();
        script.ok_or_else(|| "the script has no reply left".to_owned())
    }
}

impl ChatModel for ScriptedModel {
    fn info(&self) -> &ModelInfo {
        &self.info
    }

    fn stream<'a>(&'a self, request: ChatRequest) -> BoxStream<'a, ModelEvent> {
        match self.next(request) {
            Ok(script) => script.play(),
            Err(why) => {
                let error = ModelError::new(ModelErrorKind::InvalidRequest, why);
                stream::iter([ModelEvent::Error(error)]).boxed()
            }
        }
    }
}
