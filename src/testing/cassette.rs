//! [`Cassette`]: a recording of an agent's models and tools, and its replay without them.

mod diff;
mod error;
mod file;
mod model;
mod player;
mod recorded_spec;
mod recorder;
mod request;
mod session_name;
mod tape;
mod tool;
mod wrapped_parts;

use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

pub use error::{CassetteError, CassetteErrorKind};

use crate::agent::GenericAgent;
use crate::model::ChatModel;
use file::AgentKey;
use model::Unused;
use player::Player;
use recorder::Recorder;
use tape::{Shared, Tape};
use wrapped_parts::WrappedParts;

/// A recording of the models and tools of an agent and its sub-agents in one file, and its replay
/// without them: a replay sends no request, and no tool has an effect.
///
/// [`Cassette::agent`] wraps a built agent. The rest of a test (inputs, decisions, aborts and
/// sessions) is the same for recording and replay.
///
/// ```
/// use loopwright_core::GenericAgent;
/// use loopwright_core::testing::{Cassette, Script, ScriptedModel, TestTool};
/// use loopwright_core::tool::Effect;
/// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
/// # struct Loop;
/// # #[async_trait::async_trait]
/// # impl BehaviorPattern for Loop {
/// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
/// #         step.take_input().await?;
/// #         loop {
/// #             let reply = step.ask().await?;
/// #             step.call_tools(&reply).await?;
/// #             if !reply.has_calls() { return reply.finish() }
/// #         }
/// #     }
/// # }
/// # type Error = Box<dyn std::error::Error>;
///
/// async fn warmth(cassette: &Cassette, system: &str) -> Result<String, Error> {
///     // A model of a provider, say; the closure is only called to record.
///     let model = cassette.model(|| {
///         let look = Script::calls([("c1", "look", serde_json::json!({}))]);
///         Ok::<_, Error>(ScriptedModel::new([look, Script::text("It is 21 °C.")]))
///     })?;
///     let look = TestTool::new("look").effect(Effect::ReadOnly).answers("21");
///     let agent = GenericAgent::builder(model, Loop).tool(look).system(system).build()?;
///     let handle = cassette.agent(agent).session().await?;
///     let outcome = handle.prompt("How warm is it?").await?;
///     Ok(outcome.text)
/// }
///
/// # #[tokio::main(flavor = "current_thread")] async fn main() -> Result<(), Error> {
/// # let folder = tempfile::tempdir()?;
/// # let path = folder.path().join("warmth.jsonl");
/// // Records, as the file does not exist.
/// let cassette = Cassette::auto(&path)?;
/// assert_eq!(warmth(&cassette, "Look first.").await?, "It is 21 °C.");
/// cassette.finish()?;
///
/// // Replays.
/// let cassette = Cassette::auto(&path)?;
/// assert_eq!(warmth(&cassette, "Look first.").await?, "It is 21 °C.");
/// cassette.finish()?;
///
/// // Another system prompt: the first request differs.
/// let cassette = Cassette::replay(&path)?;
/// warmth(&cassette, "Do not look.").await?;
/// let error = cassette.finish().unwrap_err().to_string();
/// assert!(error.contains("\n-   Look first.\n+   Do not look.\n"), "{error}");
/// # Ok(()) }
/// ```
///
/// # What is recorded
///
/// - Each request to each model of the agent, named models included, as the model gets it after all
///   hooks: the system prompt, messages, tools and options. Each event of the reply.
/// - Each call of each tool: its arguments, its updates, and its result, error or suspension. The
///   input that a decision provides for a suspended call is not recorded, because it can be a
///   secret. So a replay does not notice a different input. The agent's own reaction to a decision
///   is recorded: edited arguments, the reason of a denial, a result.
/// - The tools that the agent's sources list, and the properties of its models.
///
/// Patterns, hooks, predicates, compaction policies and memories run in a replay as in a recording.
/// Their own actions, such as reading a file, are not recorded. A pattern that uses time or random
/// numbers needs a fixed [`Environment`](crate::Environment).
///
/// # How it is replayed
///
/// A request or call is found by its session, its content, and, among equal ones, their order. So
/// concurrent requests and calls may come in any order. The ids of messages and sessions are not
/// compared: a session without a name in the cassette is the next one there that begins with the
/// same request.
///
/// Replies and results come at once. A reply that was aborted or interrupted during recording waits
/// after its last event to be cut off again, for at most one minute. A call that was cancelled
/// waits for its cancellation.
///
/// Replay ends at the first divergence: all further requests and calls fail with the error that
/// [`Cassette::finish`] returns.
///
/// # The file
///
/// The file consists of lines of JSON. It contains the whole conversation, but no key and no header
/// of a provider. Only its owner can read it. It contains no time of day, and a number in place of
/// a random session id, so a run that does the same writes the same file. A file without its last
/// line, which [`Cassette::finish`] writes, is refused as truncated.
#[derive(Clone)]
pub struct Cassette {
    shared: Shared,
    is_recording: bool,
    /// Number of agents wrapped so far.
    agents: Arc<AtomicUsize>,
}

