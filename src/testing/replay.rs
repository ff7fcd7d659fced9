//! [`Replay`]: a session's log as a fixture. It answers models and tools from the log and shows the
//! first difference.

mod actors;
mod compaction;
mod difference;
mod known;
mod plan;
mod progress;
mod stage;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

pub use difference::Difference;

use crate::agent::{GenericAgent, RunContext};
use crate::log::compaction::CompactionPolicy;
use crate::log::entry::LogEntry;
use crate::model::ChatModel;
use crate::tool::Tool;
use actors::{Actor, Kept, StandIn};
use compaction::AsLogged;
use progress::{Against, Sent};
use stage::{Stage, Status};

/// A session's log as a fixture: it answers models and tools from the log, says again what was said
/// to the agent, each at the place at which the log has it, and shows the first request that
/// differs.
///
/// So a log of production is a test: change a pattern, a hook, a tool list, and see where the agent
/// behaves otherwise.
///
/// ```
/// # use loopwright_core::{BehaviorPattern, GenericAgent, Message, StepContext, StepEnd, StepError};
/// # use loopwright_core::message::{MessageId, UserMessage};
/// # struct Once;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Once {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         step.ask().await?;
/// #         Ok(StepEnd::Done)
/// #     }
/// # }
/// use loopwright_core::testing::Replay;
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let log = r#"
/// {"type":"opened","epoch":1}
/// {"type":"queued","input":"input-1","lane":"request","message":{"id":"m1","role":"user","content":[{"type":"text","text":"Hello"}]}}
/// {"type":"run_started","run":"r1","cause":{"user_request":"input-1"},"time":0}
/// {"type":"delivered","input":"input-1"}
/// {"type":"request_started","message":"m2","model":"test/scripted"}
/// {"type":"replied","message":{"id":"m2","role":"assistant","parts":[{"type":"text","text":"Good morning."}],"stop":"stop","model":"test/scripted"}}
/// {"type":"run_ended","run":"r1","end":"done","time":0}
/// "#;
/// let replay = Replay::from_jsonl(log)?;
/// let agent = || GenericAgent::builder(replay.model(), Once).tools(replay.tools());
/// replay.run(&agent().build()?).await?;
///
/// let shouting = agent().transform_context(async |_| vec![std::sync::Arc::new(Message::new(
///     MessageId(1),
///     UserMessage::from("HELLO"),
/// ))]);
/// let difference = replay.run(&shouting.build()?).await.unwrap_err();
/// assert_eq!(
///     difference.to_string(),
///     "request 1: message 1 differs: the log has `user: Hello`, now it is `user: HELLO`",
/// );
/// # Ok(()) }
/// ```
///
/// # What a log does not have
///
/// - System prompts, and what `transform_context`, `convert_to_llm` and [`Ask`](crate::Ask) make of
///   a request: the log has the conversation before them. [`Replay::run`] compares with that
///   conversation; [`Replay::compare`] compares what two agents send, in full. What an aside was
///   sent is in no log either: `run` knows only that it was asked.
/// - Schemas of tools. [`Replay::tools`] take any object. Where calls were refused before they ran,
///   as the model's arguments did not fit, give the agent a [`Replay::stand_in`] of each of its
///   tools instead.
/// - What a hook was given. A log has replies after `on_text_part` and results after
///   `after_tool_call`, and the hooks of the agent see these once more.
/// - The whole of a result that was too long: it is shortened once more, unless the agent's limit
///   is a little higher.
/// - Extensions of inputs, time and chance; progress of tools; how long anything took. A budget of
///   time never ends a run here.
/// - What a summary was asked for with, why it was not even asked for (the limits of the agent have
///   to be the same), and that somebody asked for a compaction that came to nothing, unless its
///   summary failed in a run and [`Replay::compaction`] compacts. Why a request failed that the
///   pattern, and not its run, came to terms with.
/// - The windows of models: see [`Replay::window`].
/// - When precisely a message came. It is said directly after the item that it follows in the log
///   (to a model or a tool that works, once all of it was said or begun), which is early: a message
///   that came in the instant between two verbs of a pattern may be heard by the first of them.
///
/// # Several processes
///
/// Where the log says that a process opened the session, the replay opens it too, over the log as
/// it was then: so runs that a crash cut off, and what a later process did about them, are replayed
/// as they were. A fork is such a place.
pub struct Replay {
    stage: Arc<Stage>,
    patience: Duration,
    window: Option<u64>,
    alone: Mutex<()>,
}

impl Replay {
    /// Of these items, from a log's first one on.
    pub fn from_items(items: impl IntoIterator<Item = LogEntry>) -> Self {
        let stage = Arc::new(Stage::new(items.into_iter().collect()));
        Replay { stage, patience: Duration::from_secs(10), window: None, alone: Mutex::new(()) }
    }

