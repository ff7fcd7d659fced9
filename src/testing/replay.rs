//! [`Replay`]: the replay of a session's log as a test fixture, which reports the first difference.

mod compaction_step;
mod difference;
mod epochs;
mod logged_compaction;
mod logged_model;
mod logged_reply;
mod logged_tool;
mod progress;
mod replay_memory;
mod shared;
mod sub_agents;
mod tool_specs;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;

pub use difference::Difference;

use crate::agent::{GenericAgent, RunContext};
use crate::compaction::CompactionPolicy;
use crate::log::entry::LogEntry;
use crate::model::ChatModel;
use crate::session::handle::AgentHandle;
use crate::tool::Tool;
use epochs::{detached_requests, is_accounting, without_parent};
use logged_compaction::LoggedCompaction;
use logged_model::LoggedModel;
use logged_tool::LoggedTool;
use progress::{Baseline, SentRequest};
use replay_memory::ReplayMemory;
use shared::{SharedReplay, Status};

/// The replay of a session's log as a test fixture.
///
/// Models and tools reply from the log, and the inputs of the log are sent at their positions in
/// the log. The first request that differs is reported. So a log from production becomes a test:
/// change a pattern, a hook or the list of tools, and see where the agent deviates.
///
/// ```
/// # use loopwright_core::{BehaviorPattern, GenericAgent, Message};
/// # use loopwright_core::{StepContext, StepEnd, StepError};
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
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let log = concat!(
///     r#"{"type":"opened","epoch":1}"#, "\n",
///     r#"{"type":"queued","input":"input-1","kind":"request","message":{"id":"m1","#,
///     r#""role":"user","content":[{"type":"text","text":"Hello"}]}}"#, "\n",
///     r#"{"type":"run_started","run":"r1","cause":{"user_request":"input-1"},"time":0}"#, "\n",
///     r#"{"type":"delivered","input":"input-1"}"#, "\n",
///     r#"{"type":"request_started","message":"m2","model":"test/scripted"}"#, "\n",
///     r#"{"type":"replied","message":{"id":"m2","role":"assistant","stop":"stop","#,
///     r#""model":"test/scripted","parts":[{"type":"text","text":"Good morning."}]}}"#, "\n",
///     r#"{"type":"run_ended","run":"r1","end":"done","time":0}"#, "\n",
/// );
/// let replay = Replay::from_jsonl(log)?;
/// let agent = || GenericAgent::builder(replay.model(), Once).tools(replay.tools());
/// replay.run(&agent().build()?).await?;
///
/// let shouting = agent().transform_context(async |_, _| vec![std::sync::Arc::new(Message::new(
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
/// # What a log does not contain
///
/// - System prompts, and changes of requests by `transform_context`, `convert_to_llm` and
///   [`Ask`](crate::Ask): the log has the conversation before these changes. [`Replay::run`]
///   compares with that conversation; [`Replay::compare`] compares the complete requests of two
///   agents. No log has the messages of a detached request: `run` only checks that the request was
///   sent.
/// - Schemas of tools. [`Replay::tools`] accept any object. If the log has calls that were refused
///   because of invalid arguments, give the agent a [`Replay::stand_in`] for each of its tools
///   instead.
/// - The input of hooks. A log has replies after `on_text_part` and results after
///   `around_tool_call`, and the agent's hooks are applied to these a second time.
/// - The rest of a result that was too long. It is shortened a second time, unless the agent's
///   limit is a little higher.
/// - Extensions of inputs, times and random numbers, progress of tools, and durations. A time limit
///   never ends a run of a replay.
/// - The request for a summary, and the reason if no summary was requested (the agent needs the
///   same limits).
/// - A requested compaction that replaced no message, unless its summary failed in a run and the
///   agent uses [`Replay::compaction`].
/// - The error of a failed request, if the pattern handled it.
/// - Charges for failed attempts, and estimates of requests that a replay sends itself: limits on
///   tokens and cost may be reached elsewhere.
/// - The request of an earlier process under a key: the reply in the log is only used if the agent
///   sends exactly the same request, with the same system prompt and tools. Give the agent a
///   [`Replay::stand_in`] for each of its tools.
/// - The work of a sub-agent: see below.
/// - The clock: a log in which the pattern [waited](crate::StepContext::sleep_until) is refused.
/// - The context windows of models: see [`Replay::window`].
/// - The exact time of an input. It is sent directly after the preceding entry of the log. If a
///   model or a tool is working, it is sent once the reply was streamed or all calls have started.
///   This is early: if the input came between two methods that a pattern called, the first method
///   may receive it.
///
/// # Several processes
///
/// Where the log has an opening by a process, the replay opens the session too, over the log at
/// that point. So a run that was cut off by a crash, and its handling by a later process, are
/// replayed as they were. A fork is such a point too.
///
/// # Sub-agents
///
/// In the log of the root, a sub-agent is replayed as a tool that returns its answer: the agent
/// needs [`Replay::tools`], and no [`child`](crate::AgentBuilder::child). The log of a sub-agent's
/// session is replayed like any other. A log is refused with an explanation if a sub-agent in it
/// waited for a decision, or was cut off by the end of its process. A
/// [`Cassette`](crate::testing::Cassette) can record such an agent.
pub struct Replay {
    shared: Arc<SharedReplay>,
    idle_timeout: Duration,
    window: Option<u64>,
    /// The reason why the log cannot be replayed, if it cannot.
    refusal: Option<Difference>,
    exclusive: Mutex<()>,
}

impl Replay {
    /// Creates a replay of a log from its first entry.
    pub fn from_entries(entries: impl IntoIterator<Item = LogEntry>) -> Self {
        let entries: Vec<LogEntry> = entries.into_iter().collect();
        let detached = detached_requests(&entries);
        let refusal = sub_agents::refusal(&entries).or_else(|| wait(&entries));
        let entries = entries.into_iter().filter(|entry| !is_accounting(entry));
        Replay {
            shared: Arc::new(SharedReplay::new(entries.map(without_parent).collect(), detached)),
            refusal,
            idle_timeout: Duration::from_secs(10),
            window: None,
            exclusive: Mutex::new(()),
        }
    }

    /// Creates a replay of a log as text, with one [`LogEntry`] as JSON per line. Empty lines are
    /// skipped. So is a first line with the header of an export, an object with the key
    /// `loopwright`.
    ///
    /// # Errors
    ///
    /// Returns the number of the first line that is not a log entry, counted from one.
    pub fn from_jsonl(text: &str) -> Result<Self, String> {
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let mut entries = Vec::new();
        for (first, (at, line)) in lines.enumerate().map(|(n, line)| (n == 0, line)) {
            let header = |value: serde_json::Value| value.get("loopwright").is_some();
            if first && serde_json::from_str(line).is_ok_and(header) {
                continue;
            }
            let entry = serde_json::from_str(line);
            entries.push(entry.map_err(|why| {
                format!("line {} is not an entry of a session's log: {why}", at + 1)
            })?);
        }
        Ok(Self::from_entries(entries))
    }

    /// Sets the time without any progress after which a replay fails; the default is ten seconds.
    /// Under tokio's paused time it costs no real time.
    pub fn idle_timeout(mut self, time: Duration) -> Self {
        self.idle_timeout = time;
        self
    }

    /// Sets the context window, in tokens, of models that are created from now on. Compaction
    /// policies other than [`Replay::compaction`] need it, and no log contains it.
    pub fn window(mut self, tokens: u64) -> Self {
        self.window = Some(tokens);
        self
    }

    /// Returns a model with the replies of the log and the id of the first request's model.
    pub fn model(&self) -> impl ChatModel + use<> {
        LoggedModel::new(self.shared.clone(), self.shared.first_model(), self.window)
    }

    /// Returns a tool for each name in the log. It accepts any object and returns the results of
    /// the log by call id. Calls that needed an approval or suspended in the log do so again.
    pub fn tools(&self) -> Vec<Arc<dyn Tool>> {
        let specs = tool_specs::tools(&self.shared.log);
        let tool = |spec| LoggedTool::new(self.shared.clone(), Arc::new(spec));
        specs.into_iter().map(|spec| Arc::new(tool(spec)) as Arc<dyn Tool>).collect()
    }

    /// Returns a tool with the spec of `tool` (its schema and rules) that returns the results of
    /// the log and does nothing.
    pub fn stand_in(&self, tool: &dyn Tool) -> impl Tool + use<> {
        LoggedTool::new(self.shared.clone(), tool.spec().clone())
    }

    /// Returns a policy that repeats the compactions of the log. An agent that follows a log with
    /// compactions needs a policy: this one, or the policy under test, whose deviations are then
    /// differences.
    pub fn compaction(&self) -> impl CompactionPolicy + use<> {
        LoggedCompaction::new(self.shared.clone())
    }

    /// Runs an agent, built with [`Replay::model`] and [`Replay::tools`], through the log in a
    /// session in memory. Replays of one `Replay` run one after the other.
    ///
    /// # Errors
    ///
    /// Returns the first request that differs from the log, that the log lacks, or that was not
    /// sent. If all requests are equal, returns the first entry that differs in more than its
    /// times.
    pub async fn run(&self, agent: &GenericAgent) -> Result<(), Difference> {
        self.play(agent, Baseline::Log).await.map(drop)
    }

    /// Runs two agents through the log, one after the other, and compares their requests: the
    /// system prompt, messages, tools and all options.
    ///
    /// # Errors
    ///
    /// Returns the first request of `after` that differs from the same request of `before`, or the
    /// deviation of one of them from the log.
    pub async fn compare(
        &self,
        before: &GenericAgent,
        after: &GenericAgent,
    ) -> Result<(), Difference> {
        let sent = self.play(before, Baseline::Unchecked).await?;
        self.play(after, Baseline::Requests(sent)).await.map(drop)
    }

    async fn play(
        &self,
        agent: &GenericAgent,
        baseline: Baseline,
    ) -> Result<Vec<SentRequest>, Difference> {
        if let Some(refusal) = &self.refusal {
            return Err(refusal.clone());
        }
        let _exclusive = self.exclusive.lock().await;
        self.shared.start(baseline);
        for epoch in 0..self.shared.epochs.len() {
            let memory = ReplayMemory::new(self.shared.clone(), self.shared.open(epoch));
            let cx = RunContext::new().session("replay").memory(memory).append_each();
            let opened = agent.run(cx).await.map_err(|why| Difference::other(why.to_string()));
            let followed = match opened {
                Ok((handle, _)) => {
                    self.shared.attach(handle.clone());
                    self.follow(handle).await
                }
                Err(why) => Err(why),
            };
            self.shared.close();
            followed?;
        }
        self.shared.finish()
    }

    /// Follows the agent until it has done its work in this epoch of the log.
    async fn follow(&self, handle: AgentHandle) -> Result<(), Difference> {
        let mut changes = self.shared.changes();
        loop {
            match self.shared.status()? {
                Status::CutOff => return Ok(()),
                Status::AtEnd => {
                    tokio::select! {
                        () = handle.wait_for_idle() => return self.shared.status().map(drop),
                        _ = changes.changed() => continue,
                        () = tokio::time::sleep(self.idle_timeout) => return Err(self.stalled()),
                    }
                }
                Status::SendsWhenIdle => {
                    let idle =
                        tokio::time::timeout(self.idle_timeout, handle.wait_for_idle()).await;
                    idle.map_err(|_| self.stalled())?;
                    self.shared.send_due_inputs(true);
                }
                Status::InProgress => {}
            }
            if tokio::time::timeout(self.idle_timeout, changes.changed()).await.is_err() {
                return Err(self.stalled());
            }
        }
    }
    fn stalled(&self) -> Difference {
        self.shared.stalled(self.idle_timeout)
    }
}

/// Returns the reason why a log with a wait cannot be replayed.
fn wait(log: &[LogEntry]) -> Option<Difference> {
    let at = log.iter().position(|entry| matches!(entry, LogEntry::WaitStarted { .. }))?;
    let text = format!(
        "the pattern waits in entry {at} of the log, and a replay has no clock: it cannot be \
         replayed"
    );
    Some(Difference::at_entry(at, text))
}