impl Cassette {
    /// Records to a new file, creating missing folders.
    ///
    /// # Errors
    ///
    /// Fails if the file exists already or cannot be written.
    pub fn record(path: impl AsRef<Path>) -> Result<Self, CassetteError> {
        Ok(Self::new(Tape::Record(Recorder::create(path.as_ref())?), true))
    }

    /// Replays the file.
    ///
    /// # Errors
    ///
    /// Fails if the file cannot be read, is not a cassette, was written by a later version, or is
    /// truncated.
    pub fn replay(path: impl AsRef<Path>) -> Result<Self, CassetteError> {
        Ok(Self::new(Tape::Replay(Player::open(path.as_ref())?), false))
    }

    /// Replays the file if it exists, else records it. Delete the file to record again.
    ///
    /// # Errors
    ///
    /// Fails like [`Cassette::record`] and [`Cassette::replay`].
    pub fn auto(path: impl AsRef<Path>) -> Result<Self, CassetteError> {
        let path = path.as_ref();
        if path.exists() { Self::replay(path) } else { Self::record(path) }
    }

    fn new(tape: Tape, is_recording: bool) -> Self {
        Cassette { shared: Shared::new(tape), is_recording, agents: Arc::default() }
    }

    /// Returns whether the cassette is recording, not replaying.
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// Builds a model for recording. In a replay, returns a stand-in without calling `build`, so
    /// that no key is needed. The model's agent must be wrapped with [`Cassette::agent`].
    ///
    /// # Errors
    ///
    /// Fails like `build`.
    pub fn model<M: ChatModel + 'static, E>(
        &self,
        build: impl FnOnce() -> Result<M, E>,
    ) -> Result<Arc<dyn ChatModel>, E> {
        Ok(if self.is_recording { Arc::new(build()?) } else { Arc::new(Unused::new()) })
    }

    /// Wraps the models and tools of an agent and its sub-agents, for recording or replay. Several
    /// agents can share a cassette; a replay must wrap them in the same order.
    pub fn agent(&self, agent: GenericAgent) -> GenericAgent {
        let number = self.agents.fetch_add(1, Ordering::Relaxed) + 1;
        let of = AgentKey { agent: number, sub_agent: String::new() };
        agent.with_parts(&WrappedParts { shared: self.shared.clone(), of })
    }

    /// Returns the number of requests and calls that have not been replayed; 0 while recording.
    pub fn remaining(&self) -> usize {
        match &*self.shared.lock() {
            Tape::Record(_) => 0,
            Tape::Replay(player) => player.remaining(),
        }
    }

    /// Ends the cassette. Call this after the last run has ended.
    ///
    /// # Errors
    ///
    /// While recording: fails if the file could not be written. In a replay: returns the first
    /// divergence, else the list of requests and calls that were not replayed.
    pub fn finish(&self) -> Result<(), CassetteError> {
        match &mut *self.shared.lock() {
            Tape::Record(recorder) => recorder.finish(),
            Tape::Replay(player) => player.finish(),
        }
    }
}

impl fmt::Debug for Cassette {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cassette").field("is_recording", &self.is_recording).finish_non_exhaustive()
    }
}