    /// Of a log as text, one [`LogEntry`] as JSON a line. Empty lines are skipped, and so is a
    /// first line that is an object with the key `loopwright`, the header of an export. The error
    /// names the line that is no item, counted from one.
    pub fn from_jsonl(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let mut items = Vec::new();
        for (first, (at, line)) in lines.enumerate().map(|(n, line)| (n == 0, line)) {
            let header = |value: serde_json::Value| value.get("loopwright").is_some();
            if first && serde_json::from_str(line).is_ok_and(header) {
                continue;
            }
            let item = serde_json::from_str(line);
            items.push(item.map_err(|why| {
                format!("line {} is not an item of a session's log: {why}", at + 1)
            })?);
        }
        Ok(Self::from_items(items))
    }

    /// How long nothing at all may happen before the replay is given up; ten seconds by default.
    /// Under tokio's paused time nobody waits for that.
    pub fn patience(mut self, time: Duration) -> Self {
        self.patience = time;
        self
    }

    /// The context window, in tokens, of the models that are made from here on: for a policy of
    /// compaction other than [`Replay::compaction`], as no log has it.
    pub fn window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }

    /// A model that gives the log's replies, under the id of the log's first request.
    pub fn model(&self) -> impl ChatModel + use<> {
        Actor::new(self.stage.clone(), self.stage.model(), self.window)
    }

    /// The same under another id, for an agent that asks several models.
    pub fn model_of(&self, id: &str) -> impl ChatModel + use<> {
        Actor::new(self.stage.clone(), id.into(), self.window)
    }

    /// A tool for each name that the log tells of, which takes any object and gives the log's
    /// results by call id. The same calls wait for a confirmation, or suspend, as in the log.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let specs = known::tools(&self.stage.log);
        let stand_in =
            |spec| Arc::new(StandIn::new(self.stage.clone(), Arc::new(spec))) as Arc<dyn Tool>;
        specs.into_iter().map(stand_in).collect()
    }

    /// A tool like this one, with its schema and rules, that gives the log's results instead of
    /// doing anything.
    pub fn stand_in(&self, tool: &dyn Tool) -> impl Tool + use<> {
        StandIn::new(self.stage.clone(), tool.spec().clone())
    }

    /// A policy that compacts where the log does, and into what the log has. An agent that follows
    /// a log with compactions needs one: this, or the one that is to be tried, which then is a
    /// difference where it does otherwise.
    pub fn compaction(&self) -> impl CompactionPolicy + use<> {
        AsLogged::new(self.stage.clone())
    }

    /// Drives an agent, made with [`Replay::model`] and [`Replay::tools`], through the log in a
    /// session in RAM.
    ///
    /// The error is the first request that is not as the log has it, that the log does not have, or
    /// that never came; where all requests are the same, the first item that differs, whatever the
    /// times.
    pub async fn run(&self, agent: &GenericAgent) -> Result<(), Difference> {
        self.play(agent, Against::Log).await.map(drop)
    }

    /// Drives two agents through the log, one after the other, and compares what each sends to its
    /// models: the system prompt, messages, tools and everything else. The error is the first
    /// request of `after` that is not as `before` sent it, or says where one of them does not
    /// follow the log.
    pub async fn compare(
        &self,
        before: &GenericAgent,
        after: &GenericAgent,
    ) -> Result<(), Difference> {
        let sent = self.play(before, Against::Nothing).await?;
        self.play(after, Against::Sent(sent)).await.map(drop)
    }

    async fn play(&self, agent: &GenericAgent, against: Against) -> Result<Vec<Sent>, Difference> {
        let _alone = self.alone.lock().await;
        self.stage.begin(against);
        for life in 0..self.stage.lives.len() {
            let memory = Kept::new(self.stage.clone(), self.stage.open(life));
            let cx = RunContext::new().session("replay").memory(memory);
            let opened = agent.run(cx).await.map_err(|why| Difference::elsewhere(why.to_string()));
            let followed = match opened {
                Ok((handle, _)) => {
                    self.stage.enter(handle.clone());
                    self.follow(handle).await
                }
                Err(why) => Err(why),
            };
            self.stage.close();
            followed?;
        }
        self.stage.end()
    }

    /// Until the agent has done what it did in one life of the session.
    async fn follow(&self, handle: crate::AgentHandle) -> Result<(), Difference> {
        let mut changes = self.stage.changes();
        loop {
            match self.stage.status()? {
                Status::CutOff => return Ok(()),
                Status::AtEnd => {
                    tokio::select! {
                        () = handle.wait_for_idle() => return self.stage.status().map(drop),
                        _ = changes.changed() => continue,
                        () = tokio::time::sleep(self.patience) => return Err(self.stage.stalled(self.patience)),
                    }
                }
                Status::SpeaksAtRest => {
                    let idle = tokio::time::timeout(self.patience, handle.wait_for_idle()).await;
                    idle.map_err(|_| self.stage.stalled(self.patience))?;
                    self.stage.speak(true);
                }
                Status::Waits => {}
            }
            if tokio::time::timeout(self.patience, changes.changed()).await.is_err() {
                return Err(self.stage.stalled(self.patience));
            }
        }
    }
}
