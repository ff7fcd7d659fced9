//! The extension point for loops: [`BehaviorPattern`].

pub(crate) mod context;
mod role;
pub(crate) mod step;

pub use context::AgentContext;
pub use step::StepContext;

use std::sync::Arc;

use async_trait::async_trait;
use serde::de::DeserializeOwned;

use crate::error::StepError;
use crate::message::ToolResult;
use crate::session::request::reply::{Reply, json_of_answer};
use crate::step_end::StepEnd;
use crate::tool::Tool;

/// The loop between the user, the model and the tools.
///
/// A pattern is ordinary async code that calls the methods of [`StepContext`]. Wrappers around
/// other patterns implement the trait too.
///
/// # Contract
///
/// - One value serves all sessions, so a pattern must not keep state of a session in its fields. It
///   may keep values with [`StepContext::set_state`] and [`StepContext::set_session_state`], which
///   are part of the session's log.
/// - A pattern must reach models, tools, time and randomness through the step only. Otherwise a run
///   cannot be replayed, and its requests are neither counted nor logged.
/// - [`next_step`](BehaviorPattern::next_step) must continue from the conversation and the stored
///   state. It is called from its start for each input, after a decision on an external action, and
///   after a restart. The session has already closed the open batch.
/// - After a reply with tool calls the pattern must call [`StepContext::call_tools`] before it asks
///   again. Otherwise the request fails with [`StepError::BatchOpen`].
/// - It should end when [`Reply::should_stop`] returns `true`, and should return
///   [`StepEnd::AwaitingAction`] only while calls wait for decisions, and [`StepEnd::Sleeping`]
///   only while it [waits](StepContext::sleep_until) for a time or an event.
/// - It may panic. The run then ends with [`StepError::Panicked`].
///
/// `loopwright_patterns::conformance` checks a pattern against this contract.
///
/// # Cancellation
///
/// The future of `next_step` is dropped at an await point if the run is aborted or reaches a limit.
/// The session then closes open work: an incomplete reply is logged as aborted, running tools are
/// cancelled, and every call gets a result. A pattern must not rely on code after an await point to
/// run. Values that were set before remain.
///
/// # Example
///
/// A pattern that asks the model to check its answer once:
///
/// ```
/// use loopwright_core::message::UserMessage;
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{
///     BehaviorPattern, GenericAgent, StepContext, StepEnd, StepError,
/// };
///
/// struct CheckOnce;
///
/// #[async_trait::async_trait]
/// impl BehaviorPattern for CheckOnce {
///     fn system_instruction(&self, header: &str) -> String {
///         format!("{header} When asked to check an answer, reply with the corrected answer.")
///     }
///
///     async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
///         step.take_input().await?;
///         let draft = step.ask().await?.or_end()?;
///         step.remember(UserMessage::from("Check your answer.")).await?;
///         step.ask().await?.finish()
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let model = ScriptedModel::new([Script::text("It is 41."), Script::text("It is 42.")]);
/// let agent = GenericAgent::builder(model, CheckOnce).system("You calculate.").build()?;
/// let handle = agent.session().await?;
/// assert_eq!(handle.prompt("What is 6 times 7?").await?.text, "It is 42.");
/// # Ok(()) }
/// ```
#[async_trait]
pub trait BehaviorPattern: Send + Sync {
    /// Returns the system prompt, built from the agent's header. The default is the prompt of the
    /// [inner](BehaviorPattern::inner) pattern, else the header. Called once, when the agent is
    /// built.
    fn system_instruction(&self, header: &str) -> String {
        self.inner().map_or_else(|| header.to_owned(), |inner| inner.system_instruction(header))
    }

    /// Returns the tools that the loop needs, in addition to the agent's own. The default is the
    /// tools of the [inner](BehaviorPattern::inner) pattern. Called once, when the builder of the
    /// agent is created.
    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        self.inner().map(BehaviorPattern::tools).unwrap_or_default()
    }

    /// Returns the pattern that this one wraps. If a wrapper implements this method, it gets the
    /// prompt and the tools of the inner pattern.
    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        None
    }

    /// Continues the conversation until the agent is done or waits for decisions.
    ///
    /// # Errors
    ///
    /// An error ends the run, and its text becomes the text of the outcome. Pass errors of the step
    /// on with `?`. [`StepError::pattern`] builds a pattern's own.
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError>;
}

#[async_trait]
impl<P: BehaviorPattern + ?Sized> BehaviorPattern for Arc<P> {
    fn system_instruction(&self, header: &str) -> String {
        (**self).system_instruction(header)
    }

    fn tools(&self) -> Vec<Arc<dyn Tool>> {
        (**self).tools()
    }

    fn inner(&self) -> Option<&dyn BehaviorPattern> {
        (**self).inner()
    }

    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        (**self).next_step(step).await
    }
}

impl Reply {
    /// Returns the value that ends the step after this reply: `Done`, or an error. With `?`, the
    /// error ends the step even through patterns that wrap this one.
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Model`] if the model failed, and with [`StepError::Ended`] if a hook
    /// ended the run.
    pub fn finish(self) -> Result<StepEnd, StepError> {
        match self.error {
            Some(error) => Err(error.into()),
            None if self.ended_by_hook => Err(StepEnd::Done.into()),
            None => Ok(StepEnd::Done),
        }
    }
}

impl ToolResult {
    /// Parses the text as JSON of this type, such as the answer of a sub-agent that was built with
    /// [`AgentBuilder::output`](crate::AgentBuilder::output).
    ///
    /// # Errors
    ///
    /// Fails with [`StepError::Pattern`] if the call failed or did not run, and with
    /// [`StepError::Output`] if the text does not fit the type.
    pub fn output<T: DeserializeOwned>(&self) -> Result<T, StepError> {
        let (name, text) = (&self.name, self.text());
        if self.is_error() {
            return Err(StepError::Pattern(format!("`{name}` gave no answer: {text}").into()));
        }
        let value = serde_json::from_str(json_of_answer(&text));
        value.map_err(|error| StepError::Output(format!("`{name}` answered `{text}`: {error}")))
    }
}
