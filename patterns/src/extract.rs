//! [`Extract`]: answers each request with a value of a Rust type.

use std::fmt;
use std::marker::PhantomData;

use async_trait::async_trait;
use loopwright_core::message::{AssistantMessage, UserMessage};
use loopwright_core::{Ask, BehaviorPattern, StepContext, StepEnd, StepError};
use schemars::JsonSchema;
use serde::Serialize;
use serde::de::DeserializeOwned;

/// A pattern that answers each request with a value of type `T`, as JSON.
///
/// ```text
/// take_input ─▶ ask for the value ─▶ does it fit T? ── yes ─▶ remember the value ─▶ done
///                    ▲                   │ no
///                    └── what does not fit
/// ```
///
/// A reply that does not fit is sent back with its mistakes, up to
/// [`Limits::output_retries`](loopwright_core::limits::Limits::output_retries) times. The
/// conversation gets only the value. A message that the user sends in the meantime is answered with
/// another value.
///
/// From: the extractors and output types of agent frameworks.
///
/// **Use it** for extraction and classification, where a program reads the answer.
/// **Do not use it** if the agent needs tools to find the value: then
/// [`AgentBuilder::output`](loopwright_core::AgentBuilder::output) makes the last reply of any
/// pattern a value.
///
/// ```
/// use loopwright_core::testing::{Script, ScriptedModel};
/// use loopwright_core::{GenericAgent, RunContext};
/// use loopwright_patterns::Extract;
///
/// #[derive(serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
/// struct Person {
///     name: String,
///     age: u8,
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let replies = [r#"{"name": "Ada"}"#, r#"{"name": "Ada", "age": 36}"#].map(Script::text);
/// let model = ScriptedModel::new(replies);
/// let agent = GenericAgent::builder(model, Extract::<Person>::new()).build()?;
/// let handle = agent.session().await?;
/// let outcome = handle.prompt("Ada Lovelace died at thirty-six.").await?;
/// let person: Person = serde_json::from_str(&outcome.text)?;
/// assert_eq!((&*person.name, person.age), ("Ada", 36));
/// # Ok(()) }
/// ```
pub struct Extract<T> {
    instruction: String,
    value: PhantomData<fn() -> T>,
}

impl<T> Extract<T> {
    /// Creates a pattern that extracts a `T` from the user's messages.
    pub fn new() -> Self {
        Self::with_instruction("Extract the value from what the user wrote.")
    }

    /// Creates a pattern that asks for a `T` with this instruction, such as "Which language is
    /// it?".
    pub fn with_instruction(instruction: impl Into<String>) -> Self {
        Extract { instruction: instruction.into(), value: PhantomData }
    }
}

impl<T> Default for Extract<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T> Clone for Extract<T> {
    fn clone(&self) -> Self {
        Self::with_instruction(&*self.instruction)
    }
}

impl<T> fmt::Debug for Extract<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Extract").field("instruction", &self.instruction).finish_non_exhaustive()
    }
}

#[async_trait]
impl<T: DeserializeOwned + Serialize + JsonSchema + Send> BehaviorPattern for Extract<T> {
    async fn next_step(&self, step: &mut StepContext<'_>) -> Result<StepEnd, StepError> {
        while !step.all_answered().await? {
            let ask = Ask::detached().key("extract").also(UserMessage::from(&*self.instruction));
            // The value instead of the reply: a JSON text without a fence or spaces.
            let json = serde_json::to_string(&step.ask_for::<T>(ask).await?);
            let json = json.map_err(StepError::pattern)?;
            step.remember(AssistantMessage::from(json)).await?;
        }
        Ok(StepEnd::Done)
    }
}
