//! [`GenericAgent::prompt`], which runs a single prompt, and [`PromptError`].

use std::fmt;

use futures_util::FutureExt;

use crate::agent::GenericAgent;
use crate::error::{AgentError, InputError};
use crate::event::input::Prompt;
use crate::event::outcome::{RunOutcome, RunStatus};
use crate::session::AgentHandle;

/// The reason why a single prompt has no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PromptError {
    /// The agent could not be built or started.
    #[error(transparent)]
    Agent(#[from] AgentError),
    /// The prompt was not accepted.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The run ended without an answer. Its outcome contains the reason.
    #[error("{}", Reason(.0))]
    Run(Box<RunOutcome>),
    /// The value of the answer fits the schema of the requested type, but not the type.
    #[error("the answer is not a value of the requested type: {0}")]
    Value(String),
}

/// The reason why a run has no answer, for display.
struct Reason<'a>(&'a RunOutcome);

impl fmt::Display for Reason<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = self.0;
        let detail = outcome.error.as_deref().unwrap_or_default();
        match (outcome.end, outcome.limit, outcome.incomplete) {
            (RunStatus::AwaitingAction, ..) => f.write_str(
                "a call waits for an approval or for input: allow its tool with \
                 `AgentBuilder::approve`, or open a session with `GenericAgent::session`, and \
                 decide with `AgentHandle::approve` or `deny`",
            ),
            (RunStatus::Sleeping, ..) => f.write_str(
                "the agent waits for a time or an event: open a session with \
                 `GenericAgent::session`, where it continues",
            ),
            (RunStatus::Aborted, ..) => f.write_str("the run was aborted"),
            (RunStatus::Incomplete, _, Some(why)) => why.fmt(f),
            _ if !detail.is_empty() => f.write_str(detail),
            (RunStatus::Limit, Some(limit), _) => write!(f, "{limit} is reached"),
            _ => write!(f, "the run ended without an answer: {:?}", outcome.end),
        }
    }
}

/// A guard that aborts the run of a session when it is dropped.
struct AbortOnDrop<'a>(&'a AgentHandle);

impl Drop for AbortOnDrop<'_> {
    fn drop(&mut self) {
        // The first poll sends the abort.
        let _ = self.0.abort().now_or_never();
    }
}

impl GenericAgent {
    /// Runs a single prompt in a new session in memory and returns the outcome, whose
    /// [`text`](RunOutcome::text) is the answer. The session ends with it.
    ///
    /// Use it for requests that stand alone. For conversations, events, approvals and steering,
    /// open a session with [`GenericAgent::run`].
    ///
    /// ```
    /// use loopwright_core::testing::{Script, ScriptedModel};
    /// # use loopwright_core::{BehaviorPattern, StepContext, StepEnd, StepError};
    /// # struct Once;
    /// # #[async_trait::async_trait]
    /// # impl BehaviorPattern for Once {
    /// #     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
    /// #         step.take_input().await?;
    /// #         step.ask().await?.finish()
    /// #     }
    /// # }
    /// use loopwright_core::GenericAgent;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let agent = GenericAgent::builder(ScriptedModel::new([Script::text("Hi.")]), Once).build()?;
    /// assert_eq!(agent.prompt("Hello").await?.text, "Hi.");
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    ///
    /// Fails unless the run ends with [`RunStatus::Done`]. A failed or incomplete reply, a limit
    /// that is reached without an [answer](crate::limits::WrapUp), and a call that waits for a
    /// decision are errors here.
    ///
    /// # Panics
    ///
    /// Panics outside of a tokio runtime, or if time is not enabled in it.
    ///
    /// # Cancellation
    ///
    /// Dropping the future aborts the run.
    pub async fn prompt(&self, prompt: impl Into<Prompt>) -> Result<RunOutcome, PromptError> {
        let handle = self.session().await?;
        // After the end of the run, the abort does nothing.
        let guard = AbortOnDrop(&handle);
        let outcome = guard.0.prompt(prompt).await?;
        match outcome.end {
            RunStatus::Done => Ok(outcome),
            _ => Err(PromptError::Run(Box::new(outcome))),
        }
    }
}
